"""A filter of system calls (seccomp(2)), put together by hand: bytes of classic BPF, or nothing where we cannot.

Refused is what reaches out of a sandbox by other ways than files: Unix sockets (the tmux server's foremost), other
processes' memory, mounts and namespaces, io_uring (which opens sockets past this filter), keys, typing into a terminal.
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass

# BPF instructions (linux/bpf_common.h) and answers (linux/seccomp.h).
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _MACHINE, _ARGUMENT_0, _ARGUMENT_1 = 0, 4, 16, 24
"""Where they stand in `struct seccomp_data`; of arguments the lower half, as both machines are little-endian."""

X32 = 0x40000000
"""Numbers of another set of calls on x86_64."""

AF_UNIX, TIOCSTI, TIOCLINUX = 1, 0x5412, 0x541C
NAMESPACES = 0x7E020000
"""CLONE_NEW* of clone(2)."""


@dataclass(frozen=True)
class Machine:
    """Numbers of system calls, which differ."""

    audit: int
    """AUDIT_ARCH_* of linux/audit.h."""
    socket: int
    ioctl: int
    clone: int
    ptrace: int
    truncate: int
    refused: tuple[int, ...]


# mount umount2 pivot_root chroot unshare setns; kexec_load kexec_file_load init_module finit_module delete_module;
# bpf perf_event_open userfaultfd; add_key request_key keyctl; open_by_handle_at process_vm_readv process_vm_writev
# kcmp; swapon swapoff reboot acct quotactl. Then, the same everywhere: io_uring_*, open_tree to fspick, pidfd_getfd,
# mount_setattr.
_EVERYWHERE = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442)
_X86_64 = (165, 166, 155, 161, 272, 308, 246, 320, 175, 313, 176, 321, 298, 323, 248, 249, 250, 304, 310, 311, 312)
_AARCH64 = (40, 39, 41, 51, 97, 268, 104, 294, 105, 273, 106, 280, 241, 282, 217, 218, 219, 265, 270, 271, 272)
MACHINES = {
    "x86_64": Machine(0xC000003E, 41, 16, 56, 101, 76, (*_X86_64, 167, 168, 169, 163, 179, *_EVERYWHERE)),
    "aarch64": Machine(0xC00000B7, 198, 29, 220, 117, 45, (*_AARCH64, 224, 225, 142, 89, 60, *_EVERYWHERE)),
}
CLONE3 = 435


def program(
    *, unix_sockets: bool, network: bool, ptrace: bool, truncate: bool = True, machine: str = platform.machine()
) -> bytes | None:
    """The filter: `struct sock_filter`s of 8 bytes each; None for a machine whose numbers we do not know.

    Args:
        unix_sockets: allow sockets of that kind.
        network: allow sockets of other kinds.
        ptrace: allow it; where something else keeps processes apart.
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
    some = (*(() if ptrace else (numbers.ptrace,)), *(() if truncate else (numbers.truncate,)))
    for number in (*numbers.refused, *some):
        code += [(_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, refuse)]
    if not network and not unix_sockets:
        code += [(_IF_EQUAL, 0, 1, numbers.socket), (_RETURN, 0, 0, refuse)]
    elif not unix_sockets:
        code += _if_argument(numbers.socket, _ARGUMENT_0, [(_IF_EQUAL, AF_UNIX)])
    code += _if_argument(numbers.ioctl, _ARGUMENT_1, [(_IF_EQUAL, TIOCSTI), (_IF_EQUAL, TIOCLINUX)])
    code += _if_argument(numbers.clone, _ARGUMENT_0, [(_IF_ANY_BIT, NAMESPACES)])
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *each) for each in code)


def _if_argument(number: int, argument: int, tests: list[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """Refuse the call when any of the tests holds of its argument, and allow it otherwise."""
    inner = [(_LOAD, 0, 0, argument)]
    for test, value in tests:
        inner += [(test, 0, 1, value), (_RETURN, 0, 0, _REFUSE | errno.EPERM)]
    inner.append((_RETURN, 0, 0, _ALLOW))
    return [(_IF_EQUAL, 0, len(inner), number), *inner]
