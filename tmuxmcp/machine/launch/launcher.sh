#!/bin/sh
# Word one of every pane: the session leader. It keeps the tty open, lets a short Python step become the
# program in a process group of its own, waits, and leaves only when the log holds everything that was printed:
# tmux throws away what is still in the tty when the session leader exits (1-11 % of short programs lost their tail).
#
# usage: launcher.sh PYTHON STEP SESSION_DIR TOKEN
#
# tmux learns the exit status from this script's own: the program's exit code, or death by the program's signal.
# A shell cannot tell `exit 130` from death by SIGINT (141, SIGPIPE): those two leave as exit codes.
python=$1 step=$2 dir=$3 token=$4
log=$dir/out.raw

# The program runs in its own group: keys and stop signals are its business. The step resets what is ignored here.
trap '' INT QUIT TSTP TTIN TTOU

# Whether a file can be written to: it is a regular one, or not there. A link leads elsewhere, a pipe may hold us up.
ours() {
  [ ! -L "$1" ] && { [ -f "$1" ] || [ ! -e "$1" ]; }
}

# The number with which a small file of ours begins, as $number; empty: it has none yet; none: something else is there.
read_number() {
  number=
  [ -e "$1" ] || [ -L "$1" ] || return
  number=none
  [ -f "$1" ] && ours "$1" && [ "$(wc -c <"$1")" -lt 64 ] && read -r number _ <"$1"
  case $number in *[!0-9]*) number=none ;; esac
}

# The shell's own words ("Killed") are no output of the program: they tell death by signal from `exit 137`. The
# subshell keeps them here: dash would say them where a redirected command's stderr goes.
exec 3>&2 2>"$dir/launcher.err"
(exec "$python" -I -S "$step" "$dir" 2>&3 3>&-)
status=$?
signal=
if [ "$status" -gt 128 ] && [ -s "$dir/launcher.err" ]; then
  signal=$(kill -l "$((status - 128))")
fi

# A tty stopped by Ctrl-S would hold the sentinel for ever; what else may hold it shall not hold us.
stty -ixon <&1
printf '\033]7777;tmuxmcp;%s;%s;%s\007' "$token" "$status" "$signal" &

# Drain: until the log holds the sentinel. Given up when there is no sink, or when it wrote nothing for 10 s.
tries=0 size=
while [ -f "$log" ]; do
  case $(tail -c 512 "$log") in *"7777;tmuxmcp;$token;"*) break ;; esac
  # The sink may be about to start: only one that was there and is gone ends this.
  read_number "$dir/sink.pid"
  [ -z "$number" ] || kill -0 "$number" || break
  tries=$((tries + 1))
  if [ "$((tries % 100))" -eq 0 ]; then
    # A background child that prints on puts the sentinel out of the tail's sight.
    tail -c 67108864 "$log" | LC_ALL=C grep -aqF "7777;tmuxmcp;$token;" && break
    before=$size
    size=$(wc -c <"$log")
    [ "$size" = "$before" ] || tries=0
    [ "$tries" -lt 2000 ] || break
  fi
  sleep 0.005
done

# Only GNU's date knows milliseconds; others print the N. Readers put right what whole seconds turn back.
time=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
case $time in *N*) time=$(date -u +%Y-%m-%dT%H:%M:%S.000Z) ;; esac

code=$status name=null
read_number "$dir/out.base"
case $number in '' | none) number=0 ;; esac
[ -z "$signal" ] || code=null name="\"$signal\""
ours "$dir/events.jsonl" && [ -f "$log" ] && printf \
  '{"time": "%s", "offset": %s, "event": "exit", "exit_code": %s, "exit_signal": %s}\n' \
  "$time" "$((number + $(wc -c <"$log")))" "$code" "$name" >>"$dir/events.jsonl"

case $signal in
'') exit "$status" ;;
*)
  ulimit -c 0
  trap - INT QUIT
  kill -s "$signal" "$$"
  # bash ignores QUIT in itself.
  exec "$python" -I -S -c "import os; os.kill(os.getpid(), $((status - 128)))"
  ;;
esac
