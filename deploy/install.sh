#!/bin/sh
# Install what is missing for `make run` or `make test`; if nothing is missing, return quickly.
#
#   sh deploy/install.sh run|test        everything: system packages, Python, the proxy
#   sh deploy/install.sh packages run|test   only the system packages (for an administrator)
#   sh deploy/install.sh assets          what a release takes from npm, into this source
#
# System packages come from apt's configured sources. No service is started, services of new packages
# are disabled, and existing services are not changed. Everything else goes into PORTAL_HOME and
# PORTAL_CACHE.
set -eu
umask 022

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
source=$(dirname -- "$here")
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

say() { printf '  %s\n' "$*"; }
fail() {
  printf 'install: %s\n' "$*" >&2
  exit 1
}
now() { date +%s; }

# -- system packages ------------------------------------------------------------------------------

there() { # $1: what shows that a package is installed
  case $1 in
    python:*) "$(system_python)" -c "import ${1#python:}" 2>/dev/null ;;
    glob:*)
      for found in ${1#glob:}; do [ -e "$found" ] && return 0; done
      return 1
      ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
  esac
}

system_python() { echo "${python:-/usr/bin/python3}"; }

missing_packages() { # $@: files with packages
  cat "$@" | while read -r package shows _; do
    case $package in '' | '#'*) continue ;; esac
    there "$shows" && continue
    case $package in
      *'?') ! offered "${package%?}" || printf '%s ' "${package%?}" ;; # not in every suite
      *) printf '%s ' "$package" ;;
    esac
  done
}

offered() { # $1: a package; whether apt could install it
  command -v apt-cache >/dev/null 2>&1 || return 1
  # A new machine has no package lists.
  if [ "$(id -u)" = 0 ] && ! apt-cache dumpavail 2>/dev/null | grep -q .; then
    apt-get update -q >/dev/null 2>&1 || return 1
  fi
  LC_ALL=C apt-cache policy "$1" 2>/dev/null | grep -q '^ *Candidate: [^(]'
}

packages_lock=/run/data-scientist-portal-packages.lock # where only root can create files
install_packages() {
  files=$here/packages-run.txt
  [ "$1" = test ] && files="$files $here/packages-test.txt"
  # One installation at a time per machine: `make run` and `make test` may start together.
  if [ "$(id -u)" = 0 ] && [ -w /run ]; then
    exec 8>"$packages_lock"
    flock -n 8 || {
      say "system packages: waiting for another installation"
      flock 8
    }
  fi
  # shellcheck disable=SC2086
  missing=$(missing_packages $files)
  if [ -z "$missing" ]; then
    exec 8>&-
    return 0
  fi
  command -v apt-get >/dev/null 2>&1 || fail "these packages are missing, and this machine has no apt-get to install them: $missing"
  if [ "$(id -u)" != 0 ]; then
    fail "these system packages are missing: $missing- ask an administrator to run: sudo sh $here/install.sh packages $1"
  fi
  started=$(now)
  say "system packages: installing $missing"
  log=$(mktemp)
  trap 'restore_policy; rm -f "$log"' EXIT
  trap 'exit 130' INT TERM HUP
  installed >"$log.before"
  forbid_services
  export DEBIAN_FRONTEND=noninteractive
  # Keep a newly installed slapd from creating its own database.
  if ! dpkg-query -W slapd >/dev/null 2>&1 && command -v debconf-set-selections >/dev/null 2>&1; then
    echo 'slapd slapd/no_configuration boolean true' | debconf-set-selections
  fi
  # The same for PostgreSQL.
  case " $missing " in *' postgresql '*) forbid_cluster ;; esac
  status=0
  # shellcheck disable=SC2086
  apt_install $missing || status=$?
  restore_policy
  installed | comm -13 "$log.before" - | disable_services
  rm -f "$log.before"
  if [ $status != 0 ]; then
    last=$(grep -E '^(E|Err|W):' "$log" | tail -n 1)
    if grep -qE 'Could not resolve|Temporary failure|Could not connect|Unable to connect|Network is unreachable|Connection timed out' "$log"; then
      fail "cannot download system packages: no network, or the package mirror of this machine does not answer ($last)"
    fi
    fail "apt-get cannot install $missing: $last"
  fi
  rm -f "$log"
  trap - EXIT INT TERM HUP
  exec 8>&-
  say "system packages: installed after $(($(now) - started)) s"
}

