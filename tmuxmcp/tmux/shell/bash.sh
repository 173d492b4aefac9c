# tmuxmcp start-up file for bash (4.4 and later): tells where prompts, commands and their output begin and end.
#
# Marks are OSC 133 (the FinalTerm semantic prompts): A prompt, B input, C output, D;STATUS done, P;k=s the
# continuation prompt. Each carries aid=NONCE of this shell, kept in an unexported variable, and n=NUMBER of the
# prompt, so that a file full of marks, a nested shell or a replayed log cannot pass for this one; D carries the
# working directory, and OSC 7 tells it to others. Prompts look as they did; `$?` is untouched; set -u, -e and -x
# do no harm.
#
# Read by `--rcfile` with TMUXMCP_RC naming the user's own file, or at the first prompt by PROMPT_COMMAND.

if [[ ${TMUXMCP_RC+set} ]]; then
  __tmuxmcp_rc=$TMUXMCP_RC
  \builtin unset TMUXMCP_RC
  if [[ -n $__tmuxmcp_rc && -r $__tmuxmcp_rc ]]; then
    \builtin . "$__tmuxmcp_rc"
  fi
  \builtin unset __tmuxmcp_rc
fi

if [[ ${TMUXMCP_NONCE-} && ! ${__tmuxmcp_aid-} ]]; then
  __tmuxmcp_aid=$TMUXMCP_NONCE
  __tmuxmcp_n=0
  __tmuxmcp_open=
  __tmuxmcp_ps0= __tmuxmcp_ps1= __tmuxmcp_ps2=
  __tmuxmcp_user_ps0=${PS0-} __tmuxmcp_user_ps1=${PS1-} __tmuxmcp_user_ps2=${PS2-}

  # The working directory as a URL path.
  __tmuxmcp_url() {
    \builtin local LC_ALL=C path=$1 out='' char i
    if [[ $path != *[!A-Za-z0-9/._~-]* ]]; then
      __tmuxmcp_urlpath=$path
      \builtin return 0
    fi
    for ((i = 0; i < ${#path}; i++)); do
      char=${path:i:1}
      case $char in
      [A-Za-z0-9/._~-]) out+=$char ;;
      *)
        \builtin printf -v char '%d' "'$char"
        \builtin printf -v char '%%%02X' "$((char & 255))"
        out+=$char
        ;;
      esac
    done
    __tmuxmcp_urlpath=$out
  }

  # First of the prompt commands: the command is done. Written to the terminal itself, whatever `exec >file` did.
  __tmuxmcp_first() {
    \builtin local LC_ALL=C status=$1 done_mark=''
    __tmuxmcp_url "$PWD"
    if ((__tmuxmcp_n > 0)); then
      done_mark=$'\e]133;D;'"$status;aid=$__tmuxmcp_aid;n=$__tmuxmcp_n;cwd=$__tmuxmcp_urlpath"$'\a'
    fi
    __tmuxmcp_n=$((__tmuxmcp_n + 1))
    __tmuxmcp_open=1
    \builtin printf '%s\e]7;file://%s%s\a' "$done_mark" "${HOSTNAME-}" "$__tmuxmcp_urlpath" >/dev/tty
    \builtin return 0
  }

  # Last of them: wrap the prompts again where the user's own commands changed them.
  __tmuxmcp_last() {
    [[ $__tmuxmcp_open ]] || __tmuxmcp_first "$1"
    __tmuxmcp_open=
    [[ ${PS0-} == "$__tmuxmcp_ps0" ]] || __tmuxmcp_user_ps0=${PS0-}
    [[ ${PS1-} == "$__tmuxmcp_ps1" ]] || __tmuxmcp_user_ps1=${PS1-}
    [[ ${PS2-} == "$__tmuxmcp_ps2" ]] || __tmuxmcp_user_ps2=${PS2-}
    \builtin local tag="aid=$__tmuxmcp_aid;n=$__tmuxmcp_n"
    PS0="\e]133;C;$tag\a$__tmuxmcp_user_ps0"
    PS1="\[\e]133;A;$tag\a\]$__tmuxmcp_user_ps1\[\e]133;B;$tag\a\]"
    PS2="\[\e]133;P;k=s;$tag\a\]$__tmuxmcp_user_ps2"
    __tmuxmcp_ps0=$PS0 __tmuxmcp_ps1=$PS1 __tmuxmcp_ps2=$PS2
    __tmuxmcp_install
    \builtin return 0
  }

  # Keep ours first and last, around whatever is there. Their standard error is closed to `set -x`.
  __tmuxmcp_install() {
    \builtin local first='{ __tmuxmcp_first "$?"; } 2>/dev/null' last='{ __tmuxmcp_last "$?"; } 2>/dev/null'
    if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 501)); then
      [[ ${PROMPT_COMMAND-} == "$first"$'\n'*$'\n'"$last" ]] && \builtin return 0
      \builtin local own=${PROMPT_COMMAND-}
      own=${own//"$first"/:}
      own=${own//"$last"/:}
      PROMPT_COMMAND=$first$'\n'${own:-:}$'\n'$last
      \builtin return 0
    fi
    [[ ${PROMPT_COMMAND[*]+set} ]] || PROMPT_COMMAND=()
    \builtin local count=${#PROMPT_COMMAND[@]} each
    if ((count > 1)) && [[ ${PROMPT_COMMAND[0]-} == "$first" && ${PROMPT_COMMAND[count - 1]-} == "$last" ]]; then
      \builtin return 0
    fi
    \builtin local -a own
    own=()
    for each in ${PROMPT_COMMAND[@]+"${PROMPT_COMMAND[@]}"}; do
      [[ $each == "$first" || $each == "$last" ]] || own+=("$each")
    done
    PROMPT_COMMAND=("$first" ${own[@]+"${own[@]}"} "$last")
  }

  # One paste is one edit, whatever the user's inputrc says; a private key clears the line without touching `$?`, another
  # draws the prompt anew.
  {
    \builtin bind 'set enable-bracketed-paste on'
    \builtin bind -m emacs '"\e[7777~": kill-whole-line'
    \builtin bind -m vi-insert '"\e[7777~": kill-whole-line'
    \builtin bind -m vi-command '"\e[7777~": "S"'
    \builtin bind -m emacs '"\e[7778~": redraw-current-line'
    \builtin bind -m vi-insert '"\e[7778~": redraw-current-line'
    \builtin bind -m vi-command '"\e[7778~": redraw-current-line'
  } 2>/dev/null

  case ${TMUXMCP_HISTFILE-} in
  '') ;;
  none) \builtin unset HISTFILE ;;
  *)
    HISTFILE=$TMUXMCP_HISTFILE
    \builtin declare +x HISTFILE
    ;;
  esac
  \builtin unset TMUXMCP_NONCE TMUXMCP_HISTFILE TMUXMCP_BASH
  if [[ ${TMUXMCP_FIRST_PROMPT-} ]]; then
    # Loaded by PROMPT_COMMAND itself, which is running: this prompt gets its marks now.
    PROMPT_COMMAND=${PROMPT_COMMAND//"$TMUXMCP_FIRST_PROMPT"/:}
    \builtin declare +x PROMPT_COMMAND
    \builtin unset TMUXMCP_FIRST_PROMPT
    __tmuxmcp_last 0 2>/dev/null
  else
    __tmuxmcp_install
  fi
fi
