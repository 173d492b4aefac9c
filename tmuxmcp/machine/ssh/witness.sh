# The witness at the far end of an ssh connection: says what the terminal of the same connection does.
# An argument of `sh -c`, so nothing of it lies on that machine. It says who it is, then answers each line that it is
# sent with what /proc and stty say, and last `end LINE`. It changes nothing, and ends with its input.
# Its parent is the sshd of the connection, and of that one's children the one that has a terminal is the session's.
export LC_ALL=C
M=$(uname -m) U=$PPID L= N='
'
printf '%s\n' "tmuxmcp-witness 1 $(uname -s) $M"

# What /proc/PATH/stat says: name, state, group, terminal, foreground group, threads, birth.
stat() {
	s=
	read -r s <"/proc/$1/stat" || return 1
	n=${s#*\(} n=${n%\)*} s=${s##*\) }
	set -- $s
	st=$1 up=$2 pg=$3 tt=$5 tp=$6
	shift 9
	th=$9
	shift 2
	born=$9
} 2>/dev/null

# Children of all threads of a process, in $kids.
children() {
	kids=
	for t in "/proc/$1/task"/*/children; do
		x=
		read -r x <"$t"
		kids="$kids $x"
	done
} 2>/dev/null

# Finds the session's own process there, in $L, and its terminal, in $D.
find_leader() {
	L=
	children "$U"
	for c in $kids; do
		if [ "$c" != $$ ] && stat "$c" && [ "$tt" != 0 ]; then
			L=$c D=/dev/pts/$((tt & 255 | tt >> 12 & 1048320))
			return 0
		fi
	done
	return 1
}

# The files of a process that are the terminal, in $fds; in $holds r, if it holds another terminal's far end, and f, if
# it has a regular file open.
files() {
	fds= holds= left=256
	for x in "/proc/$1/fd"/*; do
		case $x in
		*'*') fds='?' && return ;;
		esac
		if [ "$x" -ef "$D" ] || [ "$x" -ef /dev/tty ]; then
			fds=$fds,${x##*/}
		elif [ "$x" -ef /dev/ptmx ] || [ "$x" -ef /dev/pts/ptmx ]; then
			holds=${holds}r
		elif [ -f "$x" ]; then
			holds=${holds}f
		fi
		left=$((left - 1))
		[ $left -gt 0 ] || break
	done
	fds=${fds:--} holds=${holds:--}
} 2>/dev/null

# What a thread waits for: its system call, in $call; the files that it polls, in $polled, or the memory that tells.
waits() {
	call= polled=- a=0 b=0
	read -r call <"/proc/$1/syscall"
	set -- "$1" $call
	case $M:$2 in
	x86_64:7 | x86_64:271 | aarch64:73) a=$3 b=$(($4 * 8)) ;;
	x86_64:23 | x86_64:270 | aarch64:72) a=$4 b=$((($3 + 63) / 64 * 8)) ;;
	x86_64:232 | x86_64:281 | x86_64:441 | aarch64:22 | aarch64:441)
		polled=
		while read -r x fd x events x; do
			case $events in
			*[!0-9a-f]* | '') ;;
			*) polled=$polled,$fd:$events ;;
			esac
		done <"/proc/$1/fdinfo/$(($3))"
		polled=${polled:--}
		;;
	esac
	if [ $((a)) -gt 0 ] && [ $b -gt 0 ] && [ $b -le 1024 ]; then
		polled=$(dd if="/proc/$1/mem" bs=4 skip=$((a / 4)) count=$((b / 4)) | od -An -v -tx1)
		set -- $polled
		IFS=
		polled="$*"
		unset IFS
		polled=${polled:--}
	fi
	set -- $call
	IFS=,
	call=${*:--}
	unset IFS
} 2>/dev/null

# Adds a line for each thread of a process.
process() {
	files "$1"
	name=$n p=$1 parent=$up many=16
	for t in "/proc/$p/task"/*; do
		t=${t##*/} w= k=
		stat "$p/task/$t" || continue
		read -r w <"/proc/$p/task/$t/wchan"
		read -r x x k <"/proc/$p/task/$t/schedstat"
		waits "$p/task/$t"
		# It had just woken up, or was not quite asleep; now it is.
		[ "$w" != 0 ] || [ "$call" = - ] || read -r w <"/proc/$p/task/$t/wchan"
		o="$o${N}p $p $t $parent $st ${w:--} ${k:-0} $born $holds $fds $polled $call $name"
		many=$((many - 1))
		[ $many -gt 0 ] || break
	done
} 2>/dev/null

while read -r q; do
	if { [ -z "$L" ] || ! stat "$L"; } && ! { find_leader && stat "$L"; }; then
		printf '%s\n' gone "end $q"
		continue
	fi
	G=$tp c=1 e=1 r=1
	read -r now x </proc/uptime
	set -- $(stty -a <"$D" 2>/dev/null)
	[ $# -gt 9 ] || c='?'
	for x; do
		case $x in
		-icanon) c=0 ;;
		-echo) e=0 ;;
		-onlcr | -opost) r=0 ;;
		esac
	done
	o="tty $L $G $c $e $r $now"
	todo=$L most=200
	while set -- $todo && [ $# -gt 0 ]; do
		p=$1
		shift
		todo="$*"
		most=$((most - 1))
		[ $most -gt 0 ] || break
		stat "$p" || continue
		children "$p"
		todo="$todo $kids"
		[ "$pg" != "$G" ] || process "$p"
	done
	stat "$L" || tp=
	[ "$tp" = "$G" ] || o="$o${N}changing"
	printf '%s\n' "$o" "end $q"
done
