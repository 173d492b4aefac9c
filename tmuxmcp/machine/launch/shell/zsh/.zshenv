# tmuxmcp start-up file for zsh, read as $ZDOTDIR/.zshenv: gives the user's ZDOTDIR back at once, so that zsh itself
# reads all the other files where and when it always does, and has marks.zsh begin at the first prompt.
#
# TMUXMCP_NORCS stands for `zsh -f`, with which not even this file would be read.

# Once, by a file: other processes can read the environment that a shell began with as long as it lives.
if [[ -n ${TMUXMCP_NONCE_FILE-} ]]; then
  'builtin' 'unset' TMUXMCP_NONCE
  { 'builtin' 'read' -r TMUXMCP_NONCE <"$TMUXMCP_NONCE_FILE" && 'builtin' ':' >|"$TMUXMCP_NONCE_FILE" } 2>/dev/null
  'builtin' 'unset' TMUXMCP_NONCE_FILE
fi

'builtin' 'typeset' -gH "__tmuxmcp_home=${ZDOTDIR-}"
if [[ -n ${TMUXMCP_ZDOTDIR+set} ]]; then
  'builtin' 'export' "ZDOTDIR=$TMUXMCP_ZDOTDIR"
else
  'builtin' 'unset' ZDOTDIR
fi

if [[ -o interactive && -o zle && -n ${TMUXMCP_NONCE-} && $ZSH_VERSION == (5.<1->*|<6->.*) ]]; then
  'builtin' 'typeset' -gH "__tmuxmcp_aid=$TMUXMCP_NONCE" "__tmuxmcp_histfile=${TMUXMCP_HISTFILE-}"
  # The functions get zsh's own options, whatever the user sets: no alias, trace or strictness reaches into them.
  'builtin' 'emulate' -R zsh -o no_aliases -c 'builtin . $__tmuxmcp_home/marks.zsh'

  'builtin' '.' $__tmuxmcp_home/typed.zsh
fi
# Before the user's own files, which may switch it on again: `!` is no earlier command.
[[ -z ${TMUXMCP_NONCE-} || -n ${TMUXMCP_HISTEXPAND-} ]] || 'builtin' 'unsetopt' bang_hist
'builtin' 'unset' TMUXMCP_ZDOTDIR TMUXMCP_NONCE TMUXMCP_HISTFILE TMUXMCP_HISTEXPAND __tmuxmcp_home

if [[ -n ${TMUXMCP_NORCS-} ]]; then
  'builtin' 'unset' TMUXMCP_NORCS
  'builtin' 'unsetopt' rcs
elif [[ -r ${ZDOTDIR-$HOME}/.zshenv ]]; then
  'builtin' '.' "${ZDOTDIR-$HOME}/.zshenv"
fi
