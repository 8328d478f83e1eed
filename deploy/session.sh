#!/bin/bash
# Job script of every session. Its text is constant: the command comes as arguments, other values in
# the environment (PORTAL_…, APPTAINERENV_…), and none of them is evaluated as shell code.
#
#   APPTAINERENV_NAME   NAME for the server. Apptainer passes these into a container by itself;
#                       for the other kinds of environment they are renamed here.
#   PORTAL_KIND         container | beside (a container for the kernels alone) | modules | venv
#   PORTAL_IMAGE        the image, as in the command; with it come:
#   PORTAL_APPTAINER    Apptainer's program
#   PORTAL_VERIFY       1: no session without a good signature
#   PORTAL_KEYS         file with the public keys for that; empty: the node's own keyrings
#   PORTAL_NODE_COPY    folder into which this node may have unpacked the image; may be empty
#   PORTAL_IMAGE_ACCOUNT  owner of that folder
#   PORTAL_COURSE_HOME  in a course's session: path of its home inside the container
#   PORTAL_COURSE_FOLDER  folder on the node that becomes that home; empty: a temporary one
#   PORTAL_COURSE_DATA_ROOT, PORTAL_COURSE_DATA
#                       a folder of the site, and the path of the course's data below it; may be empty
#   PORTAL_COURSE_BIND  further bind mounts, in the format of Apptainer's --bind; may be empty
#   PORTAL_MODULES      modules to load, separated by spaces
#   PORTAL_GPU_VARIABLES  names of the variables that name the job's GPUs, separated by spaces
#                       (portal/gpus/); a container gets those that Slurm has set
#   PORTAL_RESUMES      of a run's point: how many times it goes on after its time limit; not set: never
#   PORTAL_RANKS        of a run's script: its ranks on each node; 0: one for each GPU if the job has
#                       several nodes, else a single process; not set: always a single process
#   PORTAL_UMASK        the umask of the session
#   PORTAL_SSL_KEY, PORTAL_SSL_CERT, PORTAL_SSL_CA
#                       base64 of this server's certificate for JupyterHub's internal_ssl
set -u
# How long the environment takes to start (portal_session/startup.py); bash 5 knows the time.
export APPTAINERENV_PORTAL_SCRIPT_AT="${EPOCHREALTIME:-}"
umask "${PORTAL_UMASK:-0022}"
# First line of the job's log. It tells the Hub that the job has started on its node, even if that
# node no longer answers Slurm (spawners/spawner.py).
[ -z "${SLURMD_NODENAME:-}" ] || echo "Job ${SLURM_JOB_ID:-} runs on $SLURMD_NODENAME.${APPTAINERENV_PORTAL_REQUEST_ID:+ Request $APPTAINERENV_PORTAL_REQUEST_ID.}"
# When Slurm ends a job, the image may be unmounted before the server ends, which would leave a core
# file of the server's size in the home. A soft limit: users can raise it.
ulimit -S -c 0

# Remove the folders in $@ that belong to this account and to an ended job: "…-ID.xyz" or "ID".
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

# A symbolic link instead of a course's folder could point to any folder of the owner.
elsewhere() {
  echo "The course's folder leads elsewhere: $folder" >&2
  exit 74
}

# Set variable $1 to the resolved path of folder $2. No process is started, since all sessions of a
# class start at the same time.
real() {
  local back=$PWD
  cd -P -- "$2" || return
  printf -v "$1" %s "$PWD"
  cd -- "$back"
}

