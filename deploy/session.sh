#!/bin/bash
# The job script of every session. Its text is constant: what differs comes as arguments (the
# command) and in the environment (PORTAL_…, APPTAINERENV_…), and none of it is evaluated.
#
#   APPTAINERENV_NAME   NAME for the server. Apptainer passes these into a container by itself;
#                       for the other kinds of environment they are renamed here.
#   PORTAL_KIND         container | beside (a container for the kernels alone) | modules | venv
#   PORTAL_IMAGE        the image, as it stands in the command; with it come:
#   PORTAL_APPTAINER    Apptainer's program
#   PORTAL_VERIFY       1: no session without a good signature
#   PORTAL_KEYS         a file with the public keys for that; empty: the node's own keyrings
#   PORTAL_NODE_COPY    the folder into which this node has unpacked the image, maybe
#   PORTAL_IMAGE_ACCOUNT  whose that folder is
#   PORTAL_COURSE_HOME  a course's session: its home as it is seen there
#   PORTAL_COURSE_FOLDER  the folder on the node that is that home; empty: it is thrown away
#   PORTAL_COURSE_DATA_ROOT, PORTAL_COURSE_DATA
#                       a folder of the site, and where below it the course's data are; maybe empty
#   PORTAL_COURSE_BIND  what it has beside that, as Apptainer's --bind takes it; maybe empty
#   PORTAL_MODULES      modules to load, separated by spaces
#   PORTAL_GPU_VARIABLES  names of the variables that name the job's GPUs, separated by spaces
#                       (portal/gpus/); a container gets those that Slurm has set
#   PORTAL_UMASK        the umask of the session
#   PORTAL_SSL_KEY, PORTAL_SSL_CERT, PORTAL_SSL_CA
#                       base64 of this server's certificate for JupyterHub's internal_ssl
set -u
# How long the environment takes to start (portal_session/startup.py); bash 5 knows the time.
export APPTAINERENV_PORTAL_SCRIPT_AT="${EPOCHREALTIME:-}"
umask "${PORTAL_UMASK:-0022}"
# The first line of its log: from then on the Hub knows that the job has begun on its node, also
# where that node does not answer Slurm any more (spawners/spawner.py).
[ -z "${SLURMD_NODENAME:-}" ] || echo "Job ${SLURM_JOB_ID:-} runs on $SLURMD_NODENAME."
# When Slurm ends a job, the image's mount may go before the server: that would leave a core file
# of the server's size in the home. A soft limit, so that whoever wants core files can have them.
ulimit -S -c 0

# Removes those of $@ that are folders of ours and of a job that is over: "…-ID.xyz" or "ID".
sweep() {
  local old id
  for old; do
    id="${old##*[-/]}" id="${id%%.*}"
    [[ "$id" =~ ^[0-9]+$ && -d "$old" && -O "$old" && ! -L "$old" ]] || continue
    case $(squeue --noheader --job="$id" 2>&1) in
      "" | *"Invalid job id"*) rm -rf -- "$old" ;;
    esac
  done
}

# A link in the place of a course's folder would open whatever it leads to.
elsewhere() {
  echo "The course's folder leads elsewhere: $folder" >&2
  exit 74
}

# The variable $1 becomes the place where the folder $2 really is; without another process, since a
# class starts all at once.
real() {
  local back=$PWD
  cd -P -- "$2" || return
  printf -v "$1" %s "$PWD"
  cd -- "$back"
}

