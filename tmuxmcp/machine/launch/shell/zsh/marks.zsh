# tmuxmcp marks for zsh (5.1 and later): where prompts, commands and their output begin and end, as in bash.sh.
#
# One mark more than in bash: E stands where zsh begins to tidy up before a prompt (to an unfinished line it adds a "%"
# before any hook runs), and so where the output ends. And one key, ESC[7777~: it answers with P;k=g, reads
# "JOB NUL SIZES NUL COMMAND NUL" and runs the command in place of whatever was typed: nobody's widgets, pastes and key
# timeouts have a say. C and D then carry job=JOB. C tells the command, and C and D the time, t=SECONDS.
#
# Read by .zshenv, with zsh's own options.

# Prompts are counted from here on, as in bash.sh.
typeset -gHi __tmuxmcp_from=${__tmuxmcp_from:-0}
typeset -gHi __tmuxmcp_n=$__tmuxmcp_from
typeset -gH __tmuxmcp_begun= __tmuxmcp_late= __tmuxmcp_open= __tmuxmcp_job= __tmuxmcp_back= __tmuxmcp_urlpath= __tmuxmcp_told=
typeset -gH __tmuxmcp_ran=  # nothing stands between the command and its run any more
# The halves of a proof that came with a command: one comes with E, the other with D, and they are nobody else's until then.
typeset -gH +x __tmuxmcp_over= __tmuxmcp_done=
typeset -gH __tmuxmcp_clock='%D{%s.%6.}'  # as in a prompt: microseconds, without a module
typeset -gH __tmuxmcp_ps1= __tmuxmcp_ps2= __tmuxmcp_eol=
typeset -gH __tmuxmcp_user_ps1= __tmuxmcp_user_ps2= __tmuxmcp_user_eol=

