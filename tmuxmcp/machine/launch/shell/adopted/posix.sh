# tmuxmcp marks for shells without hooks and without an editor that we could use: dash, busybox ash, mksh, ksh93, restricted
# bash and bash before 4.4. The marks are those of bash.sh.
#
# The prompt tells status, number and directory. A command is given by typing the alias `__tmuxmcp`, which is three
# commands: one answers with P;k=g and reads without echo, as bash.sh does, and says C where the output begins; `eval` runs
# what was read, outside of any function, so that what it declares stays and `$1` is the shell's own; and one says
# E;STATUS where the output ends. The line is always the same: a history that leaves out repetitions has it once.
#
# Read by `eval`, after _tm_new=NONCE and _tm_from=NUMBER.

case ${__tmuxmcp_aid-} in ?*) __tmuxmcp_off again ;; esac
case $- in *a*) _tm_export=1 ;; *) _tm_export= ;; esac
set +a
if (PS1= PS2=) 2>/dev/null; then
  __tmuxmcp_aid=$_tm_new
  __tmuxmcp_n=$_tm_from
  __tmuxmcp_k= __tmuxmcp_j= __tmuxmcp_w= __tmuxmcp_c= __tmuxmcp_p= __tmuxmcp_e=
  __tmuxmcp_ps1=${PS1-} __tmuxmcp_ps2=${PS2-}

  # mksh has no printf of its own, and what another program is told, everybody can see.
  case ${KSH_VERSION+k} in
  k)
    __tmuxmcp_decode() { print -n -- "$1"; }
    __tmuxmcp_mark() { print -n -- "\033]133;$1;aid=$__tmuxmcp_aid;n=$__tmuxmcp_n$2\007" >/dev/tty; }
    ;;
  *)
    __tmuxmcp_decode() { printf %b "$1"; }
    __tmuxmcp_mark() { printf "\033]133;$1;aid=$__tmuxmcp_aid;n=$__tmuxmcp_n$2\007" >/dev/tty; }
    ;;
  esac

  # The working directory as a URL path.
  __tmuxmcp_directory() {
    case $PWD in
    *[!A-Za-z0-9/._~-]*) __tmuxmcp_w=$(printf %s "$PWD" | od -An -v -tx1 | tr -d ' \n' | sed 's/../%&/g') ;;
    *) __tmuxmcp_w=$PWD ;;
    esac
  }

  alias __tmuxmcp='__tmuxmcp_take;eval "$__tmuxmcp_k";__tmuxmcp_end'

  __tmuxmcp_take() {
    {
      __tmuxmcp_s=$?
      # Under `set -a` a proof would come into the environment.
      case $- in *a*) __tmuxmcp_a=1 ;; *) __tmuxmcp_a= ;; esac
      set +a
      __tmuxmcp_p= __tmuxmcp_e= __tmuxmcp_j= __tmuxmcp_b= __tmuxmcp_k= __tmuxmcp_c= __tmuxmcp_l=
      unset _tm_a _tm_s _tm_t _tm_d
      __tmuxmcp_t=$(stty -g)
      stty -echo -icanon -isig min 0 time 100
      __tmuxmcp_mark 'P;k=g' ''
      while IFS= read -r ${RANDOM+-t10} __tmuxmcp_l; do
        case $__tmuxmcp_l in ": ."*) break ;; esac
        __tmuxmcp_l=${__tmuxmcp_l#*\'}
        __tmuxmcp_b=$__tmuxmcp_b${__tmuxmcp_l%.\'*}
      done
      stty "$__tmuxmcp_t"
      if [ "$__tmuxmcp_l" = ": .${#__tmuxmcp_b}" ]; then
        __tmuxmcp_k=$(__tmuxmcp_decode "$__tmuxmcp_b.")
        __tmuxmcp_k=${__tmuxmcp_k%.}
        # The name of eight characters stands before the command, and a proof behind that: half of it comes with E, and
        # half with D.
        __tmuxmcp_b=${__tmuxmcp_k%% *}
        __tmuxmcp_k=${__tmuxmcp_k#* }
        __tmuxmcp_p=${__tmuxmcp_b#????????}
        __tmuxmcp_j=${__tmuxmcp_b%"$__tmuxmcp_p"}
        __tmuxmcp_b=${__tmuxmcp_p#????????????????????????????????}
        __tmuxmcp_e=${__tmuxmcp_p%"$__tmuxmcp_b"}
        __tmuxmcp_p=$__tmuxmcp_b __tmuxmcp_b= __tmuxmcp_l=
        __tmuxmcp_c=1
        # As in bash.sh, also with a trap for EXIT. ksh93 does not say that it could not write, and mksh ends by that.
        case ${KSH_VERSION+k} in
        k) case $(trap) in ?*) __tmuxmcp_b=';k=t' ;; esac ;;
        *) [ ! -c /dev/full ] || trap >/dev/full || __tmuxmcp_b=';k=t' ;;
        esac
        __tmuxmcp_mark C ";job=$__tmuxmcp_j$__tmuxmcp_b"
        __tmuxmcp_b=
      else
        __tmuxmcp_mark 'P;k=r' ''
      fi
      case $- in *e*) __tmuxmcp_s=0 ;; esac
      case $__tmuxmcp_a in ?*) set -a ;; esac
    } 2>/dev/null
    # bash whose `eval` comes to an end too early shows its old prompt, and knows no alias.
    case ${BASH_VERSION+bash}$__tmuxmcp_c in
    bash1) (eval "__tmuxmcp_syntax() { :
$__tmuxmcp_k
}") || __tmuxmcp_k='(exit 2)' ;;
    esac
    return "$__tmuxmcp_s"
  }

  __tmuxmcp_end() {
    {
      __tmuxmcp_s=$?
      __tmuxmcp_directory
      case $__tmuxmcp_c in ?*) __tmuxmcp_mark "E;$__tmuxmcp_s" ";p=$__tmuxmcp_e" ;; esac
      __tmuxmcp_c=
    } 2>/dev/null
    return "$__tmuxmcp_s"
  }

  # Takes the marks out of this shell again, for good.
  __tmuxmcp_off() {
    PS1=$__tmuxmcp_ps1 PS2=$__tmuxmcp_ps2
    __tmuxmcp_mark 'P;k=u' ''
    unalias __tmuxmcp
    unset -f __tmuxmcp_take __tmuxmcp_mark __tmuxmcp_decode __tmuxmcp_directory __tmuxmcp_end
    unset __tmuxmcp_aid __tmuxmcp_n __tmuxmcp_w __tmuxmcp_k __tmuxmcp_j __tmuxmcp_c __tmuxmcp_s __tmuxmcp_b __tmuxmcp_l
    unset __tmuxmcp_t __tmuxmcp_a __tmuxmcp_p __tmuxmcp_e __tmuxmcp_ps1 __tmuxmcp_ps2
    case ${1-} in again) ;; *) unset _tm_a _tm_s _tm_t _tm_d ;; esac
    unset -f __tmuxmcp_off
  }

  __tmuxmcp_directory
  # What a prompt's editor does not count as columns stands between brackets of its own.
  __tmuxmcp_x=$(__tmuxmcp_decode '\0033') __tmuxmcp_g=$(__tmuxmcp_decode '\0007') __tmuxmcp_h= __tmuxmcp_i= __tmuxmcp_q=
  case ${KSH_VERSION-}${BASH_VERSION+bash}${RANDOM+busybox} in
  *MIRBSD* | *LEGACY*)
    __tmuxmcp_h=$(__tmuxmcp_decode '\0001')
    __tmuxmcp_q=$(__tmuxmcp_decode '\0001\0015.')
    __tmuxmcp_q=${__tmuxmcp_q%.} __tmuxmcp_i=$__tmuxmcp_h
    ;;
  *93*) ;;
  *bash* | *busybox*) __tmuxmcp_h='\[' __tmuxmcp_i='\]' ;;
  esac
  __tmuxmcp_o="aid=\${__tmuxmcp_aid-};n=\${__tmuxmcp_n-}"
  PS1="$__tmuxmcp_q$__tmuxmcp_h$__tmuxmcp_x]133;D;\$?;$__tmuxmcp_o;cwd=\${__tmuxmcp_w-};p=\${__tmuxmcp_p-}$__tmuxmcp_g"
  PS1="$PS1$__tmuxmcp_x]133;A;aid=\${__tmuxmcp_aid-};n=\$((__tmuxmcp_n=\${__tmuxmcp_n:-0}+1))$__tmuxmcp_g$__tmuxmcp_i"
  PS1="$PS1$__tmuxmcp_ps1$__tmuxmcp_h$__tmuxmcp_x]133;B;$__tmuxmcp_o$__tmuxmcp_g$__tmuxmcp_i"
  PS2="$__tmuxmcp_h$__tmuxmcp_x]133;P;k=s;$__tmuxmcp_o$__tmuxmcp_g$__tmuxmcp_i$__tmuxmcp_ps2"
  unset __tmuxmcp_x __tmuxmcp_g __tmuxmcp_h __tmuxmcp_i __tmuxmcp_q __tmuxmcp_o
else
  printf '\033]133;P;k=x;aid=%s;n=1;what=PS1\007' "$_tm_new"
fi
case $_tm_export in ?*) set -a ;; esac
unset _tm_new _tm_from _tm_export
