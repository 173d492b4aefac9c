# What an adopted zsh (5.1 and later) evaluates: marks.zsh, quoted, at MARKS, and typed.zsh at TYPED.
#
# Read by `eval`, after _tm_new=NONCE and _tm_from=NUMBER.

[[ -z ${__tmuxmcp_aid-} ]] || __tmuxmcp_off

# Under `set -a` the nonce would come into the environment.
_tm_export=
if [[ -o all_export ]]; then
  'builtin' 'unsetopt' all_export
  _tm_export=1
fi

# Not with readonly prompts or hooks, nor without a terminal that it can open.
if [[ ! -r /dev/tty || ! -w /dev/tty || -n ${(M)${:-${(t)PROMPT-}/${(t)PROMPT2-}/${(t)PROMPT_EOL_MARK-}/${(t)precmd_functions-}/${(t)preexec_functions-}}:#*readonly*} ]]; then
  'builtin' 'print' -rn -- $'\e]133;P;k=x;aid='$_tm_new$';n=1;what=PROMPT\a'
else
  'builtin' 'typeset' -gH +x __tmuxmcp_aid=$_tm_new __tmuxmcp_from=$_tm_from __tmuxmcp_histfile= __tmuxmcp_adopted=1
  'builtin' 'typeset' -gH +x __tmuxmcp_marked=${PROMPT_EOL_MARK+set}
  'builtin' 'emulate' -R zsh -o no_aliases -c MARKS
TYPED
fi
[[ -z $_tm_export ]] || 'builtin' 'setopt' all_export
'builtin' 'unset' _tm_new _tm_from _tm_export