work="" # this session's temporary folder on the node, removed at its end
if [ -n "${PORTAL_COURSE_HOME:-}" ]; then
  # Other users may be admitted to a course's session, so it sees only the course's folder and its
  # own temporary folders, which are on a disk (Apptainer's own are 64 MiB of memory).
  # The name includes the Hub: Slurm here may not know the running jobs of other Hubs.
  hub="${APPTAINERENV_JUPYTERHUB_API_URL:-}"
  place="${TMPDIR:-/tmp}/portal-course-$EUID-${hub//[^[:alnum:]]/}"
  sweep "$place"-*
  work="$place-$SLURM_JOB_ID.$RANDOM$RANDOM$RANDOM"
  folder="${PORTAL_COURSE_FOLDER:-$work/home}"
  [ ! -L "$folder" ] || elsewhere
  above=""
  [ -e "${folder%/*}" ] || above="${folder%/*}"
  # A single process for all folders, regardless of the umask, an ACL of the parent folder, or the
  # mode of an existing folder.
  install -d -m 0700 -- ${above:+"$above"} "$work" "$work/tmp" "$work/var_tmp" "$folder" || exit 74
  if [ ! -O "$work" ] || [ -L "$work" ]; then
    echo "$work belongs to another account." >&2
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
    # Anyone who can write there could make it point to other files of this session's owner.
    if ! real root "$PORTAL_COURSE_DATA_ROOT" ||
      ! real there "$PORTAL_COURSE_DATA_ROOT/$PORTAL_COURSE_DATA" ||
      [ "$there" != "${root%/}/$PORTAL_COURSE_DATA" ]; then
      echo "The course's data cannot be read, or lead elsewhere: $PORTAL_COURSE_DATA" >&2
      rm -rf -- "$work"
      exit 74
    fi
  fi
  # Ignore mounts that a profile or prolog of the node would add to containers.
  for name in BIND BINDPATH MOUNT OVERLAY OVERLAYIMAGE FUSESPEC SCRATCH SCRATCHDIR; do
    unset "APPTAINER_$name" "SINGULARITY_$name"
  done
  export APPTAINER_HOME="$folder:$PORTAL_COURSE_HOME" APPTAINER_WORKDIR="$work"
  export SINGULARITY_HOME="$APPTAINER_HOME" SINGULARITY_WORKDIR="$work"
  if [ -n "${PORTAL_COURSE_BIND:-}" ]; then
    # Not in the command, which is the same for all members of the course.
    export APPTAINER_BINDPATH="$PORTAL_COURSE_BIND" SINGULARITY_BINDPATH="$PORTAL_COURSE_BIND"
  fi
fi
# The session keeps its packages, kernels and certificates there. Without it, it would end with an
# error of a program that happened to need it first.
own="${folder:-${HOME:-}}/.portal"
if [ "${PORTAL_KIND:-}" != image ] && [ ! -d "$own" ] && { [ -L "$own" ] || [ -e "$own" ]; }; then
  link=$(readlink -- "$own") && own+=" -> $link"
  echo "The portal's folder is no folder: $own" >&2
  [ -z "$work" ] || rm -rf -- "$work"
  exit 72
fi
unset own PORTAL_COURSE_HOME PORTAL_COURSE_FOLDER PORTAL_COURSE_BIND
unset PORTAL_COURSE_DATA_ROOT PORTAL_COURSE_DATA

if [ -n "${PORTAL_SSL_KEY:-}" ]; then
  if [ -n "$work" ]; then
    tls="$work/tmp/portal-tls" seen=/tmp/portal-tls
  else
    tls="$HOME/.portal/tls/$SLURM_JOB_ID"
    seen="$tls"
  fi
  # The job's command replaces this script, so the next job removes the folders of ended jobs.
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

# Succeed if $1 is a folder owned by root or the builds' account and writable by no other account.
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
    image="$copy" # its signature was verified when it was unpacked
  elif [ "${PORTAL_VERIFY:-}" = 1 ]; then
    keys=""
    if [ -n "${PORTAL_KEYS:-}" ]; then
      # Apptainer rejects keyrings of other accounts, and those that others can read.
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
  # Folders that the user has packed (portal_session/packing/): each image is bound at the folder of
  # its name. One that this node cannot mount would end the session, so each is tried first.
  # A session that sees a folder of its own instead of the home has none.
  packed=""
  place="${HOME:-}/.portal/packed"
  [ -n "$work" ] || export APPTAINERENV_PORTAL_PACKED="$place"
  for link in "$place"/*.sqsh; do
    name="${link##*/}" name="${name%.sqsh}"
    [[ -z "$work" && -n "${PORTAL_KIND:-}" && "$PORTAL_KIND" != image && -f "$link" && -d "$place/$name" &&
      "$name" =~ ^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$ && "$place" != *[:,\\]* ]] || continue
    bind="$link:$place/$name:image-src=/"
    if said=$(timeout 20 "$PORTAL_APPTAINER" --nocolor exec --bind "$bind" "$image" true 2>&1); then
      packed+=" $name"
      # A server beside its container binds them in those of its kernels.
      [ "$PORTAL_KIND" = beside ] || {
        export APPTAINER_BINDPATH="${APPTAINER_BINDPATH:+$APPTAINER_BINDPATH,}$bind"
        export SINGULARITY_BINDPATH="$APPTAINER_BINDPATH"
      }
    else
      echo "The packed folder '$name' is not bound: ${said##*$'\n'}" >&2
    fi
  done
  [ -z "$packed" ] || export APPTAINERENV_PORTAL_PACKED_NAMES="${packed# }"
