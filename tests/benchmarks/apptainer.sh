#!/bin/sh
# In the place of Apptainer where a benchmark measures a launch and not a container: executes what
# follows the image, which is the stub.
while [ "${1##*/}" != stub.sh ]; do
  shift || exit 64
done
exec "$@"
