"""The launcher's short step: becomes the program. Run as `python -I -S step.py SESSION_DIR`; nothing of it remains.

It takes a process group of its own, makes it the terminal's foreground group, and reads environment, working
directory and arguments from a file that it removes: never from argv, which everybody can read. Only built-in
modules are imported: this is the start-up time of every session.
"""

import _signal  # type: ignore[import-not-found]  # the type stubs do not know it
import os
import sys


def read_spec(path: str) -> tuple[str, int, str, list[bytes], dict[bytes, bytes], list[tuple[str, str]]]:
    """Fields end with NUL: working directory, umask, executable, and three lists, each after its length.

    These are the arguments, the environment as NAME=VALUE, and what to do before as WORD=VALUE (`confine.py`).
    """
    with open(path, "rb") as file:
        fields = file.read().split(b"\0")[:-1]
    os.unlink(path)
    lists = []
    at = 3
    for _ in range(3):
        count = int(fields[at])
        lists.append(fields[at + 1 : at + 1 + count])
        at += 1 + count
    args, env, things = lists
    pairs = dict(pair.split(b"=", 1) for pair in env)
    todo = [tuple(os.fsdecode(thing).split("=", 1)) for thing in things]
    return os.fsdecode(fields[0]), int(fields[1]), os.fsdecode(fields[2]), args, pairs, todo  # type: ignore[return-value]


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
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)


def main(directory: str) -> None:
    """Exec the program; a failure is told in the file `error`: a code, a newline, the reason."""
    code = "INTERNAL"
    try:
        cwd, umask, executable, args, env, things = read_spec(os.path.join(directory, "spec"))
        take_terminal()
        if things:
            code = "UNSUPPORTED"
            sys.path.append(os.path.dirname(os.path.abspath(__file__)))
            from confine import confine  # type: ignore[import-not-found]  # beside this script, not in a package

            confine(things)
            code = "INTERNAL"
        write_file(os.path.join(directory, "pid"), str(os.getpid()))
        os.closerange(3, 1024)
        code = "CWD_NOT_FOUND"
        os.chdir(cwd)
        code = "PROGRAM_NOT_FOUND"
        os.umask(umask)
        reset_signals()
        os.execve(executable, args, env)
    except BaseException as error:
        os.umask(0o077)
        write_file(os.path.join(directory, "error"), f"{code}\n{error}")
        sys.exit(127)


if __name__ == "__main__":
    main(sys.argv[1])
