#!/bin/sh
# In the place of Apptainer where a benchmark measures a launch and not a container: executes what
# follows the image, which is the stub.
while [ "${1##*/}" != stub.sh ]; do
  shift || exit 64
done
shift # the image, in whose place the stub stands too
# What Apptainer hands on to the inside by itself.
export JUPYTERHUB_API_URL="$APPTAINERENV_JUPYTERHUB_API_URL"
export JUPYTERHUB_API_TOKEN="$APPTAINERENV_JUPYTERHUB_API_TOKEN"
exec "$@"
