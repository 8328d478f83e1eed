#!/bin/sh
# A session in the benchmarks: says its port, as a server does, and waits for its end. It costs a
# few milliseconds, so that what is measured is the launch. $1: the route below the Hub's API; $2:
# the port, that of the one responder which answers for all.
# The header is on standard input, since a command line can be read by everyone.
curl --silent --show-error --fail --retry 3 --header @- --output /dev/null \
  --data "{\"port\": $2}" "$JUPYTERHUB_API_URL/$1" <<END
Authorization: token $JUPYTERHUB_API_TOKEN
Content-Type: application/json
END
exec sleep 1200
