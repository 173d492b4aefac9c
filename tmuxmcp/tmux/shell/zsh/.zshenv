# tmuxmcp start-up file for zsh, read as $ZDOTDIR/.zshenv: gives the user's ZDOTDIR back at once, so that zsh itself
# reads all the other files where and when it always does, and has marks.zsh begin at the first prompt.
#
# TMUXMCP_NORCS stands for `zsh -f`, with which not even this file would be read.

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

  # These do not: they change the user's. Their standard error is closed to `set -x`.
  __tmuxmcp_as_typed() {
    if [[ -n $__tmuxmcp_back ]]; then
      'builtin' 'setopt' ${(s: :)__tmuxmcp_back}
      __tmuxmcp_back= histchars=$__tmuxmcp_histchars
    fi
  } 2>/dev/null
  # The key's widget. A command that is given is read like a script: comments are comments, `!` is no history, nobody
  # is asked about spelling. Before it runs, the options are the user's again.
  __tmuxmcp_run() {
    if __tmuxmcp_take $?; then
      __tmuxmcp_back=no_interactive_comments __tmuxmcp_histchars=${histchars-}
      [[ ! -o interactive_comments ]] || __tmuxmcp_back=interactive_comments
      [[ ! -o correct ]] || __tmuxmcp_back+=' correct'
      [[ ! -o correct_all ]] || __tmuxmcp_back+=' correct_all'
      'builtin' 'setopt' interactive_comments no_correct no_correct_all
      histchars=$'\0\0#'
      'builtin' 'zle' .accept-line
    else
      'builtin' 'zle' .send-break
    fi
  } 2>/dev/null
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