work="" # what this session has on the node, and what is removed when it ends
if [ -n "${PORTAL_COURSE_HOME:-}" ]; then
  # Others may be let into a course's session: it sees the course's folder, and temporary folders
  # of its own, which are on a disk (Apptainer's own are 64 MiB of memory).
  # Of this Hub alone: Slurm does not know another's jobs here, and they are not over.
  hub="${APPTAINERENV_JUPYTERHUB_API_URL:-}"
  place="${TMPDIR:-/tmp}/portal-course-$EUID-${hub//[^[:alnum:]]/}"
  sweep "$place"-*
  work="$place-$SLURM_JOB_ID.$RANDOM$RANDOM$RANDOM"
  folder="${PORTAL_COURSE_FOLDER:-$work/home}"
  [ ! -L "$folder" ] || elsewhere
  above=""
  [ -e "${folder%/*}" ] || above="${folder%/*}"
  # One process for all of it, whatever the umask, an ACL of the folder above, or the mode of a
  # folder that is there already.
  install -d -m 0700 -- ${above:+"$above"} "$work" "$work/tmp" "$work/var_tmp" "$folder" || exit 74
  if [ ! -O "$work" ] || [ -L "$work" ]; then
    echo "Somebody else made $work." >&2
    exit 74
  fi
  if [ -n "${PORTAL_COURSE_FOLDER:-}" ]; then
    if ! real home "${folder%/courses/*}" || ! real there "$folder" ||
      [ "$there" != "$home/courses/${folder##*/}" ]; then
      rm -rf -- "$work"
      elsewhere
    fi
  fi
  if [ -n "${PORTAL_COURSE_DATA:-}" ] && [ "$PORTAL_COURSE_DATA" != . ]; then
    # Who writes there could have it lead to where the owner of this session keeps other files.
    if ! real root "$PORTAL_COURSE_DATA_ROOT" ||
      ! real there "$PORTAL_COURSE_DATA_ROOT/$PORTAL_COURSE_DATA" ||
      [ "$there" != "${root%/}/$PORTAL_COURSE_DATA" ]; then
      echo "The course's data cannot be read, or lead elsewhere: $PORTAL_COURSE_DATA" >&2
      rm -rf -- "$work"
      exit 74
    fi
  fi
  # Whatever a profile or prolog of the node would mount into containers.
  for name in BIND BINDPATH MOUNT OVERLAY OVERLAYIMAGE FUSESPEC SCRATCH SCRATCHDIR; do
    unset "APPTAINER_$name" "SINGULARITY_$name"
  done
  export APPTAINER_HOME="$folder:$PORTAL_COURSE_HOME" APPTAINER_WORKDIR="$work"
  export SINGULARITY_HOME="$APPTAINER_HOME" SINGULARITY_WORKDIR="$work"
  if [ -n "${PORTAL_COURSE_BIND:-}" ]; then
    # Not in the command: that is the same for everyone in the course.
    export APPTAINER_BINDPATH="$PORTAL_COURSE_BIND" SINGULARITY_BINDPATH="$PORTAL_COURSE_BIND"
  fi
fi
unset PORTAL_COURSE_HOME PORTAL_COURSE_FOLDER PORTAL_COURSE_BIND
unset PORTAL_COURSE_DATA_ROOT PORTAL_COURSE_DATA

