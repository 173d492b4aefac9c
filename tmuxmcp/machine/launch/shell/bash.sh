# tmuxmcp start-up file for bash (4.4 and later): tells where prompts, commands and their output begin and end.
#
# Marks are OSC 133 (the FinalTerm semantic prompts): A prompt, B input, C output, D;STATUS done, P;k=s the
# continuation prompt. Each carries aid=NONCE of this shell, kept in an unexported variable, and n=NUMBER of the
# prompt, so that a file full of marks, a nested shell or a replayed log cannot pass for this one; D carries the
# working directory, and OSC 7 tells it to others once it is another: for each of those, tmux draws the status line and
# all that surrounds the pane anew, in every terminal that is attached. C and D carry the time, t=SECONDS, from bash 5.0
# on. Prompts look as they did; `$?` is untouched; set -u, -e and -x do no harm.
#
# Every expansion is quoted: IFS is the user's, and behind `\builtin` bash splits the words of `local` like those of any
# command; under `set -k` it takes an assignment there for its environment, so `local` is given names alone. Variables
# are globals with names of our own: a local cannot hide a `readonly status` of the user's.
#
# Read by `--rcfile` with TMUXMCP_RC naming the user's own file, or at the first prompt by PROMPT_COMMAND.

# Once, by a file: other processes can read the environment that a shell began with as long as it lives.
if [[ ${TMUXMCP_NONCE_FILE-} ]]; then
  \builtin unset TMUXMCP_NONCE
  { \builtin read -r TMUXMCP_NONCE <"$TMUXMCP_NONCE_FILE" && \builtin : >|"$TMUXMCP_NONCE_FILE"; } 2>/dev/null
  \builtin unset TMUXMCP_NONCE_FILE
fi

