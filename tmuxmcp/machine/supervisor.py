"""One process and all that comes of it, watched from close by. Run as `python -I -S supervisor.py FD`.

It adopts orphans (PR_SET_CHILD_SUBREAPER), so that nothing the program starts gets away from it, whatever sessions
and process groups that makes, and it is over when no child is left. It ends the whole tree when the broker says so
on FD, when the broker is gone, and when the program has ended and left something running.

On FD: the broker sends what to run, as `marshal` behind its length, later perhaps bytes: `I` interrupts the program and
its process group, any other ends all. It gets lines of words: `pid N`, then `runs` or `failed CODE ERRNO REASON`, at
the end the report. Imports are the start-up time of every call.

In a sandbox of bubblewrap's it runs within, and confines itself as what it starts. In any other it stays outside.
What comes from within may come from anybody there: so the broker is told by plain lines, never by `marshal`.
"""

import _signal  # type: ignore[import-not-found]  # the type stubs do not know it
import errno
import marshal
import os
import resource
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs more than all the rest of a start
    from typing import Any

PR_SET_CHILD_SUBREAPER = 36
LINGER_S = 0.5
"""What a program leaves running may take so long to end by itself: `tee` behind a shell has output to write."""

LEFT_GRACE_S = 0.1
MOST_TOLD = 1000
"""Survivors that the report names."""

KILL_S = 2.0
"""After so long, who survived KILL is reported: a process in the kernel's hands, or another user's."""


class Supervisor:
    """The program, its status once it has one, and what wakes us."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.pid = 0
        self.status: int | None = None
        self.ended_at = 0.0
        self.ordered = False
        """The broker wants it ended, or is gone."""
        self.wake, wake_up = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_up, False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(wake_up, warn_on_full_buffer=False)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for a child's end, an order or the time; return whether a child is left."""
        listen = [self.wake] if self.ordered else [self.wake, self.fd]
        ready, _, _ = select.select(listen, [], [], timeout_s)
        if self.wake in ready:
            os.read(self.wake, 4096)
        if self.fd in ready:
            self.obey()
        return self.reap()

    def obey(self) -> None:
        """Do what the broker says; it is gone when it can say nothing more."""
        try:
            said = os.read(self.fd, 1)
        except OSError:
            said = b""
        if said != b"I":
            self.ordered = True
        elif self.status is None:
            send(-self.pid, _signal.SIGINT)

    def reap(self) -> bool:
        """Take the status of every child that has ended; return whether one is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.pid:
                self.status, self.ended_at = status, time.monotonic()

    def wait_until(self, deadline: float) -> bool:
        """Wait until no child is left, at most until the deadline; return whether one is left."""
        while self.reap():
            left = deadline - time.monotonic()
            if left <= 0:
                return True
            self.wait(left)
        return False

    def end(self, grace_s: float) -> None:
        """End the tree: TERM, the grace time, KILL until nobody is left or it is of no use."""
        for pid in self.tree():
            send(pid, _signal.SIGTERM)
            send(pid, _signal.SIGCONT)
        self.wait_until(time.monotonic() + grace_s)
        deadline = time.monotonic() + KILL_S
        while self.reap() and time.monotonic() < deadline:
            for pid in self.stopped_tree():
                send(pid, _signal.SIGKILL)
            self.wait_until(time.monotonic() + 0.05)

    def stopped_tree(self) -> list[int]:
        """The tree, stopped: who is stopped has no more children while we count."""
        seen: set[int] = set()
        for _ in range(20):
            new = set(self.tree()) - seen
            if not new:
                break
            seen |= new
            for pid in new:
                send(pid, _signal.SIGSTOP)
        return sorted(seen)

    def tree(self) -> list[int]:
        """All descendants, orphans too; without /proc only the program's own process group."""
        parents = process_parents()
        if not parents:
            return [-self.pid]
        found: list[int] = []
        todo = [os.getpid()]
        while todo:
            above = todo.pop()
            below = [pid for pid, parent in parents.items() if parent == above]
            found += below
            todo += below
        return found


def process_parents() -> dict[int, int]:
    """Each process's parent; without zombies, which no signal reaches.

    As machine/proc.py reads them; the package cannot be imported here.
    """
    parents = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent, *_ = file.read().rpartition(b")")[2].split(None, 2)
            except (OSError, ValueError):
                continue
            if state != b"Z":
                parents[int(name)] = int(parent)
    return parents


def send(pid: int, number: int) -> None:
    try:  # noqa: SIM105 - contextlib would cost 2 ms
        os.kill(pid, number)
    except OSError:
        pass  # it is gone, or another user's


