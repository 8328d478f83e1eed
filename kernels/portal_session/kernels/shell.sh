# What bash reads first in a session's terminal (bash(1), --rcfile). It is as a login shell, so
# that a site's profile and the person's own files count, and keeps the environment's programs:
# /etc/profile sets PATH anew in most distributions.
_portal_path=$PATH

# The folders of the session's PATH that are missing now go first, in their order.
_portal_keep() {
  local folder missing="" IFS=:
  set -f
  for folder in $_portal_path; do
    case ":$PATH:" in *":$folder:"*) ;; *) missing="$missing$folder:" ;; esac
  done
  set +f
  PATH="$missing$PATH"
}

# All of the session's PATH goes first, and then what PATH has beside it.
_portal_first() {
  local folder IFS=: new=$_portal_path
  set -f
  for folder in $PATH; do
    case ":$new:" in *":$folder:"*) ;; *) new="$new:$folder" ;; esac
  done
  set +f
  PATH=$new
}

if [ -r /etc/profile ]; then . /etc/profile; fi
_portal_first
_portal_mine=""
for _portal_mine in ~/.bash_profile ~/.bash_login ~/.profile ~/.bashrc; do
  if [ -r "$_portal_mine" ]; then
    . "$_portal_mine"
    break
  fi
done
_portal_keep
export PATH
hash -r
unset -f _portal_keep _portal_first
unset _portal_path _portal_mine
