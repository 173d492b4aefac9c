# tmuxmcp for zsh, beside marks.zsh: what works with the user's own options.
#
# These do not: they change the user's. Their standard error is closed to `set -x`.
__tmuxmcp_as_typed() {
  if [[ -n $__tmuxmcp_back ]]; then
    'builtin' 'setopt' ${(s: :)__tmuxmcp_back}
    __tmuxmcp_back=
    [[ ${(t)histchars-} == *readonly* ]] || histchars=$__tmuxmcp_histchars
  fi
} 2>/dev/null
# Where output comes late, through other programs, zsh would tidy up before it (E): the end is told by D alone.
__tmuxmcp_end_late() {
  if [[ ( -p /dev/fd/1 || -p /dev/fd/2 ) && -o prompt_sp ]]; then
    'builtin' 'unsetopt' prompt_sp
    __tmuxmcp_back=prompt_sp __tmuxmcp_histchars=${histchars-}
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
    [[ ${(t)histchars-} == *readonly* ]] || histchars=$'\0\0#'
    'builtin' 'zle' .accept-line
  elif [[ $CONTEXT == start || $CONTEXT == cont ]]; then  # no question of a command: vared, select
    'builtin' 'zle' .send-break
  fi
} 2>/dev/null
