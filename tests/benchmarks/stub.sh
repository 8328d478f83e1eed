#!/bin/bash
# A session in the benchmarks: says its port, as a server does, and waits for its end. It costs a
# few milliseconds, so that what is measured is the launch: no other process but the last. $1: the
# route below the Hub's API; $2: the port, that of the one responder which answers for all.
#
# It also stands in the place of Apptainer: "exec", options, the image (this file), the command (this
# file again), then the two. Apptainer hands on what starts with APPTAINERENV_ by itself.
set -u
if [ "${1:-}" = exec ]; then
  JUPYTERHUB_API_URL="$APPTAINERENV_JUPYTERHUB_API_URL"
  JUPYTERHUB_API_TOKEN="$APPTAINERENV_JUPYTERHUB_API_TOKEN"
  while [ "${1##*/}" != stub.sh ]; do
    shift || exit 64
  done
  shift 2
fi
address="${JUPYTERHUB_API_URL#http://}"
host="${address%%/*}" path="/${address#*/}/$1" body="{\"port\": $2}"$'\n'
# On no command line, since everyone can read those.
request="POST $path HTTP/1.1
Host: $host
Authorization: token $JUPYTERHUB_API_TOKEN
Content-Type: application/json
Content-Length: ${#body}
Connection: close

"

say() {
  local answer
  exec 3<>"/dev/tcp/${host%:*}/${host##*:}" || return
  echo -n "${request//$'\n'/$'\r\n'}$body" >&3 # in one piece, since it ends with a new line
  read -r _ answer _ <&3
  exec 3>&-
  [[ "$answer" == 2?? ]]
}

for pause in 1 2 4; do
  say && exec sleep 1200
  sleep "$pause"
done
say && exec sleep 1200
echo "The port could not be posted to $host." >&2
exit 1
