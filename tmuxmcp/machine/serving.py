"""The side of a process of its own (`helper.py`) that answers. It is run as `python -I -S SCRIPT DIRECTORY...`.

The process has an empty environment, no children, no core file, limits of memory and time, and it ends with its broker.

A request is JSON behind its length in four bytes. The answer is one byte as soon as the request is here, so that who
asks knows whether it was the text that ended us, and then in the same way what was found, or the name of an error.
JSON, not marshal: what a process writes that foreign text has upset must not upset who reads it. The first answer,
unasked, says that all is imported.

The directories are where the packages lie: without `site` the interpreter starts in half the time.
"""

import json
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

RLIMITS = (
    (resource.RLIMIT_AS, 512 * 1024 * 1024),  # 1 MiB of commands takes 200 MB to parse
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


def answer(answers: BinaryIO, request: Any, find: Callable[[Any], Any], cpu_s: float) -> None:
    answers.write(b"\n")
    answers.flush()
    signal.setitimer(signal.ITIMER_PROF, cpu_s)  # SIGPROF ends us
    try:
        data = json.dumps(find(request)).encode()
    except Exception as error:  # MemoryError, a lone surrogate; its own words may hold the text
        data = json.dumps(type(error).__name__).encode()
    signal.setitimer(signal.ITIMER_PROF, 0)
    answers.write(len(data).to_bytes(4, "big") + data)
    answers.flush()


def serve(find: Callable[[Any], Any], first: Any, cpu_s: float) -> None:
    """Answer requests until their end.

    Args:
        find: what it gives for a request is the answer.
        first: a request for which `find` imports all that it needs, in its own time.
        cpu_s: for one request, in processor time: a busy machine makes no difference.
    """
    end_with_broker()
    confine()
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    find(first)
    answer(answers, first, find, cpu_s)
    while size := requests.read(4):
        answer(answers, json.loads(requests.read(int.from_bytes(size, "big"))), find, cpu_s)