apt_install() { # packages; apt's lists are updated only if the first try fails
  apt_try "$@" && return 0
  apt-get update -q >>"$log" 2>&1 || return 1
  apt_try "$@"
}

apt_try() {
  : >"$log"
  # Unattended upgrades may hold apt's lock: wait for at most ten minutes.
  apt-get install -q -y --no-install-recommends -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=600 "$@" \
    >>"$log" 2>&1 8>&-
}

installed() { dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' | sed -n 's/^ii *//p' | sort; }

# invoke-rc.d(8) asks /usr/sbin/policy-rc.d before it starts a service; 101 means "forbidden".
policy=/usr/sbin/policy-rc.d
forbid_services() {
  restore_policy # in case an earlier run was killed
  if [ -e "$policy" ] || [ -L "$policy" ]; then mv "$policy" "$policy.portal-saved"; fi
  printf '#!/bin/sh\n# Temporary, by the install.sh of the Data Scientist Portal.\nexit 101\n' >"$policy"
  chmod 755 "$policy"
}
restore_policy() {
  if [ -e "$no_cluster" ]; then
    rm -f "$no_cluster"
    rmdir "$(dirname "$no_cluster")" 2>/dev/null || true
  fi
  if [ -f "$policy" ] && grep -q 'Temporary, by the install.sh of the Data' "$policy"; then rm -f "$policy"; fi
  if [ -e "$policy.portal-saved" ] || [ -L "$policy.portal-saved" ]; then mv "$policy.portal-saved" "$policy"; fi
}

# pg_createcluster(8) reads this file: no default database is created or started at boot.
no_cluster=/etc/postgresql-common/createcluster.d/portal-temporary.conf
forbid_cluster() {
  mkdir -p "$(dirname "$no_cluster")"
  echo 'create_main_cluster = false' >"$no_cluster"
}

disable_services() { # names of packages that are new, on stdin
  while read -r package; do
    dpkg -L "$package" 2>/dev/null | while read -r file; do
      case $file in
        /lib/systemd/system/*.service | /lib/systemd/system/*.socket | /lib/systemd/system/*.timer | \
          /usr/lib/systemd/system/*.service | /usr/lib/systemd/system/*.socket | /usr/lib/systemd/system/*.timer)
          deb-systemd-helper disable "$(basename "$file")" >/dev/null 2>&1 || true
          ;;
        /etc/init.d/*)
          [ -f "$file" ] && update-rc.d "$(basename "$file")" disable >/dev/null 2>&1 || true
          ;;
      esac
    done
  done
}

# -- Python ---------------------------------------------------------------------------------------

find_python() {
  # Other accounts must be able to run it, so a version manager's Python in a home does not qualify.
  candidates='/usr/bin/python3 /usr/bin/python3.13 /usr/bin/python3.12 /usr/bin/python3.11 /usr/local/bin/python3'
  [ "$(id -u)" = 0 ] || candidates="$candidates $(command -v python3 || true)"
  for candidate in $candidates; do
    if [ -x "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

hash_of() { # files and folders of the source
  (cd "$source" && find "$@" -type f ! -path '*/__pycache__/*' ! -path '*/node_modules/*' -print0 2>/dev/null |
    LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1)
}

install_python() { # $1: run or test
  venv=$PORTAL_HOME/venv
  extra=
  [ "$1" = test ] && extra='[test]'
  needs=$(hash_of pyproject.toml deploy/constraints.txt)
  code=$(hash_of pyproject.toml README.md portal spawners templates static deploy kernels)
  if [ -d "$venv" ] && ! "$venv/bin/python" -c '' 2>/dev/null; then
    rm -rf "$venv" # its Python was removed, or its folder was moved
  fi
  if [ ! -x "$venv/bin/pip" ]; then
    say "Python: creating $venv with $python"
    "$python" -m venv --clear "$venv" || fail "$python cannot create the virtual environment $venv."
  fi
  state=$venv/.portal
  mkdir -p "$state"
  # What `make test` installed serves `make run` too.
  have=$(cat "$state/needs-$1" 2>/dev/null || true)
  if [ "$have" != "$needs" ]; then
    started=$(now)
    say "Python: installing the portal and its dependencies (about a minute and a half)"
    # hatchling builds the portal; uv fills the environments of the demo. bagit has no wheel: it is
    # built here, by a setuptools of its own.
    pip_install hatchling uv ${extra:+bagit}
    pip_install --no-build-isolation "$source$extra"
    echo "$needs" >"$state/needs-$1"
    [ "$1" = test ] && echo "$needs" >"$state/needs-run"
    echo "$code" >"$state/code"
    say "Python: installed after $(($(now) - started)) s"
  fi
  if [ "$(cat "$state/code" 2>/dev/null || true)" != "$code" ]; then
    say "Python: the portal's source has changed; reinstalling it"
    pip_install --no-build-isolation --no-deps --force-reinstall "$source"
    echo "$code" >"$state/code"
  fi
}

pip_install() {
  if ! "$PORTAL_HOME/venv/bin/pip" install -q --disable-pip-version-check --no-input \
    -c "$here/constraints.txt" "$@" >"$PORTAL_HOME/pip.log" 2>&1; then
    last=$(grep -iE '^ERROR' "$PORTAL_HOME/pip.log" | tail -n 1)
    if grep -qiE 'Temporary failure|Name or service not known|Failed to establish|ConnectionError|ConnectTimeout|Network is unreachable' "$PORTAL_HOME/pip.log"; then
      fail "cannot download Python packages: no network, or the package index of this machine does not answer ($PORTAL_HOME/pip.log)"
    fi
    fail "pip cannot install the portal: ${last:-see its log} ($PORTAL_HOME/pip.log)"
  fi
}

# -- the proxy ------------------------------------------------------------------------------------

install_proxy() {
  place=$PORTAL_CACHE/node
  needs=$(hash_of deploy/proxy/package.json deploy/proxy/package-lock.json)
  [ "$(cat "$place/.portal-proxy" 2>/dev/null || true)" = "$needs" ] && return 0
  started=$(now)
  say "proxy: installing configurable-http-proxy"
  mkdir -p "$place"
  rm -f "$place/.portal-proxy"
  cp "$source/deploy/proxy/package.json" "$source/deploy/proxy/package-lock.json" "$place"
  if ! npm ci --prefix "$place" --ignore-scripts --no-audit --no-fund --omit=dev --loglevel=error \
    >"$PORTAL_HOME/npm.log" 2>&1; then
    fail "npm cannot install configurable-http-proxy: check the network ($PORTAL_HOME/npm.log)"
  fi
  echo "$needs" >"$place/.portal-proxy"
  say "proxy: installed after $(($(now) - started)) s"
}

# -- the pages' scripts and typeface from npm -----------------------------------------------------

install_pages() { # before the portal itself, which includes static/vendor
  vendor=$source/static/vendor
  place=$PORTAL_CACHE/pages
  needs=$(hash_of package.json package-lock.json .npmrc)
  [ "$(cat "$vendor/.from" 2>/dev/null || true)" = "$needs" ] && return 0
  if [ "$(cat "$place/.from" 2>/dev/null || true)" != "$needs" ]; then
    started=$(now)
    say "pages: fetching scripts and the typeface from npm"
    mkdir -p "$place"
    rm -f "$place/.from"
    (cd "$source" && cp package.json package-lock.json .npmrc "$place")
    if ! npm ci --prefix "$place" --ignore-scripts --no-audit --no-fund --omit=dev --loglevel=error \
      --fetch-retries=1 --fetch-retry-mintimeout=1000 >"$PORTAL_HOME/npm.log" 2>&1; then
      fail "npm cannot fetch the pages' scripts: no network, or the package registry of this machine does not answer ($PORTAL_HOME/npm.log)"
    fi
    echo "$needs" >"$place/.from"
    say "pages: fetched after $(($(now) - started)) s"
  fi
  mkdir -p "$vendor/uplot" "$vendor/plot" "$vendor/inter" 2>/dev/null || fail "cannot create $vendor: make the portal's source writable."
  for file in dist/uPlot.esm.js dist/uPlot.min.css LICENSE; do
    cp "$place/node_modules/uplot/$file" "$vendor/uplot/"
  done
  for package in d3 @observablehq/plot; do
    cp "$place/node_modules/$package/LICENSE" "$vendor/plot/LICENSE-${package##*/}"
    cp "$place/node_modules/$package/dist/"*.min.js "$vendor/plot/"
  done
  for file in files/inter-latin-wght-normal.woff2 files/inter-latin-ext-wght-normal.woff2 LICENSE; do
    cp "$place/node_modules/@fontsource-variable/inter/$file" "$vendor/inter/"
  done
  echo "$needs" >"$vendor/.from"
}

