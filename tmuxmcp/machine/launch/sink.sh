#!/bin/sh
# The far end of pipe-pane: appends the pane's bytes to its log and keeps the newest MAX bytes, broker or no broker.
# Old bytes are given back by punching holes into the head, so offsets stay true. Where there are no holes the log
# is cut to its newest quarter when it is full, and `out.base` says which offset its first byte has.
#
# usage: sink.sh SESSION_DIR MAX NUMBER
#
# A pane's sinks are numbered: before every one but the first something was lost.
dir=$1 max=$2 number=$3
log=$dir/out.raw
umask 077
LC_ALL=C
export LC_ALL
# Whether a file can be written to: it is a regular one, or not there. A link leads elsewhere, a pipe may hold us up.
ours() {
  [ ! -L "$1" ] && { [ -f "$1" ] || [ ! -e "$1" ]; }
}

ours "$log" || exit 1
exec 3>>"$log"

# One dd moves at most a quarter of MAX, or 64 MiB: so far the log may run over before it is cut. tmux mostly writes
# less than 8 KiB at once, which counts as a whole piece: with larger pieces a new dd would be started more often.
piece=8192
count=$((max / 4 / piece))
[ "$count" -gt 8192 ] && count=8192
[ "$count" -lt 1 ] && count=1
block=65536 # what is cut off the log is a multiple of this

bytes_of() {
  set -- $(ls -ln "$1")
  bytes=${5:-0}
}

base=0
if [ -f "$dir/out.base" ] && ours "$dir/out.base"; then
  bytes_of "$dir/out.base"
  [ "$bytes" -ge 64 ] || read -r base <"$dir/out.base" # a number
  case $base in '' | *[!0-9]*) base=0 ;; esac          # as its readers take it
fi
kept_from=$base
holes=${TMUXMCP_HOLES:-yes}
command -v fallocate >/dev/null || holes=no

measure() {
  bytes_of "$log"
  size=$((base + bytes))
}

tell_gap() {
  time=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
  case $time in *N*) time=$(date -u +%Y-%m-%dT%H:%M:%S.000Z) ;; esac # no GNU date
  ours "$dir/events.jsonl" || return 1
  printf '{"time": "%s", "offset": %s, "event": "gap"}\n' "$time" "$size" >>"$dir/events.jsonl"
}

cut_head() {
  # Whole blocks: of a block that is cut in part, zeros would be read.
  hole=$(((size - max - base) / block * block))
  if [ "$holes" = yes ] && fallocate -p -o 0 -l "$hole" "$log" 2>/dev/null; then
    kept_from=$((base + hole))
    return
  fi
  holes=no
  keep=$((max / 4))
  ours "$log" && ours "$dir/out.keep" && ours "$dir/out.base.new" || exit 1
  tail -c "$keep" "$log" >"$dir/out.keep" || keep=0
  # Emptied first, told second: a reader in between sees an empty log, never bytes at wrong offsets.
  : >"$log"
  base=$((size - keep))
  kept_from=$base
  echo "$base" >"$dir/out.base.new" && mv "$dir/out.base.new" "$dir/out.base" || exit 1
  [ "$keep" -eq 0 ] || cat "$dir/out.keep" >&3 || exit 1
  rm -f "$dir/out.keep"
}

size=$base
[ ! -s "$log" ] || measure # of a new log no process has to tell it, beside the program that starts
# On a full disk it ends, and the broker tries again: a gap that is not written down would never be told.
[ "$number" -eq 1 ] || tell_gap || exit 1
ours "$dir/sink.pid" && echo "$$ $number" >"$dir/sink.pid" || exit 1

while :; do
  said=$(dd bs="$piece" count="$count" 2>&1 >&3)
  case $? in
  0)
    case $said in
    0+0*) exit 0 ;; # end of file: the pane is gone or piped elsewhere
    *copied*)
      moved=${said##*out}
      size=$((size + ${moved%% byte*}))
      ;;
    *) measure ;;
    esac
    ;;
  129 | 130 | 137 | 143)
    # Somebody ended it; what it held is lost.
    measure
    tell_gap
    ;;
  *) exit 1 ;; # a full disk, mostly: the broker sees the pipe closed and tells
  esac
  if [ "$((size - kept_from))" -gt "$((max + count * piece / 2))" ]; then cut_head; fi
done