# Before the user's own file, which may switch it on again: `!` is no earlier command.
[[ ! ${TMUXMCP_NONCE-} || ${TMUXMCP_HISTEXPAND-} ]] || \builtin set +H
\builtin unset TMUXMCP_HISTEXPAND

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
  __tmuxmcp_given=$TMUXMCP_GIVEN
  # Prompts are counted from here on: in a shell that takes the marks in later, after those of the shells around it.
  __tmuxmcp_from=${TMUXMCP_NUMBER:-0}
  __tmuxmcp_n=$__tmuxmcp_from __tmuxmcp_slow=0
  __tmuxmcp_open= __tmuxmcp_job= __tmuxmcp_late= __tmuxmcp_proof= __tmuxmcp_told= __tmuxmcp_tell= __tmuxmcp_owed=
  __tmuxmcp_a= __tmuxmcp_b= __tmuxmcp_c= __tmuxmcp_e= __tmuxmcp_s= __tmuxmcp_traps= __tmuxmcp_status=0

  # The working directory as a URL path; LC_ALL is C.
  __tmuxmcp_url() {
    __tmuxmcp_urlpath=$1
    [[ $1 == *[!A-Za-z0-9/._~-]* ]] || \builtin return 0
    __tmuxmcp_urlpath=
    for ((__tmuxmcp_i = 0; __tmuxmcp_i < ${#1}; __tmuxmcp_i++)); do
      __tmuxmcp_char=${1:__tmuxmcp_i:1}
      if [[ $__tmuxmcp_char == [!A-Za-z0-9/._~-] ]]; then
        \builtin printf -v __tmuxmcp_char '%d' "'$__tmuxmcp_char"
        \builtin printf -v __tmuxmcp_char '%%%02X' "$((__tmuxmcp_char & 255))"
      fi
      __tmuxmcp_urlpath+=$__tmuxmcp_char
    done
  }

  # First of the prompt commands: the command is done.
  __tmuxmcp_first() {
    # `set -a` exports what is set here: it is ours alone.
    \builtin local -
    \builtin set +a
    __tmuxmcp_status=$1
    [[ $__tmuxmcp_owed ]] || ! __tmuxmcp_knows_status "$__tmuxmcp_before" || __tmuxmcp_over "$1"
  }

  # Whether `$?` is the command's where a text of ours calls: at the beginning of an element of PROMPT_COMMAND. Behind
  # `more; ` or in a function of the user's it is of what ran before it.
  __tmuxmcp_knows_status() {
    ((${#FUNCNAME[@]} < 3)) || \builtin return 1
    \builtin local __tmuxmcp_leads
    __tmuxmcp_leads=
    for __tmuxmcp_each in ${PROMPT_COMMAND[@]+"${PROMPT_COMMAND[@]}"}; do
      [[ $__tmuxmcp_each != ?*"$1"* ]] || \builtin return 1
      [[ $__tmuxmcp_each != "$1"* ]] || __tmuxmcp_leads=1
    done
    [[ $__tmuxmcp_leads ]]
  }

  # Written to the terminal itself, whatever `exec >file` did, and behind what comes there through other programs.
  # A Ctrl-C may end this function anywhere, and then it runs once more: what is owed is told as it was.
  __tmuxmcp_tell_end() {
    if [[ $__tmuxmcp_owed ]]; then
      [[ ! ${__tmuxmcp_histexpand-} ]] || \builtin set -H
      \builtin local -
      \builtin set +a
      __tmuxmcp_drain || __tmuxmcp_tell=${__tmuxmcp_tell/;aid=/;w=1;aid=}
      \builtin printf %s "$__tmuxmcp_tell" >/dev/tty
      \builtin unset -v __tmuxmcp_begun __tmuxmcp_drawn __tmuxmcp_histexpand _tm_a _tm_s _tm_t _tm_d
      __tmuxmcp_tell= __tmuxmcp_owed=
    fi
    \builtin return "$__tmuxmcp_status"
  }

  # Where what the shell prints goes through other programs (`exec > >(tee log) 2>&1`), wait until these have passed it on:
  # to 8, which is stdout, and 9, which is stderr. False where they do not in time, or where that cannot be seen.
  __tmuxmcp_drain() {
    [[ -p /dev/fd/8 || -p /dev/fd/9 ]] || \builtin return 0
    \builtin local __tmuxmcp_tries
    \builtin set +f
    for ((__tmuxmcp_tries = __tmuxmcp_slow ? 20 : 120; __tmuxmcp_tries; __tmuxmcp_tries--)); do
      __tmuxmcp_passed_on /dev/fd/8 && __tmuxmcp_passed_on /dev/fd/9 && __tmuxmcp_slow=0 && \builtin return 0
      \builtin command sleep "0.0$((__tmuxmcp_tries > 100 ? 1 : 5))"
    done
    __tmuxmcp_slow=1
    \builtin return 1
  }

  # Whether nothing is under way in a pipe: it is empty, and who reads it waits for more, or for a child that does. The
  # same of the pipes that those write to.
  __tmuxmcp_passed_on() {
    [[ -p $1 ]] || \builtin return 0
    ! \builtin read -rt 0 <"$1" || \builtin return 1
    \builtin local __tmuxmcp_reads __tmuxmcp_process __tmuxmcp_how
    __tmuxmcp_reads=
    for __tmuxmcp_process in /proc/[0-9]*/fd/0; do
      [[ $__tmuxmcp_process -ef $1 ]] || \builtin continue
      __tmuxmcp_process=${__tmuxmcp_process%/fd/0} __tmuxmcp_how=
      \builtin read -r __tmuxmcp_how <"$__tmuxmcp_process/wchan" || [[ $__tmuxmcp_how ]] || \builtin continue
      case $__tmuxmcp_how in
      *pipe_read | pipe_wait)
        __tmuxmcp_reads=1
        ((${#FUNCNAME[@]} > 8)) || { __tmuxmcp_passed_on "$__tmuxmcp_process/fd/1" &&
          __tmuxmcp_passed_on "$__tmuxmcp_process/fd/2"; } || \builtin return 1
        ;;
      *wait* | *sigsuspend*) ;;
      *) \builtin return 1 ;;
      esac
    done
    [[ $__tmuxmcp_reads ]]
  }

  # What there is to tell of a command that is over. From the last line on, the next prompt is under way.
  __tmuxmcp_over() {
    # Not told, so that the broker asks the kernel, where PWD names another directory: this one was renamed, or a
    # link changed, or the user set it. Nor where a readonly LC_ALL hides the bytes of a name.
    __tmuxmcp_urlpath= __tmuxmcp_each=
    [[ ${PWD-} -ef . ]] && \builtin local LC_ALL && LC_ALL=C && __tmuxmcp_url "$PWD"
    if ((__tmuxmcp_n > __tmuxmcp_from)); then
      __tmuxmcp_now=${EPOCHREALTIME-}
      __tmuxmcp_each=$'\e]133;D;'"$1;aid=$__tmuxmcp_aid;n=$__tmuxmcp_n;t=${__tmuxmcp_now//[!0-9.,]/}$__tmuxmcp_late"
      # bash has printed the line that called this.
      [[ $- != *v* || $__tmuxmcp_late ]] || __tmuxmcp_each+=';k=v'
      [[ ${PROMPT_COMMAND[*]-} == "$__tmuxmcp_before"* && ! $__tmuxmcp_late ]] || __tmuxmcp_each+=';h=1'
      __tmuxmcp_each+=${__tmuxmcp_urlpath:+";cwd=$__tmuxmcp_urlpath"}${__tmuxmcp_job:+";job=$__tmuxmcp_job"}
      __tmuxmcp_each+=${__tmuxmcp_proof:+";p=$__tmuxmcp_proof"}$'\a'
    fi
    if [[ $__tmuxmcp_urlpath && $__tmuxmcp_urlpath != "$__tmuxmcp_told" ]]; then
      __tmuxmcp_told=$__tmuxmcp_urlpath
      # The user may set HOSTNAME, and what it holds must not end the sequence.
      __tmuxmcp_host=${HOSTNAME-}
      __tmuxmcp_each+=$'\e]7;file://'"${__tmuxmcp_host//[!A-Za-z0-9._-]/}$__tmuxmcp_urlpath"$'\a'
    fi
    __tmuxmcp_tell=$__tmuxmcp_each __tmuxmcp_owed=1
    __tmuxmcp_n=$((__tmuxmcp_n + 1)) __tmuxmcp_open=1 __tmuxmcp_job= __tmuxmcp_proof=
  }

  # Last of them: wrap the prompts again where the user's own commands changed them. The marks say what variables hold
  # when they are printed, so that they stay as they are; only where the user has switched that off (promptvars) they
  # change, and C cannot tell the command's name. That C was printed tells __tmuxmcp_begun, and that a prompt was drawn
  # since, which is behind the command, __tmuxmcp_drawn.
  __tmuxmcp_last() {
    \builtin local -
    \builtin set +a
    if [[ ! $__tmuxmcp_open && $1 ]] && __tmuxmcp_knows_status "$__tmuxmcp_after"; then
      __tmuxmcp_over "$1"
      __tmuxmcp_tell_end || \builtin :
    fi
    __tmuxmcp_open=
    __tmuxmcp_tag="aid=$__tmuxmcp_aid;n=$__tmuxmcp_n"
    __tmuxmcp_look_for_traps
    __tmuxmcp_strip
    if \builtin shopt -q promptvars; then
      __tmuxmcp_c='\e]133;C;${__tmuxmcp_tag}${__tmuxmcp_job:+;job=$__tmuxmcp_job}${__tmuxmcp_begun=}${__tmuxmcp_traps};t=${EPOCHREALTIME-}\a'
      __tmuxmcp_e='\e]133;P;k=e;${__tmuxmcp_tag}\a'
      __tmuxmcp_each='${__tmuxmcp_tag}${__tmuxmcp_begun+${__tmuxmcp_drawn=}}'
    else
      __tmuxmcp_c="\e]133;C;$__tmuxmcp_tag;job=?$__tmuxmcp_traps\a" __tmuxmcp_e="\e]133;P;k=e;$__tmuxmcp_tag\a"
      __tmuxmcp_each=$__tmuxmcp_tag
    fi
    __tmuxmcp_s="\[\e]133;P;k=s;$__tmuxmcp_each\a\]"
    if [[ ! -t 9 ]] && \builtin shopt -q promptvars; then
      # What PS0 and PS2 print goes where stderr goes, late or never: their marks come from what they call.
      [[ -e /dev/fd/9 ]] && __tmuxmcp_s='9>&2 8>&2' || __tmuxmcp_s='9>&- 8>&-'
      __tmuxmcp_c="\${__tmuxmcp_begun=}\$({ __tmuxmcp_begins; } $__tmuxmcp_s 2>/dev/null)"
      __tmuxmcp_s="\$(__tmuxmcp_wants_more $__tmuxmcp_s 2>/dev/null)"
    fi
    __tmuxmcp_a="\[\e]133;A;$__tmuxmcp_each\a\]" __tmuxmcp_b="\[\e]133;B;$__tmuxmcp_each\a\]"
    # What the user's own PS0 prints is neither the line editor's nor the command's.
    __tmuxmcp_set PS0 "${__tmuxmcp_user_ps0:+$__tmuxmcp_e$__tmuxmcp_user_ps0}$__tmuxmcp_c"
    __tmuxmcp_set PS1 "$__tmuxmcp_a$__tmuxmcp_user_ps1$__tmuxmcp_b"
    __tmuxmcp_set PS2 "$__tmuxmcp_s$__tmuxmcp_user_ps2"
    [[ -t 9 && ${PS1-} == *"$__tmuxmcp_b"* ]] || __tmuxmcp_show
    __tmuxmcp_install
    \builtin return 0
  }

  # C, behind what the line editor has printed.
  __tmuxmcp_begins() {
    __tmuxmcp_drain || \builtin :
    __tmuxmcp_now=${EPOCHREALTIME-}
    \builtin printf '\e]133;C;%s;s=1%s%s\a' "$__tmuxmcp_tag" "${__tmuxmcp_job:+;job=$__tmuxmcp_job}$__tmuxmcp_traps" \
      "${__tmuxmcp_now:+;t=$__tmuxmcp_now}" >/dev/tty
  }

  __tmuxmcp_wants_more() {
    __tmuxmcp_drain || \builtin :
    \builtin printf '\e]133;P;k=s;%s\a' "$__tmuxmcp_tag" >/dev/tty
  }

  # Whether a trap for a signal may end the shell in the middle of a command, or one for its end give it another status,
  # which C tells: the shell then exits with a status that a command can have. No process lists the traps: where there is
  # one, it cannot be written.
  __tmuxmcp_look_for_traps() {
    __tmuxmcp_traps=
    [[ ! -c /dev/full ]] ||
      \builtin trap -p HUP INT QUIT ABRT USR1 USR2 PIPE ALRM TERM CHLD XCPU >/dev/full || __tmuxmcp_traps=';k=t'
    [[ ! -c /dev/full ]] || \builtin trap -p EXIT >/dev/full || ! __tmuxmcp_exit_trap_exits || __tmuxmcp_traps=';k=x'
  }

  # Whether the trap for the shell's end may exit with another status: it says so, or calls a function.
  __tmuxmcp_exit_trap_exits() {
    \builtin local - IFS || \builtin return 0
    IFS=$' \t\n;&|(){}\'"'
    \builtin set -f
    for __tmuxmcp_each in $(\builtin trap -p EXIT); do
      [[ $__tmuxmcp_each != @(exit|exec|kill) ]] && ! \builtin declare -F -- "$__tmuxmcp_each" || \builtin return 0
    done
    \builtin return 1
  }

  # The prompts without marks, also where one was made from another (virtualenv).
  __tmuxmcp_strip() {
    __tmuxmcp_user_ps0=${PS0-} __tmuxmcp_user_ps1=${PS1-} __tmuxmcp_user_ps2=${PS2-}
    [[ $__tmuxmcp_a ]] || \builtin return 0
    __tmuxmcp_user_ps0=${__tmuxmcp_user_ps0//"$__tmuxmcp_c"/}
    __tmuxmcp_user_ps0=${__tmuxmcp_user_ps0//"$__tmuxmcp_e"/}
    __tmuxmcp_user_ps1=${__tmuxmcp_user_ps1//"$__tmuxmcp_a"/}
    __tmuxmcp_user_ps1=${__tmuxmcp_user_ps1//"$__tmuxmcp_b"/}
    __tmuxmcp_user_ps2=${__tmuxmcp_user_ps2//"$__tmuxmcp_s"/}
  }

  # Whether a variable can be set: not if it is readonly.
  __tmuxmcp_free() { \builtin local "$1"; }

  __tmuxmcp_set() {
    [[ ${!1-} == "$2" ]] || { __tmuxmcp_free "$1" && \builtin printf -v "$1" %s "$2"; } || \builtin :
  }

  # The marks of a prompt, where the prompt itself cannot hold them or is not printed to the terminal.
  __tmuxmcp_show() { \builtin printf '\e]133;A;%s\a\e]133;B;%s\a' "$__tmuxmcp_tag" "$__tmuxmcp_tag" >/dev/tty; }

  # Another key asks at which prompt we are. If no hook told of the end of a command, this does, and puts the hooks back.
  # bash holds on to the text of PS0 while it reads a line: it waits for the next prompt.
  __tmuxmcp_ask() {
    if [[ ${__tmuxmcp_begun+set} ]]; then
      # Else a command uses the line editor: `read -e`.
      [[ ${__tmuxmcp_drawn+set} ]] || \builtin return 0
      __tmuxmcp_late=';k=l'
      [[ $__tmuxmcp_owed ]] || __tmuxmcp_over "$1"
      __tmuxmcp_tell_end || \builtin :
      __tmuxmcp_late=
    fi
    if [[ ${PS0-} == *"$__tmuxmcp_c"* || ! ${PS0+set} ]]; then
      __tmuxmcp_open=1
      __tmuxmcp_last "$1"
    else
      __tmuxmcp_open=
      __tmuxmcp_tag="aid=$__tmuxmcp_aid;n=$__tmuxmcp_n"
      __tmuxmcp_install
    fi
    __tmuxmcp_show
    \builtin printf '\e]133;P;k=i;%s\a' "$__tmuxmcp_tag" >/dev/tty
    \builtin return 0
  }

  __tmuxmcp_keep_status() {
    \builtin local -
    \builtin set +a
    __tmuxmcp_status=$1
  }

  # Make a text that calls one of ours, with stdout as 8 and stderr as 9; and once more without those where the user has
  # closed one, or where that is another's status (`$?`); not where bash may open too few files for them.
  __tmuxmcp_quietly() {
    \builtin printf -v "$1" '{ %s; } 9>&2 2>/dev/null 8>&1 >/dev/null || %s' "$2" \
      "{ { \\builtin :; } 9>/dev/null && ${3-$2}; } 8>&- 9>&- >/dev/null 2>&1"
  }

  # Keep ours first and last, around whatever is there. `set -x` and traps (DEBUG) print nothing into their output.
  # Before 5.1 all are one text: ours hands on `$?`, which `&&` keeps from `set -e`.
  __tmuxmcp_before='{ __tmuxmcp_first "$?"; } >/dev/null 2>&1; '
  __tmuxmcp_quietly __tmuxmcp_each '__tmuxmcp_tell_end && \builtin :'
  __tmuxmcp_before+=$__tmuxmcp_each
  __tmuxmcp_quietly __tmuxmcp_after '__tmuxmcp_last "$?"' '__tmuxmcp_last ""'
  __tmuxmcp_install() {
    __tmuxmcp_free PROMPT_COMMAND || \builtin return 0
    if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 501)); then
      [[ ${PROMPT_COMMAND-} == "$__tmuxmcp_before"$'\n'*$'\n'"$__tmuxmcp_after" ]] && \builtin return 0
      __tmuxmcp_own=${PROMPT_COMMAND-}
      __tmuxmcp_own=${__tmuxmcp_own//"$__tmuxmcp_before"/:}
      __tmuxmcp_own=${__tmuxmcp_own//"$__tmuxmcp_after"/:}
      PROMPT_COMMAND=$__tmuxmcp_before$'\n'${__tmuxmcp_own:-:}$'\n'$__tmuxmcp_after
      \builtin return 0
    fi
    [[ ${PROMPT_COMMAND[*]+set} ]] || PROMPT_COMMAND=()
    if ((${#PROMPT_COMMAND[@]} > 1)) && [[ ${PROMPT_COMMAND[*]} == "$__tmuxmcp_before"* &&
      ${PROMPT_COMMAND[*]: -1} == "$__tmuxmcp_after" ]]; then
      \builtin return 0
    fi
    __tmuxmcp_own=()
    for __tmuxmcp_each in ${PROMPT_COMMAND[@]+"${PROMPT_COMMAND[@]}"}; do
      [[ $__tmuxmcp_each == "$__tmuxmcp_before" || $__tmuxmcp_each == "$__tmuxmcp_after" ]] && \builtin continue
      __tmuxmcp_each=${__tmuxmcp_each//"$__tmuxmcp_before"/:}
      __tmuxmcp_own+=("${__tmuxmcp_each//"$__tmuxmcp_after"/:}")
    done
    # PROMPT_COMMAND without an index is element 0: there the user's own stands, which many a command puts something
    # before. Ours comes before that: behind the highest index bash goes on at the lowest, where it does so at all.
    PROMPT_COMMAND=([0x7fffffffffffffff]=:)
    PROMPT_COMMAND+=("$__tmuxmcp_before")
    \builtin unset 'PROMPT_COMMAND[0x7fffffffffffffff]'
    PROMPT_COMMAND[0]=
    if [[ ${PROMPT_COMMAND[*]} == "$__tmuxmcp_before"* ]]; then
      PROMPT_COMMAND[0]=${__tmuxmcp_own[0]-}
      PROMPT_COMMAND+=(${__tmuxmcp_own[1]+"${__tmuxmcp_own[@]:1}"} "$__tmuxmcp_after")
    else
      PROMPT_COMMAND=("$__tmuxmcp_before" ${__tmuxmcp_own[@]+"${__tmuxmcp_own[@]}"} "$__tmuxmcp_after")
    fi
  }

  # The key's function: half a proof, of 32 characters, and a name of eight follow, and a NUL. The file of that name
  # holds the line, in place of whatever was typed. That half comes with D, and is nobody else's until then. The file is
  # emptied, which tells that it was read. Where there is none, the line becomes an empty one, which changes nothing:
  # neither `$?` nor `$_`, which is why that is the last word of the call.
  __tmuxmcp_run() {
    \builtin local __tmuxmcp_text
    __tmuxmcp_text= READLINE_LINE= READLINE_POINT=0
    if [[ ! $__tmuxmcp_given ]]; then
      __tmuxmcp_take
      \builtin return 0
    fi
    __tmuxmcp_read_name
    if [[ -s $__tmuxmcp_given/$__tmuxmcp_job ]] && __tmuxmcp_read <"$__tmuxmcp_given/$__tmuxmcp_job"; then
      \builtin : >|"$__tmuxmcp_given/$__tmuxmcp_job"
      READLINE_LINE=$__tmuxmcp_text READLINE_POINT=${#__tmuxmcp_text}
      __tmuxmcp_begin_unseen
    else
      \builtin printf '\e]133;P;k=r;%s\a' "$__tmuxmcp_tag;job=$__tmuxmcp_job" >/dev/tty
      __tmuxmcp_job= __tmuxmcp_proof=
    fi
    \builtin return 0
  }

  # Nothing that readline prints comes to the terminal, nor does a PS0 that is no call of ours.
  __tmuxmcp_begin_unseen() { [[ -t 9 || ${PS0-} == *__tmuxmcp_begins* ]] || __tmuxmcp_begins; }

  # Neither exported (`set -a`) nor traced, wherever `set -x` writes to (BASH_XTRACEFD).
  __tmuxmcp_read_name() {
    \builtin local -
    \builtin set +ax
    # What somebody typed meanwhile, and the key once more, stand before it.
    __tmuxmcp_read </dev/tty || \builtin :
    __tmuxmcp_job=${__tmuxmcp_text: -8}
    __tmuxmcp_job=${__tmuxmcp_job//[!0-9a-f]/}
    __tmuxmcp_proof=${__tmuxmcp_text: -40:32}
    __tmuxmcp_proof=${__tmuxmcp_proof//[!0-9a-f]/}
    __tmuxmcp_text=
  }

  # What comes before a NUL, as it is: in REPLY, which is never split, or without IFS where REPLY is readonly.
  __tmuxmcp_read() {
    \builtin local __tmuxmcp_whole
    __tmuxmcp_whole=1
    if __tmuxmcp_free REPLY; then
      \builtin local REPLY
      REPLY=
      \builtin read -rt 5 -d '' || __tmuxmcp_whole=
      __tmuxmcp_text=$REPLY
    else
      \builtin local IFS && IFS= || \builtin :
      \builtin read -rt 5 -d '' __tmuxmcp_text || __tmuxmcp_whole=
    fi
    [[ $__tmuxmcp_whole ]]
  }

  # In a shell that was not started with the marks: it listens, and the line comes over the terminal, as printable text
  # for `printf %b`, in arguments of `:` that run nothing in whatever shell they land. The last line tells the length.
  __tmuxmcp_take() {
    __tmuxmcp_listen
    if [[ $__tmuxmcp_job ]]; then
      # `!` is no earlier command, whatever the user has it mean.
      [[ $- != *H* ]] || __tmuxmcp_histexpand=1
      \builtin set +H
      __tmuxmcp_begin_unseen
    else
      \builtin printf '\e]133;P;k=r;%s\a' "$__tmuxmcp_tag" >/dev/tty
    fi
  }

  # The first word is the name of eight characters, and the proof behind it.
  __tmuxmcp_listen() {
    \builtin local -
    \builtin set +ax
    __tmuxmcp_text= __tmuxmcp_job= __tmuxmcp_proof= __tmuxmcp_each=
    \builtin printf '\e]133;P;k=g;%s\a' "$__tmuxmcp_tag" >/dev/tty
    while IFS= \builtin read -rt 10 __tmuxmcp_each && [[ $__tmuxmcp_each != ': .'* ]]; do
      __tmuxmcp_each=${__tmuxmcp_each#*": '"}
      __tmuxmcp_text+=${__tmuxmcp_each%".' :"}
    done
    if [[ $__tmuxmcp_each == ": .${#__tmuxmcp_text}" ]]; then
      __tmuxmcp_each=${__tmuxmcp_text%%" "*}
      __tmuxmcp_job=${__tmuxmcp_each:0:8} __tmuxmcp_proof=${__tmuxmcp_each:40:32}
      \builtin printf -v READLINE_LINE %b "${__tmuxmcp_text#*" "}"
      READLINE_POINT=${#READLINE_LINE}
    fi
    __tmuxmcp_text= __tmuxmcp_each=
  }

  # One paste is one edit, whatever the user's inputrc says. One key is two: the first has a command of the shell run, the
  # second accepts the line. Another asks.
  {
    \builtin bind 'set enable-bracketed-paste on'
    __tmuxmcp_quietly __tmuxmcp_run_text '__tmuxmcp_run "$_"'
    __tmuxmcp_quietly __tmuxmcp_ask_text '__tmuxmcp_ask "$__tmuxmcp_status" "$_"'
    __tmuxmcp_ask_text="{ __tmuxmcp_keep_status \"\$?\" \"\$_\"; } >/dev/null 2>&1; $__tmuxmcp_ask_text"
    for __tmuxmcp_each in emacs vi-insert vi-command; do
      \builtin bind -m "$__tmuxmcp_each" -x "\"\\e[7775~\": $__tmuxmcp_run_text"
      \builtin bind -m "$__tmuxmcp_each" '"\e[7776~": accept-line'
      \builtin bind -m "$__tmuxmcp_each" '"\e[7777~": "\e[7775~\e[7776~"'
      \builtin bind -m "$__tmuxmcp_each" -x "\"\\e[7778~\": $__tmuxmcp_ask_text"
    done
  } 2>/dev/null

  case ${TMUXMCP_HISTFILE-} in
  '') ;;
  none) \builtin unset HISTFILE ;;
  *)
    HISTFILE=$TMUXMCP_HISTFILE
    \builtin declare +x HISTFILE
    ;;
  esac
  \builtin unset TMUXMCP_NONCE TMUXMCP_HISTFILE TMUXMCP_GIVEN TMUXMCP_NUMBER TMUXMCP_BASH
  if [[ ${TMUXMCP_FIRST_PROMPT-} ]]; then
    # Loaded by PROMPT_COMMAND itself, which is running: this prompt gets its marks now.
    PROMPT_COMMAND=${PROMPT_COMMAND//"$TMUXMCP_FIRST_PROMPT"/:}
    \builtin declare +x PROMPT_COMMAND
    \builtin unset TMUXMCP_FIRST_PROMPT
    __tmuxmcp_over 0
    { __tmuxmcp_tell_end && __tmuxmcp_last 0; } 9>&2 2>/dev/null
  elif __tmuxmcp_free PROMPT_COMMAND 2>/dev/null; then
    __tmuxmcp_install
  elif { __tmuxmcp_free PS0 && __tmuxmcp_free PS1; } 2>/dev/null; then
    # These alone tell that a command begins and that a prompt comes; the key that asks does the rest.
    __tmuxmcp_over 0
    { __tmuxmcp_tell_end && __tmuxmcp_last 0; } 9>&2 2>/dev/null
  fi
fi