# -- main -----------------------------------------------------------------------------------------

only=
if [ "${1:-}" = packages ]; then
  only=packages
  shift
fi
what=${1:-}
case $what in run | test | assets) ;; *) fail "usage: sh $0 [packages] run|test, or sh $0 assets" ;; esac

python=$(find_python || true)
[ "$what" = assets ] || install_packages "$what"
[ -z "$only" ] || exit 0

[ -n "$python" ] || python=$(find_python) || fail "Python 3.11 or newer is missing: install python3 and python3-venv of this distribution, or a newer release of it."
if [ -z "${PORTAL_HOME:-}" ]; then
  if [ "$(id -u)" = 0 ]; then
    PORTAL_HOME=/var/lib/data-scientist-portal
  else
    PORTAL_HOME=$HOME/.local/share/data-scientist-portal
  fi
fi
PORTAL_CACHE=${PORTAL_CACHE:-$PORTAL_HOME/cache}
case $PORTAL_HOME$PORTAL_CACHE in
  *[[:space:],:\;#%=\"\'\`\\\$\&\|\<\>\(\)*?{}!]*) # as portal/demo/home.py, which says which one
    fail "PORTAL_HOME or PORTAL_CACHE has a character that Slurm and other parts would misread: use letters, digits and . _ / - only." ;;
esac
mkdir -p "$PORTAL_HOME" "$PORTAL_CACHE" 2>/dev/null || fail "cannot create $PORTAL_HOME: choose another state directory with PORTAL_HOME."
[ -w "$PORTAL_HOME" ] || fail "cannot write to $PORTAL_HOME: choose another state directory with PORTAL_HOME."

# One installation at a time in one state directory.
exec 9>"$PORTAL_HOME/install.lock"
flock -n 9 || {
  say "waiting for another installation in $PORTAL_HOME"
  flock 9
}
install_pages
if [ "$what" = assets ]; then
  install_proxy
  rm -rf "$here/proxy/node_modules"
  cp -R "$PORTAL_CACHE/node/node_modules" "$here/proxy/"
  exit 0
fi
install_python "$what"
install_proxy
if [ "$what" = test ]; then
  # Tests run the source. The demo's accounts cannot write bytecode there, so compile it once.
  "$PORTAL_HOME/venv/bin/python" -m compileall -q -j 0 "$source/portal" "$source/spawners" "$source/kernels" || true
fi
