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

# -- The prompt, in containers beside the server too (container.py): USER@NODE, since a container may
# know neither. Only the defaults of bash, Debian and Apptainer are replaced, and "\u@\h" is filled in;
# any other prompt is the person's own.
case ${PROMPT_COMMAND:-} in # Apptainer's, which sets PS1 anew: alone, or after another
  'PS1='*'; unset PROMPT_COMMAND') unset PROMPT_COMMAND ;;
  *'; PROMPT_COMMAND='*'; PS1='*) PROMPT_COMMAND=${PROMPT_COMMAND%%'; PROMPT_COMMAND='*} ;;
esac
case $PS1 in '\s-\v\$ ' | '\h:\w\$ ' | 'Apptainer> ' | 'Singularity> ') PS1='\u@\h:\w\$ ' ;; esac
_portal_user=${USER:-} _portal_node=${SLURMD_NODENAME:-}
_portal_node=${_portal_node%%.*}
case $_portal_user in '' | *[!A-Za-z0-9._-]*) _portal_user='\u' ;; esac
case $_portal_node in '' | *[!A-Za-z0-9-]*) _portal_node='\h' ;; esac
PS1=${PS1//'\u@\h'/"$_portal_user@$_portal_node"}
unset _portal_user _portal_node
