"""The parser of shell text, in a process of its own. Run as `python -I -S parser.py DIRECTORY...`.

tree-sitter is native code, and a text of two characters crashes it. Here it takes nothing with it: this process has
an empty environment, no children, no core file, limits of memory and time, and it ends with its broker.

A request is JSON behind its length in four bytes. The answer is one byte as soon as the request is here, so that who
asks knows whether it was the text that ended us, and then in the same way the list of commands, or the name of an
error. JSON, not marshal: what a process writes that foreign text has upset must not upset who reads it. The first
answer, unasked, says that all is imported.

The directories are where the packages lie: without `site` the interpreter starts in half the time.
"""

import json
import resource
import signal
import sys
from typing import Any, BinaryIO

CPU_S = 2.0
"""For one request, in processor time: a busy machine makes no text unknowable. 1 KiB of commands takes 5 ms."""

RLIMITS = (
    (resource.RLIMIT_AS, 512 * 1024 * 1024),  # 1 MiB of commands takes 200 MB
    (resource.RLIMIT_CORE, 0),  # the text may hold a secret
    (resource.RLIMIT_NPROC, 0),
)

PR_SET_PDEATHSIG = 1


def end_with_broker() -> None:
    """Have the kernel kill us with the thread that started us (prctl(2)); elsewhere standard input's end ends us."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass


def confine() -> None:
    for which, most in RLIMITS:
        hard = resource.getrlimit(which)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:  # noqa: SIM105 - contextlib would be one more import
            resource.setrlimit(which, (most, most))
        except ValueError:
            pass  # macOS has no limit of the address space


def commands_of(request: dict[str, Any]) -> list[Any]:
    """Every command that a shell text, or a program with its arguments, would run."""
    from tmuxmcp.host.shelltext import Command, parse
    from tmuxmcp.host.wrapped import unwrapped

    cwds = (request["cwd"],)
    if "argv" in request:
        commands = [Command(tuple(request["argv"]), cwds=cwds)]
    else:
        commands = parse(request["text"], cwds, request["home"])
    found = (each for command in commands for each in unwrapped(command))
    return [(each.argv, each.files, each.cwds, each.fed) for each in found]


def answer(answers: BinaryIO, request: dict[str, Any]) -> None:
    answers.write(b"\n")
    answers.flush()
    signal.setitimer(signal.ITIMER_PROF, CPU_S)  # SIGPROF ends us
    try:
        data = json.dumps(commands_of(request)).encode()
    except Exception as error:  # MemoryError, a lone surrogate; its own words may hold the text
        data = json.dumps(type(error).__name__).encode()
    signal.setitimer(signal.ITIMER_PROF, 0)
    answers.write(len(data).to_bytes(4, "big") + data)
    answers.flush()


def main(directories: list[str]) -> None:
    end_with_broker()
    confine()
    sys.path += directories
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    first = {"text": "true", "cwd": None, "home": ""}
    commands_of(first)  # imports all that it needs, in its own time
    answer(answers, first)
    while size := requests.read(4):
        answer(answers, json.loads(requests.read(int.from_bytes(size, "big"))))


if __name__ == "__main__":
    main(sys.argv[1:])