# The working directory as a URL path.
__tmuxmcp_url() {
  builtin setopt extended_glob no_multibyte
  local MATCH MBEGIN MEND
  __tmuxmcp_urlpath=${1//(#m)[^A-Za-z0-9\/._~-]/%${(l:2::0:)$(([##16] #MATCH))}}
}

# Where what is printed goes through other programs (`exec > >(tee log)`), wait until these have passed it on, as in bash.sh.
typeset -gHi __tmuxmcp_slow=0
__tmuxmcp_drain() {
  [[ -p /dev/fd/1 || -p /dev/fd/2 ]] || return 0
  builtin zmodload zsh/zselect 2>/dev/null || return 1
  local -i tries
  for (( tries = __tmuxmcp_slow ? 20 : 120; tries; tries-- )); do
    if __tmuxmcp_passed_on /dev/fd/1 && __tmuxmcp_passed_on /dev/fd/2; then
      __tmuxmcp_slow=0
      return 0
    fi
    builtin zselect -t $(( tries > 100 ? 1 : 5 )) || builtin :
  done
  __tmuxmcp_slow=1
  return 1
}

__tmuxmcp_passed_on() {
  [[ -p $1 ]] || return 0
  local process how reads=
  local -a ready
  ! { builtin zselect -a ready -t 0 -r 0 } <$1 2>/dev/null || return 1
  for process in /proc/<->/fd/0(N); do
    [[ $process -ef $1 ]] || continue
    process=${process%/fd/0} how=
    { builtin read -r how <$process/wchan || [[ -n $how ]] } 2>/dev/null || continue
    case $how in
      (*pipe_read|pipe_wait)
        reads=1
        (( $#funcstack > 8 )) || { __tmuxmcp_passed_on $process/fd/1 && __tmuxmcp_passed_on $process/fd/2 } || return 1
        ;;
      (*wait*|*sigsuspend*) ;;
      (*) return 1 ;;
    esac
  done
  [[ -n $reads ]]
}

# Before the user's own precmd functions: the command is done. Written to the terminal, whatever `exec >file` did.
__tmuxmcp_precmd() {
  local code=$?
  local said=$code tell= why=n late= tag="aid=$__tmuxmcp_aid;n=$__tmuxmcp_n"
  if [[ -n $__tmuxmcp_open ]]; then
    return code
  fi
  __tmuxmcp_drain || late=';w=1'
  # Not told where PWD names another directory, as in bash.sh.
  __tmuxmcp_urlpath=
  [[ $PWD -ef . ]] && __tmuxmcp_url $PWD
  if (( __tmuxmcp_n > __tmuxmcp_from )); then
    if [[ -n $__tmuxmcp_ran ]]; then
      why=${__tmuxmcp_late:-b}
    elif [[ -n $__tmuxmcp_job ]]; then
      # zsh refused it, and leaves `$?` as it was, unless that was 0.
      said=1
    fi
    # What came late stands behind the E of this command, if there was one.
    [[ ! -p /dev/fd/1 && ! -p /dev/fd/2 ]] || tell=$'\e]133;E;'"$tag${__tmuxmcp_over:+;p=$__tmuxmcp_over}"$'\a'
    tell+=$'\e]133;D;'"$said;$tag;t=${(%)__tmuxmcp_clock};k=$why"
    if [[ -n $__tmuxmcp_late || ${precmd_functions[1]-} != __tmuxmcp_precmd ]] || __tmuxmcp_misses_precmd; then
      tell+=';h=1'
    fi
    tell+=$late${__tmuxmcp_urlpath:+;cwd=$__tmuxmcp_urlpath}${__tmuxmcp_job:+;job=$__tmuxmcp_job}
    tell+=${__tmuxmcp_done:+;p=$__tmuxmcp_done}$'\a'
  fi
  if [[ -n $__tmuxmcp_urlpath && $__tmuxmcp_urlpath != "$__tmuxmcp_told" ]]; then
    __tmuxmcp_told=$__tmuxmcp_urlpath
    # The user may set HOST, and what it holds must not end the sequence.
    tell+=$'\e]7;file://'${HOST//[^A-Za-z0-9._-]/}$__tmuxmcp_urlpath$'\a'
  fi
  # A Ctrl-C may end this function anywhere: until it is told, the key tells it (__tmuxmcp_report).
  builtin print -rn -- $tell >/dev/tty
  __tmuxmcp_n+=1
  __tmuxmcp_open=1
  __tmuxmcp_job= __tmuxmcp_over= __tmuxmcp_done= __tmuxmcp_begun= __tmuxmcp_ran=
  unset _tm_a _tm_s _tm_t _tm_d
  return code
}

# After them: they may have made new prompts.
__tmuxmcp_prompts() {
  builtin setopt extended_glob
  # Marks inside a prompt that was made from ours (virtualenv) are old ones.
  local old=$'%\\{\e\\]133;[^\a]#\a%\\}' tag="aid=$__tmuxmcp_aid;n=$__tmuxmcp_n"
  __tmuxmcp_open=
  [[ ${PROMPT-} == "$__tmuxmcp_ps1" ]] || __tmuxmcp_user_ps1=${PROMPT//$~old}
  [[ ${PROMPT2-} == "$__tmuxmcp_ps2" ]] || __tmuxmcp_user_ps2=${PROMPT2//$~old}
  if [[ -z ${PROMPT_EOL_MARK+set} ]]; then
    __tmuxmcp_user_eol='%B%S%#%s%b'
  elif [[ $PROMPT_EOL_MARK != "$__tmuxmcp_eol" ]]; then
    __tmuxmcp_user_eol=${PROMPT_EOL_MARK//$~old}
  fi
  __tmuxmcp_ps1=$'%{\e]133;A;'$tag$'\a%}'$__tmuxmcp_user_ps1$'%{\e]133;B;'$tag$'\a%}'
  __tmuxmcp_ps2=$'%{\e]133;P;k=s;'$tag$'\a%}'$__tmuxmcp_user_ps2
  __tmuxmcp_eol=$'%{\e]133;E;'$tag$'\a%}'$__tmuxmcp_user_eol
  __tmuxmcp_install
  # One name of the prompt may be readonly, and the other not.
  if [[ ${(t)PROMPT-} == *readonly* ]]; then
    PS1=$__tmuxmcp_ps1
  else
    PROMPT=$__tmuxmcp_ps1
  fi
  PROMPT2=$__tmuxmcp_ps2 PROMPT_EOL_MARK=$__tmuxmcp_eol
}

# The output begins. The last of the preexec functions: others may print.
__tmuxmcp_preexec() {
  __tmuxmcp_begun=1
  local tag="aid=$__tmuxmcp_aid;n=$__tmuxmcp_n;t=${(%)__tmuxmcp_clock}${__tmuxmcp_job:+;job=$__tmuxmcp_job}"
  # As it was typed; without a history only as it is run. A mark has a bounded length.
  local text=${1:-$3}
  (( $#text <= 1000 )) || text=${text[1,1000]}…
  __tmuxmcp_url $text
  if [[ -n $__tmuxmcp_over && ${PROMPT_EOL_MARK-} == "$__tmuxmcp_eol" ]]; then
    __tmuxmcp_eol=$'%{\e]133;E;'"aid=$__tmuxmcp_aid;n=$__tmuxmcp_n;p=$__tmuxmcp_over"$'\a%}'$__tmuxmcp_user_eol
    PROMPT_EOL_MARK=$__tmuxmcp_eol
  fi
  # Last, and one list: a trap for DEBUG prints nothing of ours behind it. A Ctrl-C before its end keeps the command from
  # running and leaves it the `$?` of the command before.
  builtin print -rn -- $'\e]133;C;'"$tag;cmdline_url=$__tmuxmcp_urlpath"$'\a' >/dev/tty || builtin : && __tmuxmcp_ran=1
}

# The shell ends: E tells with which status, which a trap for its end may change. A signal ends the shell in the middle of a command: E says so, as zsh then exits with a status that a command can have
# (1 of SIGHUP, 14 of SIGALRM). It does that in the signal's handler, which the kernel blocks the signal for. So does a
# trap that exits; where that is a function (TRAPHUP), nothing tells whether it does.
__tmuxmcp_exit() {
  local code=$? line blocked= why=h
  local -a traps
  [[ -n $__tmuxmcp_begun && $ZSH_SUBSHELL == 0 ]] || return 0
  {
    while builtin read -r line; do
      [[ $line != SigBlk:* ]] || blocked=${line##*[[:space:]]}
    done </proc/self/status
    # Where nothing tells what is blocked: a status that may be the signal's.
    traps=(${(M)${(k)functions}:#TRAP(HUP|INT|QUIT|ABRT|USR[12]|PIPE|ALRM|TERM|CHLD|XCPU)})
    if [[ " ${zsh_eval_context[*]-} " == *' trap '* ]] || (( 0x${blocked:-0} & 0x2001 )); then
      why=h
    elif (( $#traps )); then
      why=t
    elif [[ -n $blocked ]] || (( code != 1 && code != 14 )); then
      why=
    fi
    line="$code;aid=$__tmuxmcp_aid;n=$__tmuxmcp_n${why:+;k=$why}${__tmuxmcp_over:+;p=$__tmuxmcp_over}"
    builtin print -rn -- $'\e]133;E;'$line$'\a' >/dev/tty
  } 2>/dev/null
}

# Whether a function called precmd, which runs before those of the list, does not begin with ours.
__tmuxmcp_misses_precmd() {
  (( $+functions[precmd] )) && [[ $functions[precmd] != *__tmuxmcp_precmd* ]]
}

# Keep ours at their places, around whatever is there.
__tmuxmcp_install() {
  if [[ ${(t)precmd_functions-} != *readonly* ]]; then
    typeset -ga precmd_functions
    precmd_functions=(__tmuxmcp_precmd __tmuxmcp_as_typed ${precmd_functions:#__tmuxmcp_*} __tmuxmcp_prompts)
  fi
  if [[ ${(t)preexec_functions-} != *readonly* ]]; then
    typeset -ga preexec_functions
    preexec_functions=(__tmuxmcp_as_typed ${preexec_functions:#__tmuxmcp_*} __tmuxmcp_end_late __tmuxmcp_preexec)
  fi
  if [[ ${(t)zshexit_functions-} != *readonly* ]]; then
    typeset -ga zshexit_functions
    zshexit_functions=(__tmuxmcp_exit ${zshexit_functions:#__tmuxmcp_*})
  fi
  # Where it prints and no E ends the output, ours has to come first.
  if __tmuxmcp_misses_precmd; then
    functions[precmd]=$'__tmuxmcp_precmd\n'$functions[precmd]
  fi
  local map
  builtin zle -N __tmuxmcp_run
  for map in emacs viins vicmd main; do
    builtin bindkey -M $map '\e[7777~' __tmuxmcp_run
  done
}

# At a prompt before which no hook told of the end of the command, by its status: this does, and puts the hooks back.
__tmuxmcp_report() {
  [[ -n $__tmuxmcp_begun ]] || return 0
  __tmuxmcp_late=l
  () { return $1 } $1
  __tmuxmcp_precmd
  __tmuxmcp_late=
  __tmuxmcp_prompts
}

# The text that is given, as it is: without IFS, or by its size in bytes where the user has made IFS readonly.
__tmuxmcp_read() {
  builtin setopt no_multibyte
  local end
  if [[ ${(t)IFS-} == *readonly* ]]; then
    builtin read -t 5 -u 0 -k $1 given && builtin read -rt 5 -d $'\0' end && [[ -z $end ]]
  else
    IFS= builtin read -rt 5 -d $'\0' given
  fi
}

# What comes after the key becomes the line. False, and a mark that says so: it did not come whole, or somebody is in the
# middle of a command.
__tmuxmcp_take() {
  builtin setopt no_multibyte
  [[ $CONTEXT != start ]] || __tmuxmcp_report $1
  local given= job= size= tag="aid=$__tmuxmcp_aid;n=$__tmuxmcp_n"
  if [[ $CONTEXT == start ]]; then
    builtin print -rn -- $'\e]133;P;k=g;'$tag$'\a' >/dev/tty
    # Not by the paste widget, which gives up after KEYTIMEOUT.
    if builtin read -rt 5 -d $'\0' job && builtin read -rt 5 -d $'\0' size &&
      __tmuxmcp_read ${size#* } && [[ $size == *" ${#given}" ]]; then
      # A proof has 64 characters, and a name eight; what somebody typed meanwhile stands before them.
      __tmuxmcp_job=${job[-8,-1]}
      if (( $#job >= 72 )); then
        __tmuxmcp_over=${job[-72,-41]} __tmuxmcp_done=${job[-40,-9]}
      fi
      # While the line editor runs, the terminal turns newlines into returns.
      BUFFER=${given//$'\r'/$'\n'}
      # At its end, the editor says nothing more when it leaves: an error of syntax comes right after its last newline.
      CURSOR=${#given}
      return 0
    fi </dev/tty
  fi
  builtin print -rn -- $'\e]133;P;k=r;'"$tag${job:+;job=${job[-8,-1]}}"$'\a' >/dev/tty
  return 1
}

# At the first prompt, when all start-up files are read: the history becomes the session's own.
__tmuxmcp_begin() {
  local code=$? size=$HISTSIZE save=$SAVEHIST
  if [[ -n $__tmuxmcp_histfile ]]; then
    # What zsh has read goes onto the stack, from where it is never written: it has no file.
    unset HISTFILE
    builtin fc -p
    HISTSIZE=$size SAVEHIST=$save
    [[ $__tmuxmcp_histfile == none ]] || typeset -g +x HISTFILE=$__tmuxmcp_histfile
  fi
  unset __tmuxmcp_histfile
  __tmuxmcp_precmd
  __tmuxmcp_prompts
  builtin unfunction __tmuxmcp_begin
  return code
}

# Takes the marks out of an adopted shell again, for good.
__tmuxmcp_off() {
  __tmuxmcp_prompts
  PROMPT=$__tmuxmcp_user_ps1 PROMPT2=$__tmuxmcp_user_ps2 PROMPT_EOL_MARK=$__tmuxmcp_user_eol
  [[ -n ${__tmuxmcp_marked-} ]] || unset PROMPT_EOL_MARK
  precmd_functions=(${precmd_functions:#__tmuxmcp_*})
  preexec_functions=(${preexec_functions:#__tmuxmcp_*})
  if [[ ${(t)zshexit_functions-} != *readonly* ]]; then
    zshexit_functions=(${zshexit_functions:#__tmuxmcp_*})
    (( $#zshexit_functions )) || unset zshexit_functions
  fi
  (( $#precmd_functions )) || unset precmd_functions
  (( $#preexec_functions )) || unset preexec_functions
  (( ! $+functions[precmd] )) || functions[precmd]=${functions[precmd]#*__tmuxmcp_precmd$'\n'}
  local map
  for map in emacs viins vicmd; do
    builtin bindkey -M $map -r '\e[7777~'
  done
  builtin zle -D __tmuxmcp_run
  builtin print -rn -- $'\e]133;P;k=u;'"aid=$__tmuxmcp_aid;n=$__tmuxmcp_n"$'\a' >/dev/tty
  builtin unset -m '__tmuxmcp_*'
  builtin unfunction -m '__tmuxmcp_*'
}

if [[ -n ${__tmuxmcp_adopted-} ]]; then
  # Its first prompt is over, and files were read long ago.
  __tmuxmcp_install
else
  # A system's welcome to new users asks questions that nobody answers.
  zsh-newuser-install() { }

  builtin zmodload zsh/sched
  builtin sched +0 __tmuxmcp_begin
fi
