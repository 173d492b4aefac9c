"""A filter of system calls (seccomp(2)), put together by hand: bytes of classic BPF, or nothing where we cannot.

Refused is what reaches out of a sandbox by other ways than files: Unix sockets (the tmux server's foremost), other
processes' memory and limits, mounts and namespaces, io_uring (which opens sockets past this filter), keys, the kernel's
log, typing into a terminal.
"""

from __future__ import annotations

import errno
import platform
import struct

from tmuxmcp.contract.value import value

# BPF instructions (linux/bpf_common.h) and answers (linux/seccomp.h).
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _MACHINE, _ARGUMENT_0, _ARGUMENT_1, _ARGUMENT_2 = 0, 4, 16, 24, 32
"""Where they stand in `struct seccomp_data`; of arguments the lower half, as both machines are little-endian."""
_UPPER_HALF = 4

X32 = 0x40000000
"""Numbers of another set of calls on x86_64."""

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
"""The kinds of sockets that programs use. Of some others no network namespace knows, as of AF_VSOCK."""
IOCTLS = (0x5412, 0x541C, 0x5423, 0xAA00)
"""TIOCSTI and TIOCLINUX type into a terminal, TIOCSETD gives it other code of the kernel's, USERFAULTFD_IOC_NEW."""
ATTACHING = (16, 0x4206)
"""PTRACE_ATTACH, PTRACE_SEIZE."""
CLONE_NAMESPACES = 0x7E020000
"""CLONE_NEW* of clone(2)."""


@value
class CallNumbers:
    """Numbers of system calls, which differ."""

    audit: int
    """AUDIT_ARCH_* of linux/audit.h."""
    socket: int
    ioctl: int
    clone: int
    ptrace: int
    truncate: int
    prlimit: int
    refused: tuple[int, ...]


# mount umount2 pivot_root chroot unshare setns; kexec_load kexec_file_load init_module finit_module delete_module;
# bpf perf_event_open userfaultfd; add_key request_key keyctl; open_by_handle_at process_vm_readv process_vm_writev
# kcmp; swapon swapoff reboot acct quotactl; syslog. Then, the same everywhere: io_uring_*, open_tree to fspick,
# pidfd_getfd, mount_setattr, quotactl_fd, open_tree_attr.
_COMMON_CALLS = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442, 443, 467)
_X86_64 = (165, 166, 155, 161, 272, 308, 246, 320, 175, 313, 176, 321, 298, 323, 248, 249, 250, 304, 310, 311, 312)
_AARCH64_CALLS = (40, 39, 41, 51, 97, 268, 104, 294, 105, 273, 106, 280, 241, 282, 217, 218, 219, 265, 270, 271, 272)
MACHINES = {
    "x86_64": CallNumbers(
        0xC000003E, 41, 16, 56, 101, 76, 302, (*_X86_64, 167, 168, 169, 163, 179, 103, *_COMMON_CALLS)
    ),
    "aarch64": CallNumbers(
        0xC00000B7, 198, 29, 220, 117, 45, 261, (*_AARCH64_CALLS, 224, 225, 142, 89, 60, 116, *_COMMON_CALLS)
    ),
}
CLONE3 = 435


def program(
    *,
    unix_sockets: bool,
    network: bool,
    attach: bool,
    limits_of_others: bool = True,
    truncate: bool = True,
    machine: str = platform.machine(),
) -> bytes | None:
    """The filter: `struct sock_filter`s of 8 bytes each; None for a machine whose numbers we do not know.

    Args:
        unix_sockets: allow sockets of that kind.
        network: allow sockets of other kinds.
        attach: let debuggers attach to what runs already; where something else keeps processes apart. What they start
            themselves they trace anyway.
        limits_of_others: allow prlimit(2) to change another process's, which can end it; where none is to be seen.
        truncate: allow truncate(2), which Landlock does not govern before its version 3.
    """
    numbers = MACHINES.get(machine)
    if numbers is None:
        return None
    refuse = _REFUSE | errno.EPERM
    code = [
        (_LOAD, 0, 0, _MACHINE),
        (_IF_EQUAL, 1, 0, numbers.audit),
        (_RETURN, 0, 0, _KILL),  # a 32-bit program: its numbers mean other calls
        (_LOAD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, 0, 1, X32),
        (_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
        # Its flags lie in memory, where no filter looks; C libraries then take clone.
        (_IF_EQUAL, 0, 1, CLONE3),
        (_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
    ]
    for number in (*numbers.refused, *(() if truncate else (numbers.truncate,))):
        code += [(_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, refuse)]
    families = [*([AF_UNIX] if unix_sockets else []), *((AF_INET, AF_INET6, AF_NETLINK) if network else ())]
    code += _only_with(numbers.socket, _ARGUMENT_0, families)
    code += _if_argument(numbers.ioctl, _ARGUMENT_1, [(_IF_EQUAL, each) for each in IOCTLS])
    if not attach:
        code += _if_argument(numbers.ptrace, _ARGUMENT_0, [(_IF_EQUAL, each) for each in ATTACHING])
    if not limits_of_others:
        code += _only_own_limits(numbers.prlimit)
    code += _if_argument(numbers.clone, _ARGUMENT_0, [(_IF_ANY_BIT, CLONE_NAMESPACES)])
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *each) for each in code)


def _if_argument(number: int, argument: int, tests: list[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """Refuse the call when any of the tests holds of its argument, and allow it otherwise."""
    inner = [(_LOAD, 0, 0, argument)]
    for test, operand in tests:
        inner += [(test, 0, 1, operand), (_RETURN, 0, 0, _REFUSE | errno.EPERM)]
    inner.append((_RETURN, 0, 0, _ALLOW))
    return [(_IF_EQUAL, 0, len(inner), number), *inner]


def _only_with(number: int, argument: int, values: list[int]) -> list[tuple[int, int, int, int]]:
    """Refuse the call unless its argument is one of the values."""
    inner = [(_LOAD, 0, 0, argument)]
    for each in values:
        inner += [(_IF_EQUAL, 0, 1, each), (_RETURN, 0, 0, _ALLOW)]
    inner.append((_RETURN, 0, 0, _REFUSE | errno.EPERM))
    return [(_IF_EQUAL, 0, len(inner), number), *inner]


def _only_own_limits(number: int) -> list[tuple[int, int, int, int]]:
    """Refuse prlimit(2) where it names a process and gives a new limit; 0 is the caller itself."""
    inner = [
        (_LOAD, 0, 0, _ARGUMENT_0),
        (_IF_EQUAL, 4, 0, 0),
        (_LOAD, 0, 0, _ARGUMENT_2),
        (_IF_EQUAL, 0, 3, 0),
        (_LOAD, 0, 0, _ARGUMENT_2 + _UPPER_HALF),
        (_IF_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE | errno.EPERM),
    ]
    return [(_IF_EQUAL, 0, len(inner), number), *inner]
