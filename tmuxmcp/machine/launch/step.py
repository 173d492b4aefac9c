"""The launcher's short step: becomes the program. `begin.py` runs it with the session's directory; nothing remains.

It takes a process group of its own, makes it the terminal's foreground group, and reads environment, working
directory and arguments from a file that it removes: never from argv, which everybody can read. Only built-in
modules are imported: this is the start-up time of every session.

In a sandbox of bubblewrap's it runs twice: outside, where it becomes bwrap, and as `begin.py inside` within, where it
becomes the program. What the second one needs is open as descriptor 3; what becomes of it is told in descriptor 4.
"""

import _signal  # type: ignore[import-not-found]  # the type stubs do not know it
import os
import sys

INSIDE = "inside"
THIS_PANE = b"\x01"
SPEC_FD, REPORT_FD = 3, 4
PATIENCE_MS = 2000


def read_spec(path: str) -> tuple[str, int, str, list[bytes], dict[bytes, bytes], list[tuple[str, str]]]:
    """Fields end with NUL: working directory, umask, executable, and three lists, each after its length.

    These are the arguments, the environment as NAME=VALUE, and what to do before as WORD=VALUE (`confine.py`).
    """
    with open(path, "rb") as file:
        fields = file.read().split(b"\0")[:-1]
    os.unlink(path)
    return parse_spec(fields)


def parse_spec(fields: list[bytes]) -> tuple[str, int, str, list[bytes], dict[bytes, bytes], list[tuple[str, str]]]:
    lists = []
    at = 3
    for _ in range(3):
        count = int(fields[at])
        lists.append(fields[at + 1 : at + 1 + count])
        at += 1 + count
    args, env, things = lists
    pairs = dict(pair.split(b"=", 1) for pair in env)
    todo = [tuple(os.fsdecode(thing).split("=", 1)) for thing in things]
    return os.fsdecode(fields[0]), int(fields[1]), os.fsdecode(fields[2]), args, pairs, todo  # type: ignore[return-value]  # split gives two


def wait_until_wanted(directory: str) -> None:
    """In a pane that was made ahead, wait until it is a session's; if the broker goes first, end it."""
    path, how = os.path.join(directory, "go"), os.path.join(directory, "unless-taken")
    try:
        # Opened without waiting for who writes: the broker may be gone, and then the end of the file is read at once.
        pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    with open(how, "rb") as file:
        lock, *words = file.read().split(b"\0")
    os.set_blocking(pipe, True)
    told = read_unless_hung_up(pipe, directory)
    if not told and not is_taken(lock, words):
        if os.path.exists(path) and os.path.samestat(os.stat(path), os.fstat(pipe)):  # nobody else has the directory
            import shutil

            shutil.rmtree(directory, ignore_errors=True)
        os._exit(0)
    os.close(pipe)
    os.unlink(path)
    os.unlink(how)


def read_unless_hung_up(pipe: int, directory: str) -> bytes:
    """What the broker says; nothing when it has ended, or when tmux has ended our pane."""

    def hang_up(number: int, frame: object) -> None:
        raise ConnectionResetError

    _signal.signal(_signal.SIGHUP, hang_up)
    try:
        told = os.read(pipe, 1)
        _signal.signal(_signal.SIGHUP, _signal.SIG_DFL)
    except ConnectionResetError:
        if os.path.exists(os.path.join(directory, "spec")):  # it was just taken: a session's files stay
            os._exit(0)
        return b""
    return told


def is_taken(lock: bytes, words: list[bytes]) -> bool:
    """Have tmux say whether our pane is a session's; if not, tmux ends it, and it never will be."""
    import fcntl
    import time

    _signal.signal(_signal.SIGHUP, _signal.SIG_IGN)
    words = [word.replace(THIS_PANE, os.environb[b"TMUX_PANE"]) for word in words]
    held = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    for _ in range(PATIENCE_MS):
        try:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            time.sleep(0.001)
    said, says = os.pipe()
    tmux = os.posix_spawn(words[0], words, os.environb, file_actions=[(os.POSIX_SPAWN_DUP2, says, 1)])
    os.close(says)
    taken = bool(os.read(said, 1))
    os.waitpid(tmux, 0)
    os.close(said)
    os.close(held)
    if taken:  # else it is about to come, and there is work to do
        _signal.signal(_signal.SIGHUP, _signal.SIG_DFL)
    return taken


def take_terminal() -> None:
    """Become the foreground process group; the launcher ignores SIGTTOU and so does this, until the reset."""
    os.setpgid(0, 0)
    try:  # noqa: SIM105 - contextlib would cost 2 ms
        os.tcsetpgrp(0, os.getpgrp())
    except OSError:
        pass  # no terminal: the program will see that for itself


def reset_signals() -> None:
    """Give the program default signals and an empty mask: Python and the launcher ignore some."""
    for number in range(1, _signal.NSIG):
        try:  # noqa: SIM105 - as above
            _signal.signal(number, _signal.SIG_DFL)
        except (OSError, ValueError):
            pass  # KILL, STOP and those that the C library keeps
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])


def write_file(path: str, text: str) -> None:
    # As machine/ownfiles.py does; the package cannot be imported here.
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)


def wait_for_broker() -> None:
    """Give the broker time to learn our process id, which is another one out there: a short program would be gone."""
    import time

    for _ in range(PATIENCE_MS):
        if os.pread(REPORT_FD, 5, 0) == b"begun":
            break
        time.sleep(0.001)


def confine(things: list[tuple[str, str]]) -> None:
    import confine as words  # type: ignore[import-not-found]  # beside this script, not in a package

    words.confine(things)


def main(directory: str) -> None:
    """Exec the program; a failure is told in the file `error`: a code, a newline, the reason."""
    code, report = "INTERNAL", directory == INSIDE
    try:
        if report:
            with open(SPEC_FD, "rb") as file:
                spec = parse_spec(file.read().split(b"\0")[:-1])
            os.set_inheritable(REPORT_FD, False)
        else:
            wait_until_wanted(directory)
            spec = read_spec(os.path.join(directory, "spec"))
        cwd, umask, executable, args, env, things = spec
        take_terminal()
        names = [name for name, _ in things]
        wraps = "hand" in names
        if "report" in names:  # once confined it could not
            write_file(os.path.join(directory, "wrapper" if wraps else "pid"), str(os.getpid()))
        if things:
            code = "UNSUPPORTED"
            confine(things)
            report = report or "report" in names
        if not wraps:
            os.closerange(SPEC_FD, SPEC_FD + 1)
            os.closerange(REPORT_FD + 1 if report else REPORT_FD, 1024)
        code = "CWD_NOT_FOUND"
        os.chdir(cwd)
        code = "PROGRAM_NOT_FOUND"
        if not wraps:  # who wraps the program goes on ignoring its keys
            reset_signals()
        if not report:  # now it can be signalled
            write_file(os.path.join(directory, "pid"), str(os.getpid()))
        os.umask(umask)
        if report and not wraps:
            os.stat(executable)
            if os.access(executable, os.R_OK):  # a sandbox may hide it, and access(2) does not know
                os.close(os.open(executable, os.O_RDONLY))
            os.pwrite(REPORT_FD, b"ready", 0)
            if directory == INSIDE:
                wait_for_broker()
        os.execve(executable, args, env)
    except BaseException as error:
        if report:
            os.ftruncate(REPORT_FD, 0)
            os.pwrite(REPORT_FD, f"{code}\n{error}".encode(), 0)
            os._exit(127)
        os.umask(0o077)
        write_file(os.path.join(directory, "error"), f"{code}\n{error}")
        sys.exit(127)