fi
unset PORTAL_VERIFY PORTAL_KEYS PORTAL_NODE_COPY PORTAL_IMAGE_ACCOUNT PORTAL_APPTAINER PORTAL_IMAGE

# Slurm copies these from the submitting environment; if they are missing, the account sets them.
[ -n "${USER:-}" ] || USER=$(id -un)
export USER LOGNAME="${LOGNAME:-$USER}"

# Pass the variables with the names in $2… into the container that the program $1 starts. They are set
# only in the job, and --cleanenv drops them.
pass_in() {
  local name program="$1"
  shift
  for name; do
    # ${!name} would evaluate an invalid name such as "a[$(date)]".
    [[ "$name" =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || continue
    [ -n "${!name+x}" ] && export "APPTAINERENV_$name=${!name}"
  done
  if [ "${program##*/}" = singularity ]; then
    # SingularityCE supports only the older prefix.
    for name in ${!APPTAINERENV_@}; do
      export "SINGULARITYENV_${name#APPTAINERENV_}=${!name}"
    done
  fi
}

read -ra gpu_names <<<"${PORTAL_GPU_VARIABLES:-CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL ROCR_VISIBLE_DEVICES}"
if [ "${PORTAL_KIND:-}" = container ]; then
  pass_in "$1" "${gpu_names[@]}" USER LOGNAME SHELL ${!SLURM@}
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
  # In older versions, module load reports errors only on stderr and succeeds.
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

# The ranks of a run's script: srun starts the program once for each, and they find each other by the
# files in a private folder (portal_session/runs/ranks/).
team=""
if [ -n "${PORTAL_RANKS:-}" ]; then
  nodes="${SLURM_JOB_NUM_NODES:-1}" ranks="$PORTAL_RANKS"
  if [ "$ranks" = 0 ]; then
    ranks=1
    [ "$nodes" = 1 ] || [ "${SLURM_GPUS_ON_NODE:-0}" = 0 ] || ranks="$SLURM_GPUS_ON_NODE"
  fi
  if [ $((nodes * ranks)) -gt 1 ]; then
    team="$HOME/.portal/ranks/$SLURM_JOB_ID"
    sweep "$HOME"/.portal/ranks/*
    rm -rf -- "$team" # of an earlier start of this job
    (umask 077 && mkdir -p -- "$team") || exit 74
    spare=$(sinfo --noheader --Node --partition="$SLURM_JOB_PARTITION" --states=idle,mixed,allocated \
      --format=%N 2>/dev/null | sort -u | wc -l)
    mpi=none
    case " $(srun --mpi=list 2>&1 | tr -s ',\n\t' ' ') " in
      *" pmix "*)
        # It may be listed and still lack a library on a node.
        mpi=pmix
        srun --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 --mpi=pmix --input=none \
          true >/dev/null 2>&1 || mpi=pmi2
        ;;
      *" pmi2 "*) mpi=pmi2 ;;
    esac
    export PORTAL_TEAM="$team" PORTAL_RANKS_ON_NODE="$ranks" PORTAL_SPARE_NODES=$((spare - nodes))
    [ "${PORTAL_KIND:-}" != container ] ||
      pass_in "$1" PORTAL_TEAM PORTAL_RANKS_ON_NODE PORTAL_SPARE_NODES
    each="$(declare -f pass_in)"'
      trap : TERM USR1 USR2 # the program ends by itself
      [ "${PORTAL_KIND:-}" != container ] || pass_in "$2" $1 ${!SLURM@} ${!PMI@}
      shift
      "$@"
      status=$?
      echo "$status ${SLURMD_NODENAME:-}" >"$PORTAL_TEAM/.$SLURM_PROCID" &&
        mv -- "$PORTAL_TEAM/.$SLURM_PROCID" "$PORTAL_TEAM/$SLURM_PROCID.over"
      exit "$status"'
    # Rank 0 decides when all end, so that the first error is told. Of several variables that mean
    # the CPUs of a task, srun takes no two that differ.
    program=("$@")
    share=$((${SLURM_CPUS_PER_TASK:-1} / ranks))
    [ "$share" -gt 0 ] || share=1
    set -- env -u SLURM_CPUS_PER_TASK -u SLURM_TRES_PER_TASK -u SLURM_NTASKS_PER_NODE \
      srun --nodes="$nodes" --ntasks=$((nodes * ranks)) --ntasks-per-node="$ranks" \
      --cpus-per-task="$share" --distribution=block --overcommit --mpi="$mpi" --input=none \
      --kill-on-bad-exit=0 --wait=0 bash -c "$each" rank "${gpu_names[*]}" "$@"
  fi
fi

[ -n "$work${PORTAL_RESUMES:-}$team" ] || exec "$@"
# A separate process group (-m); without it, interrupts would be ignored in all child processes.
set -m
# Slurm's signal that the time is nearly over (sbatch --signal=B:USR1@…). A program that is only just
# starting must not end by it, and hears of it again.
[ -z "${PORTAL_RESUMES:-}" ] || trap '' USR1
"$@" &
server=$!
if [ -n "$team" ]; then
  # srun would kill its tasks at once, and would send another signal to all of their processes.
  trap ': >"$team/stop"' TERM
  [ -z "${PORTAL_RESUMES:-}" ] || trap ': >"$team/save"' USR1
else
  trap 'kill -TERM "$server" 2>/dev/null' TERM
  [ -z "${PORTAL_RESUMES:-}" ] ||
    trap 'while kill -USR1 "$server" 2>/dev/null; do sleep 3; done &' USR1
fi
while
  wait "$server"
  status=$?
  kill -0 "$server" 2>/dev/null
do :; done
trap - TERM
[ -z "${PORTAL_RESUMES:-}" ] || trap '' USR1
[ -z "$work" ] || rm -rf -- "$work"
if [ -n "$team" ]; then
  # The end of the rank that reports: if rank 0 has not started, another one has excluded its node.
  read -r status _ 2>/dev/null <"$team/0.over"
  [ -e "$team/0.started" ] || [ ! -e "$team/exclude" ] || status=86
  if [ -e "$team/0.started" ] && [ ! -e "$team/0.told" ]; then
    # It was killed: for want of memory, or by srun, which does that when it gets SIGTERM (with
    # proctrack/linuxproc, Slurm sends that to all processes of a job that it ends).
    [ ! -e "$team/stop" ] || status=143
    export PORTAL_RANK_0_KILLED="$status"
    [ "${PORTAL_KIND:-}" != container ] || pass_in "${program[0]}" PORTAL_RANK_0_KILLED
    "${program[@]}"
  fi
fi
# The task's own name: by the number alone, the last task of an array would requeue all others.
task="${SLURM_ARRAY_JOB_ID:-}_${SLURM_ARRAY_TASK_ID:-}"
# The point is saved, and goes on in another job (portal_session/runs/execution/outcome.py). Here,
# since a container has no scontrol.
if [ -n "${PORTAL_RESUMES:-}" ] && [ "$status" = 85 ]; then
  for _ in {1..12}; do
    if scontrol requeue "$task"; then
      sleep 60 # Slurm ends this job now; if it ended by itself, it might count as failed
      break
    fi
    sleep 5 # slurmctld may be away
  done
fi
# A node is unfit: the point starts again on others (portal_session/runs/ranks/preflight.py).
if [ -n "$team" ] && [ "$status" = 86 ] && [ ! -e "$team/stop" ] && read -r unfit <"$team/exclude" &&
  [[ "$unfit" =~ ^[A-Za-z0-9][A-Za-z0-9_.-]*(,[A-Za-z0-9][A-Za-z0-9_.-]*)*$ ]]; then
  trap '' TERM # by which Slurm ends this job meanwhile
  for _ in {1..12}; do
    if scontrol requeuehold "$task"; then
      for _ in {1..40}; do
        scontrol update JobId="$task" ExcNodeList="$unfit" && break
        sleep 0.5 # until the job has ended on its nodes
      done
      scontrol release "$task"
      sleep 60
      break
    fi
    sleep 5
  done
fi
exit "$status"