def adopt_orphans() -> None:
    """Become the parent of descendants whose own has ended (prctl(2)); elsewhere they go to init."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass


def read_work(fd: int) -> "dict[str, Any]":
    """What to run; the broker sends its length first.

    Raises:
        EOFError: the broker went before it had said what.
    """
    data = b""
    while len(data) < 8 or len(data) < 8 + int.from_bytes(data[:8], "big"):
        piece = os.read(fd, 65536)
        if not piece:
            raise EOFError
        data += piece
    work: dict[str, Any] = marshal.loads(data[8:])
    return work


def start(work: "dict[str, Any]", fd: int) -> tuple[int, str]:
    """Start the program; return its pid, and why it could not be started: code, error number and reason, or nothing."""
    told, failed = os.pipe()
    pid = os.fork()
    if pid == 0:
        become(work, fd, failed)
    os.close(failed)
    failure = os.read(told, 4096)  # nothing: the pipe was closed by the exec
    os.close(told)
    if failure:
        os.waitpid(pid, 0)
    return pid, failure.decode(errors="replace")


def become(work: "dict[str, Any]", fd: int, failed: int) -> None:
    """In the child: a session of its own, the sandbox, the limits, default signals, and then exec.

    The pid is told from here: the program may kill us as the first thing it does.
    """
    code = "INTERNAL"
    try:
        os.setsid()
        tell(fd, f"pid {os.getpid()}")
        if work["null"]:
            os.dup2(os.open("/dev/null", os.O_RDWR), 0)
        if not work["within"]:
            confine(work)
        code = "CWD_NOT_FOUND"
        os.chdir(work["cwd"])
        code = "INTERNAL"
        _signal.set_wakeup_fd(-1)
        reset_signals()
        for which, soft, hard in work["rlimits"]:
            limit(which, soft, hard)
        code = "PROGRAM_NOT_FOUND"
        os.execve(work["executable"], work["argv"], work["env"])
    except OSError as error:
        os.write(failed, f"{code} {error.errno or 0}".encode())
    except BaseException as error:
        os.write(failed, start_failure(error).encode())
    finally:
        os._exit(127)


def confine(work: "dict[str, Any]") -> None:
    """Do to ourselves what the sandbox wants (`confine.py`)."""
    if work["confine"]:
        sys.path.append(work["code"])
        import confine as words  # type: ignore[import-not-found]  # it lies elsewhere, and in no package for us

        words.confine(work["confine"])


def start_failure(error: BaseException) -> str:
    """Why nothing was started, as the broker is told."""
    if type(error).__name__ == "NotConfined":
        return f"UNSUPPORTED 0 {error}"[:1000]
    return f"INTERNAL {errno.EINVAL}"


def limit(which: int, soft: int, hard: int) -> None:
    """Set a limit, or the present one if that is tighter: only root may raise one."""
    present = resource.getrlimit(which)[1]
    if present != resource.RLIM_INFINITY:
        soft, hard = min(soft, present), min(hard, present)
    resource.setrlimit(which, (soft, hard))


def reset_signals() -> None:
    """Default signals and an empty mask: Python ignores some, and so may whoever started the broker."""
    for number in range(1, _signal.NSIG):
        try:  # noqa: SIM105 - as above
            _signal.signal(number, _signal.SIG_DFL)
        except (OSError, ValueError):
            pass  # KILL, STOP and those that the C library keeps
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])


def let_go_of_streams() -> None:
    """The program's pipes are the program's: while we held them, nobody would see their end."""
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def report(supervisor: Supervisor, begun: float, left: int) -> str:
    """Wait status or -1, seconds by the clock and of the processor, KiB of memory, how many were left, who survived."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    kib = 1024 if sys.platform == "darwin" else 1  # getrusage(2): bytes there
    status = -1 if supervisor.status is None else supervisor.status
    duration_s = (supervisor.ended_at or time.monotonic()) - begun
    survivors = supervisor.tree()[:MOST_TOLD] if supervisor.reap() else []
    numbers = [status, duration_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss // kib, left, *survivors]
    return " ".join(map(str, numbers))


def main(fd: int) -> None:
    os.set_inheritable(fd, False)
    for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
        _signal.signal(number, _signal.SIG_IGN)  # meant for others; we go when everybody has
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])  # the host program's thread may block SIGCHLD
    adopt_orphans()  # before there is work: this one may have been started ahead of it
    supervisor = Supervisor(fd)
    try:
        work = read_work(fd)
    except EOFError:
        return
    begun = time.monotonic()
    try:
        if work["within"]:
            confine(work)
        supervisor.pid, failure = start(work, fd)
    except Exception as error:
        failure = start_failure(error)
    let_go_of_streams()
    tell(fd, f"failed {failure}" if failure else "runs")
    if failure:
        return
    while supervisor.status is None and not supervisor.ordered:
        supervisor.wait()
    left = 0
    if supervisor.ordered:
        supervisor.end(work["grace_s"])
    elif supervisor.wait_until(time.monotonic() + LINGER_S):
        left = len(supervisor.tree())
        supervisor.end(LEFT_GRACE_S)
    tell(fd, f"ended {report(supervisor, begun, left)}")


def tell(fd: int, line: str) -> None:
    try:  # noqa: SIM105 - as above
        os.write(fd, line.replace("\n", " ").encode(errors="replace") + b"\n")
    except OSError:
        pass  # the broker is gone


if __name__ == "__main__":
    main(int(sys.argv[1]))
