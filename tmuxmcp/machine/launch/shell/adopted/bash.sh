# What an adopted bash (4.4 and later) evaluates: bash.sh, at the line MARKS, and how what the user had comes back.
#
# Read by `eval`, after _tm_new=NONCE and _tm_from=NUMBER.

# One that has them from its start-up file shows none of them, where this is read.
[[ ! ${__tmuxmcp_aid-} ]] || __tmuxmcp_off 2>/dev/null || \builtin unset -v __tmuxmcp_aid

# Not with a readonly prompt, which could not tell of itself.
__tmuxmcp_what=
__tmuxmcp_free() { \builtin local "$1"; }
for __tmuxmcp_each in PS0 PS1 PS2 PROMPT_COMMAND; do
  __tmuxmcp_free "$__tmuxmcp_each" 2>/dev/null || __tmuxmcp_what=$__tmuxmcp_each
done

if [[ $__tmuxmcp_what ]]; then
  \builtin printf '\e]133;P;k=x;aid=%s;n=1;what=%s\a' "$_tm_new" "$__tmuxmcp_what" >/dev/tty
  \builtin unset -f __tmuxmcp_free
  \builtin unset -v __tmuxmcp_what __tmuxmcp_each
else
  __tmuxmcp_hooks=$(\builtin declare -p PROMPT_COMMAND 2>/dev/null)
  __tmuxmcp_hooks=${__tmuxmcp_hooks%% PROMPT_COMMAND*}
  [[ $(\builtin bind -v 2>/dev/null) == *'enable-bracketed-paste on'* ]] && __tmuxmcp_paste=on || __tmuxmcp_paste=off

  # The line that was typed is no command of the user's.
  __tmuxmcp_forget() {
    __tmuxmcp_each=$(HISTTIMEFORMAT= \builtin history 1)
    [[ $__tmuxmcp_each != *"$1"* ]] || {
      \builtin read -r __tmuxmcp_each _ <<<"$__tmuxmcp_each"
      \builtin history -d "${__tmuxmcp_each%\*}"
    }
  } 2>/dev/null

  # Takes the marks out of this shell again, for good.
  __tmuxmcp_off() {
    \builtin local IFS
    IFS=$' \t\n'
    __tmuxmcp_strip
    [[ ! ${__tmuxmcp_histexpand-} ]] || \builtin set -H
    [[ ${PS0-} == "$__tmuxmcp_user_ps0" ]] || PS0=$__tmuxmcp_user_ps0
    [[ $PS0 ]] || \builtin unset PS0
    PS1=$__tmuxmcp_user_ps1 PS2=$__tmuxmcp_user_ps2
    __tmuxmcp_own=()
    for __tmuxmcp_each in ${PROMPT_COMMAND[@]+"${PROMPT_COMMAND[@]}"}; do
      __tmuxmcp_each=${__tmuxmcp_each#"$__tmuxmcp_before"}
      __tmuxmcp_each=${__tmuxmcp_each%"$__tmuxmcp_after"}
      __tmuxmcp_each=${__tmuxmcp_each#$'\n'}
      __tmuxmcp_each=${__tmuxmcp_each%$'\n'}
      [[ ! $__tmuxmcp_each || $__tmuxmcp_each == : ]] || __tmuxmcp_own+=("$__tmuxmcp_each")
    done
    \builtin unset PROMPT_COMMAND
    if [[ $__tmuxmcp_hooks == 'declare -'*a* || ${#__tmuxmcp_own[@]} -gt 1 ]]; then
      PROMPT_COMMAND=(${__tmuxmcp_own[@]+"${__tmuxmcp_own[@]}"})
    elif [[ $__tmuxmcp_hooks || ${__tmuxmcp_own[0]-} ]]; then
      PROMPT_COMMAND=${__tmuxmcp_own[0]-}
    fi
    [[ $__tmuxmcp_hooks != 'declare -'*x* ]] || \builtin export PROMPT_COMMAND
    for __tmuxmcp_each in emacs vi-insert vi-command; do
      for __tmuxmcp_c in 7775 7776 7777 7778; do
        \builtin bind -m "$__tmuxmcp_each" -r "\e[$__tmuxmcp_c~"
      done
    done
    \builtin bind "set enable-bracketed-paste $__tmuxmcp_paste"
    __tmuxmcp_forget __tmuxmcp_off
    \builtin printf '\e]133;P;k=u;%s\a' "$__tmuxmcp_tag" >/dev/tty
    for __tmuxmcp_each in $(\builtin compgen -A function __tmuxmcp_); do
      \builtin unset -f "$__tmuxmcp_each"
    done
    \builtin unset -v "${!__tmuxmcp_@}"
  } 2>/dev/null

  __tmuxmcp_forget "$_tm_new"
  # What a start-up file has begun may have inherited what was meant for the shell that reads it.
  \builtin unset TMUXMCP_NONCE_FILE TMUXMCP_RC TMUXMCP_HISTFILE TMUXMCP_FIRST_PROMPT
  TMUXMCP_NONCE=$_tm_new TMUXMCP_GIVEN= TMUXMCP_HISTEXPAND=1 TMUXMCP_NUMBER=$_tm_from
MARKS
  # Under `set -a`.
  \builtin export -n "${!__tmuxmcp_@}"
fi
\builtin unset -v _tm_new _tm_from
