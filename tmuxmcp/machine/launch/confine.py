"""What the launcher's step does to itself before it becomes the program; imported by `step.py` alone.

Each thing to do is a word and a value of text. Nothing here is decided: the broker has put together the list.
"""

import os
import resource
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs more than all the rest of a start
    from collections.abc import Callable
    from typing import Any

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
CAPABILITY_VERSION_3 = 0x20080522
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
"""The same on every machine."""

RULE_PATH_BENEATH = 1
OF_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
"""Landlock's rights that files have: execute, write, read, truncate, ioctl on devices; the others are directories'."""


class NotConfined(Exception):
    """The system does not let us; what is to be started would have more rights than was said."""


def confine(things: list[tuple[str, str]]) -> None:
    """Do all of them, in order.

    Raises:
        NotConfined: one of them failed.
    """
    for name, value in things:
        try:
            CONFINE_STEPS[name](value)
        except (OSError, ValueError) as error:
            raise NotConfined(f"{name} {value[:80]}: {error}") from None


def group(directory: str) -> None:
    """Join a control group."""
    with open(os.path.join(directory, "cgroup.procs"), "w") as file:
        file.write("0")


def limit(value: str) -> None:
    """Set a resource limit, clamped to the hard one that we have: `RESOURCE SOFT HARD`."""
    which, soft, hard = (int(word) for word in value.split())
    own = resource.getrlimit(which)[1]
    if own != resource.RLIM_INFINITY:
        soft, hard = min(soft, own), min(hard, own)
    resource.setrlimit(which, (soft, hard))


def hand(path: str) -> None:
    """Open what the step within reads, for it alone."""
    _move_descriptor(os.open(path, os.O_RDONLY), 3, True)
    os.unlink(path)


def report(path: str) -> None:
    """Open where failures are told: once confined we could not."""
    _move_descriptor(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), 4, False)


def keep_report(_: str) -> None:
    """Let the step within tell its failures there."""
    os.set_inheritable(4, True)


def _move_descriptor(fd: int, wanted: int, inheritable: bool) -> None:
    if fd == wanted:
        os.set_inheritable(fd, inheritable)
    else:
        os.dup2(fd, wanted, inheritable)
        os.close(fd)


def same(value: str) -> None:
    """Go on only if a path still leads to what was judged: `DEVICE INODE PATH`."""
    device, inode, path = value.split(" ", 2)
    _check(os.stat(path), device, inode)


def _check(found: os.stat_result, device: str, inode: str) -> None:
    if (found.st_dev, found.st_ino) != (int(device), int(inode)):
        raise ValueError("something else has been put in its place")


# ---- what the kernel takes away ----------------------------------------------------------------------


def _libc() -> "Any":
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    import ctypes

    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def no_new_privs(_: str) -> None:
    """Setuid programs give nothing any more."""
    _checked(_libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def drop_capabilities(_: str) -> None:
    """Root keeps no powers but its files'."""
    import ctypes

    header, nothing = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    _checked(_libc().capset(header, nothing))


class Ruleset:
    """The Landlock ruleset that is being made."""

    fd = -1


def landlock(value: str) -> None:
    """Begin a ruleset: what it governs of files, network and scopes, and how many bytes the kernel takes of that."""
    import ctypes

    *handled, size = (int(word) for word in value.split())
    attributes = (ctypes.c_uint64 * 3)(*handled)
    Ruleset.fd = _checked(_libc().syscall(LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0))


def allow(value: str) -> None:
    """Allow something beneath a path: `RIGHTS PATH`. What is no longer there needs no rights."""
    rights, path = value.split(" ", 1)
    try:
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    _grant(fd, int(rights))


def allow_same(value: str) -> None:
    """Allow something beneath a path that still leads to what was judged: `DEVICE INODE RIGHTS PATH`."""
    device, inode, rights, path = value.split(" ", 3)
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    _check(os.fstat(fd), device, inode)
    _grant(fd, int(rights))


def _grant(fd: int, rights: int) -> None:
    import ctypes

    granted = rights if stat.S_ISDIR(os.fstat(fd).st_mode) else rights & OF_FILES
    rule = granted.to_bytes(8, "little") + fd.to_bytes(4, "little")
    _checked(_libc().syscall(LANDLOCK_ADD_RULE, Ruleset.fd, RULE_PATH_BENEATH, ctypes.c_char_p(rule), 0))
    os.close(fd)


def allow_terminal(rights: str) -> None:
    """Allow something on our own terminal."""
    allow(f"{rights} {os.ttyname(0)}")


def enforce(_: str) -> None:
    """Put the ruleset into force."""
    _checked(_libc().syscall(LANDLOCK_RESTRICT_SELF, Ruleset.fd, 0))
    os.close(Ruleset.fd)


def seccomp(value: str) -> None:
    """Load a filter of system calls, given in hexadecimal."""
    import ctypes

    class Program(ctypes.Structure):
        _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    code = bytes.fromhex(value)
    program = Program(len(code) // 8, code)
    _checked(_libc().prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0))


CONFINE_STEPS: "dict[str, Callable[[str], None]]" = {
    step.__name__: step
    for step in (
        *(group, limit, hand, report, keep_report, same, no_new_privs, drop_capabilities),
        *(landlock, allow, allow_same, allow_terminal, enforce, seccomp),
    )
}