if [ -n "${PORTAL_SSL_KEY:-}" ]; then
  if [ -n "$work" ]; then
    tls="$work/tmp/portal-tls" seen=/tmp/portal-tls
  else
    tls="$HOME/.portal/tls/$SLURM_JOB_ID"
    seen="$tls"
  fi
  # The job's command replaces this script, so the next one clears up: what jobs left that are over.
  sweep "$HOME"/.portal/tls/*
  (
    umask 077
    mkdir -p "$tls"
    base64 -d <<<"$PORTAL_SSL_KEY" >"$tls/key.pem"
    base64 -d <<<"$PORTAL_SSL_CERT" >"$tls/cert.pem"
    base64 -d <<<"$PORTAL_SSL_CA" >"$tls/ca.pem"
  ) || exit 70
  export APPTAINERENV_JUPYTERHUB_SSL_KEYFILE="$seen/key.pem"
  export APPTAINERENV_JUPYTERHUB_SSL_CERTFILE="$seen/cert.pem"
  export APPTAINERENV_JUPYTERHUB_SSL_CLIENT_CA="$seen/ca.pem"
fi
unset PORTAL_SSL_KEY PORTAL_SSL_CERT PORTAL_SSL_CA

# Whether $1 is a folder of root's or of the builds' account, where nobody else can write.
theirs() {
  local mode number name kind
  read -r mode number name kind < <(stat --format='%a %u %U %F' -- "$1" 2>/dev/null) || return 1
  [ "$kind" = directory ] && [ $((8#$mode & 8#022)) = 0 ] &&
    { [ "$number" = 0 ] || [ "$name" = "${PORTAL_IMAGE_ACCOUNT:-root}" ]; }
}

if [ -n "${PORTAL_IMAGE:-}" ]; then
  image="$PORTAL_IMAGE"
  copy="${PORTAL_NODE_COPY:-}"
  if [ -n "$copy" ] && theirs "$copy" && theirs "$(dirname -- "$copy")"; then
    image="$copy" # its signature was looked at when it was unpacked
  elif [ "${PORTAL_VERIFY:-}" = 1 ]; then
    keys=""
    if [ -n "${PORTAL_KEYS:-}" ]; then
      # Apptainer takes no keyring that is another account's, or that others can read.
      keys=$(mktemp --directory) && cp -- "$PORTAL_KEYS" "$keys/pgp-public" || exit 73
      export APPTAINER_KEYSDIR="$keys"
    fi
    "$PORTAL_APPTAINER" verify --all --local "$image" >/dev/null
    status=$?
    [ -n "$keys" ] && rm -rf -- "$keys"
    unset APPTAINER_KEYSDIR
    if [ "$status" != 0 ]; then
      echo "The image has no good signature: $image" >&2
      exit 73
    fi
  fi
  words=()
  for word; do
    [ "$word" = "$PORTAL_IMAGE" ] && word="$image"
    words+=("$word")
  done
  set -- "${words[@]}"
  if [ "${PORTAL_KIND:-}" = beside ]; then
    # The server starts its kernels in it (portal_session/kernels/container.py).
    export APPTAINERENV_PORTAL_IMAGE="$image"
  fi
fi
unset PORTAL_VERIFY PORTAL_KEYS PORTAL_NODE_COPY PORTAL_IMAGE_ACCOUNT PORTAL_APPTAINER PORTAL_IMAGE

# Slurm takes these from whoever submits; a node without them knows the account all the same.
[ -n "${USER:-}" ] || USER=$(id -un)
export USER LOGNAME="${LOGNAME:-$USER}"

if [ "${PORTAL_KIND:-}" = container ]; then
  # Known only here, in the job, and dropped by --cleanenv.
  for name in ${PORTAL_GPU_VARIABLES:-CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL ROCR_VISIBLE_DEVICES} \
    USER LOGNAME SHELL ${!SLURM@}; do
    # ${!name} would evaluate what is no name: "a[$(date)]".
    [[ "$name" =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || continue
    [ -n "${!name+x}" ] && export "APPTAINERENV_$name=${!name}"
  done
  if [ "${1##*/}" = singularity ]; then
    # SingularityCE knows the older prefix only.
    for name in ${!APPTAINERENV_@}; do
      export "SINGULARITYENV_${name#APPTAINERENV_}=${!name}"
    done
  fi
else
  passed=""
  for name in ${!APPTAINERENV_@}; do
    export "${name#APPTAINERENV_}=${!name}"
    passed+=" ${name#APPTAINERENV_}"
    unset "$name"
  done
  if [ "${PORTAL_KIND:-}" = beside ]; then
    export PORTAL_PASSED="$passed"
  fi
fi

unset PORTAL_GPU_VARIABLES

if [ "${PORTAL_KIND:-}" = modules ] && [ -n "${PORTAL_MODULES:-}" ]; then
  if ! type module >/dev/null 2>&1; then
    for init in "${MODULESHOME:-/usr/share/modules}/init/bash" /etc/profile.d/modules.sh \
      /usr/share/lmod/lmod/init/bash /etc/profile.d/lmod.sh; do
      # shellcheck disable=SC1090
      [ -r "$init" ] && { set +u; . "$init"; set -u; break; }
    done
  fi
  read -ra modules <<<"$PORTAL_MODULES"
  set +u
  if ! module load "${modules[@]}"; then
    echo "The modules could not be loaded: $PORTAL_MODULES" >&2
    exit 71
  fi
  # module load says what is wrong on stderr and, in older versions, succeeds all the same.
  for name in "${modules[@]}"; do
    case ":${LOADEDMODULES:-}:" in
      *":$name:"* | *":$name/"*) ;;
      *)
        echo "The module '$name' could not be loaded." >&2
        exit 71
        ;;
    esac
  done
  set -u
fi

[ -n "$work" ] || exec "$@"
# A process group of its own (-m), or interrupts would be ignored in all that it starts.
set -m
"$@" &
server=$!
trap 'kill -TERM "$server" 2>/dev/null' TERM
while
  wait "$server"
  status=$?
  kill -0 "$server" 2>/dev/null
do :; done
trap - TERM
rm -rf -- "$work"
exit "$status"
