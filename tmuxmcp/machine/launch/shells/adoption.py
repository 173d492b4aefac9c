"""The texts by which a shell that we did not start takes our marks in: typed into it over its terminal, never a file.

Typing goes in three steps. `line` is typed once and is the only text that is echoed. The shell answers with a mark
`P;k=p;sh=WHO`, from which `who` reads what kind of shell it is, and reads the rest without echo: `body`. After its
next prompt `give` says how a command is given to it, and `undo` how the marks are taken out again.

This module makes bytes and reads none from a terminal. Whoever types them has proved that a shell's prompt is there.
"""

from __future__ import annotations

import re
import shlex
from enum import StrEnum
from pathlib import Path

from tmuxmcp.contract.value import value
from tmuxmcp.machine.launch.shells.record import START_UP

ADOPTED_TEXTS = START_UP / "adopted"
"""Where the texts lie that only an adopted shell gets."""

ENDS_TOO_EARLY = b": .\n"
"""Ends a command too early: a shell that listens runs nothing."""

ADOPTION_LINE_BYTES = 900
"""Bytes of a line of a body or of a command: every terminal takes that much at once (macOS: 1024)."""

GIVE_UP_S = 10.0
"""Seconds without input after which a shell that waits for more goes on as if `stop` or `refuse` had come."""


_KIND_QUESTION = (
    # sh assigns a backslash and runs what follows up to the next bare quote; to fish that is one string. `$?` is kept.
    r""" _tm_a='\'$((_tm_s=$?));{ case $- in *e*)_tm_s=0;;esac;"""
    # No echo, no signals, no limit of a line. Reading gives up: at the end of `time`, in tenths of a second; busybox,
    # which polls, by an option that dash has not got.
    r"""_tm_t=$(stty -g);stty -echo -icanon -isig min 0 time 100;"""
    r"""_tm_d=;[ -c /dev/null ]</dev/tty&&_tm_d=t;"""
    # mksh has no printf of its own: what another program is told, everybody can see. `\c` ends print without a newline.
    r"""_tm_p=printf;[ "${KSH_VERSION-}" ]&&_tm_p=print;"""
    r"""$_tm_p "\033]133;P;k=p;aid=NONCE;n=1;sh=${BASH_VERSION-},${ZSH_VERSION-},${KSH_VERSION-},$$,$-,"""
    r"""$_tm_d${RANDOM+r}\007${KSH_VERSION:+\c}";"""
    r"""IFS= read -r ${RANDOM+-t10} _tm_b;case $_tm_b in ": "*)eval "eval${_tm_b#:}";;esac;"""
    r"""stty "$_tm_t"||stty sane;}||:;_tm_a=$(exit $_tm_s)'"""
    # What follows is a string to sh, and runs in fish.
    r""" set -g _tm_s $status;set -g _tm_t (stty -g);stty -echo -icanon -isig min 0 time 100;"""
    r"""printf "\033]133;P;k=p;aid=NONCE;n=1;sh=fish,$version,,$fish_pid,,"(test -c /dev/tty;and echo t)"\007";"""
    r"""read -zg _tm_b;string match -q ": *" -- $_tm_b;and eval eval(string sub -s2 -- $_tm_b|string collect);"""
    r"""stty $_tm_t;function _tm_z;return $argv[1];end;_tm_z $_tm_s \'"""
)

_LOADERS = {
    # They are arguments of `:` themselves, which the line makes arguments of `eval`: no single quote, and no `!`.
    "sh": (
        r"""_tm_b=;while IFS= read -r ${RANDOM+-t10} _tm_l;do case $_tm_l in ": ."*)break;;esac;_tm_l=${_tm_l#???};"""
        r"""_tm_b=$_tm_b${_tm_l%????};done;stty "$_tm_t";"""
        r"""[ "$_tm_l" = ": .${#_tm_b}" ]&&eval "$(PRINT "$_tm_b")";unset _tm_b _tm_l _tm_p;"""
    ),
    "fish": (
        r"""set -g _tm_l (string split -n \n -- $_tm_b)[2..-1];set -g _tm_e $_tm_l[-1];"""
        r"""set -g _tm_b (string sub -s4 -- $_tm_l[1..-2]|string replace -r "....\$" ""|string join "");stty $_tm_t;"""
        r"""test "$_tm_e" = ": ."(string length -- "$_tm_b");and printf %b "$_tm_b"|source;set -e _tm_b _tm_l _tm_e;"""
    ),
}


class Dialect(StrEnum):
    """The texts that a shell understands."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POSIX = "posix"


@value
class ShellKind:
    """What an answer says about the shell."""

    name: str
    """`bash` `rbash` `zsh` `fish` `ash` `ksh93` `mksh`, or `sh`: one that does not say what it is, such as dash."""
    version: str
    """As the shell writes it; empty where it does not say."""
    pid: int
    """On the machine and in the name space where the shell lives; 0: it did not say."""
    dialect: Dialect | None
    """None: too old for our marks, there is no body for it, and `stop` sends it on its way."""
    restricted: bool = False
    """It may not redirect its output to files."""
    has_devices: bool = True
    """It can open /dev/tty and /dev/null; otherwise its marks go to its standard input's terminal."""


@value
class Giving:
    """What is typed to have a shell run a command."""

    key: bytes
    """At its prompt, with nothing typed; the shell then answers with the mark `P;k=g`."""
    command: bytes
    """After that mark; empty: nothing more, and no such mark comes."""


def line(nonce: str) -> bytes:
    """The one line that is typed at a prompt, without Enter; the same for every shell. It leaves `$?` as it was.

    sh and fish read different halves of it: in sh a backslash does not keep a quote from closing, in fish it does. Most
    other programs report an error and run nothing; it is for those that are proved to be shells.
    """
    return "".join(_KIND_QUESTION).replace("NONCE", nonce).encode()


def who(said: str) -> ShellKind:
    """Read `sh=` of the mark `P;k=p`."""
    bash, zsh, ksh, pid, flags, more = (said.split(",") + [""] * 6)[:6]
    number = int(pid) if pid.isdecimal() and len(pid) < 12 else 0
    can_mark = "t" in more
    restricted = "r" in flags
    if bash == "fish":
        return ShellKind("fish", zsh, number, Dialect.FISH if _number(zsh) >= (3, 4) else None, False, can_mark)
    if zsh:
        known = _number(zsh) >= (5, 1) and not restricted
        return ShellKind("zsh", zsh, number, Dialect.ZSH if known else None, restricted, can_mark)
    if bash:
        hooks = _number(bash) >= (4, 4) and not restricted
        dialect = Dialect.BASH if hooks else Dialect.POSIX
        return ShellKind("rbash" if restricted else "bash", bash, number, dialect, restricted, can_mark)
    if ksh:
        name, version = _ksh(ksh)
    else:
        name, version = "ash" if "r" in more else "sh", ""
    return ShellKind(name, version, number, Dialect.POSIX, restricted, can_mark)


def _ksh(version: str) -> tuple[str, str]:
    """Which ksh, and the number in its version."""
    found = re.search(r"KSH R(\S+)|93u\+m/(\S+)| (93\S*)", version)
    number = next((each for each in found.groups() if each), version) if found else version
    return "mksh" if "MIRBSD" in version or "LEGACY" in version else "ksh93", number


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d{1,6}", version)[:2])


def body(kind: ShellKind, nonce: str, first_number: int) -> bytes:
    """What the shell reads after its answer: lines of at most `ADOPTION_LINE_BYTES` bytes, the last of which ends it.

    Args:
        kind: what its answer said; its dialect is not None.
        first_number: the number of its first prompt; a new one for every prompt of a session, over all its shells.
    """
    assert kind.dialect is not None, "there is no body for this shell"
    text = _BODIES[kind.dialect](kind, nonce, first_number)
    if not kind.has_devices:
        # Where they are missing, opening them for writing would make files.
        for old, new in _WITHOUT_DEVICES[kind.dialect]:
            # ksh93 does not write to what it reads from.
            text = text.replace(old, new.replace(">&0", ">&1") if kind.name == "ksh93" else new)
    loader = _LOADERS["fish" if kind.dialect is Dialect.FISH else "sh"]
    loader = loader.replace("PRINT", "print -n --" if kind.name in ("ksh93", "mksh") else "printf %b")
    return b": '%b' :\n" % loader.encode() + _lines(text.encode()) + (b"\0" if kind.dialect is Dialect.FISH else b"")


_NULL_REPLACEMENTS = [(">/dev/null 2>&1", ">&- 2>&-"), ("2>/dev/null", "2>&-"), (" </dev/null", " <&-")]
_DEVICE_REPLACEMENTS = [*_NULL_REPLACEMENTS, (" </dev/tty", ""), (">/dev/tty 2>&1", ">&0 2>&0"), (">/dev/tty", ">&0")]
_WITHOUT_DEVICES = {
    Dialect.BASH: _DEVICE_REPLACEMENTS,
    Dialect.FISH: _DEVICE_REPLACEMENTS,
    Dialect.POSIX: _DEVICE_REPLACEMENTS,
    # The standard input of its widgets is another one.
    Dialect.ZSH: [*_NULL_REPLACEMENTS, ("what=PROMPT", "what=TTY"), ("/dev/tty", "$TTY")],
}


def stop(kind: ShellKind) -> bytes:
    """In place of a body: the shell evaluates nothing, puts the echo back and goes on, as after `GIVE_UP_S`."""
    return b": :\n" + (b"\0" if kind.dialect is Dialect.FISH else b"")


def give(kind: ShellKind, key: bytes, job: str, text: bytes, proof: str | None = "") -> Giving:
    """Have an adopted shell run a command.

    Args:
        key: after which it listens, if it has a line editor.
        job: the name of eight characters that its marks carry.
        text: the command, without a newline at its end.
        proof: what it shows when the command is over; None: the shell was adopted by an earlier version.
    """
    name = job.encode() if proof is None else b"%b%b " % (job.encode(), proof.encode())
    match kind.dialect:
        case Dialect.POSIX:
            return Giving(b" __tmuxmcp\r", _lines(name + text))
        case Dialect.BASH:
            return Giving(key, _lines(name + text))
        case _:
            characters = len(text.decode("utf-8", "surrogateescape"))
            told = (proof or "").encode() + job.encode()
            return Giving(key, b"%b\0%d %d\0%b\0" % (told, characters, len(text), text))


def refuse(kind: ShellKind, job: str) -> bytes:
    """What a shell that has answered `P;k=g` is told in place of a command: it runs none and says `P;k=r`."""
    if kind.dialect in (Dialect.POSIX, Dialect.BASH):
        return ENDS_TOO_EARLY
    return b"%b\0\0\0" % job.encode()


def undo(kind: ShellKind, key: bytes, job: str, proof: str | None = "") -> Giving:
    """Take the marks out again, at the shell's prompt. Its last mark is `P;k=u`; then it is as it was before."""
    if kind.dialect is Dialect.POSIX:
        return Giving(b" __tmuxmcp_off\r", b"")
    return give(kind, key, job, b" __tmuxmcp_off", proof)


def _lines(text: bytes) -> bytes:
    """Printable ASCII for `printf %b`, in lines that run nothing in whatever shell they land: arguments of `:`."""
    escaped = b"".join(_ESCAPED[byte] for byte in text)
    width = ADOPTION_LINE_BYTES - len(b": '.' :\n")
    pieces = [b": '%b.' :\n" % escaped[start : start + width] for start in range(0, len(escaped), width)]
    return b"".join(pieces) + b": .%d\n" % len(escaped)


def _escaped(byte: int) -> bytes:
    if byte == 0x5C:
        return b"\\\\"
    if byte == 0x0A:
        return b"\\n"
    # A quote would end the argument, and `!` is an earlier command in csh, in quotes too.
    return b"\\0%03o" % byte if byte < 0x20 or byte >= 0x7F or byte in b"'!" else bytes([byte])


_ESCAPED = [_escaped(byte) for byte in range(256)]


def _bare(file: Path) -> str:
    """A text without comments, blank lines and indentation."""
    lines = (each.strip() for each in file.read_text(encoding="utf-8").splitlines())
    return "\n".join(each for each in lines if each and not each.startswith("#"))


def _bash(kind: ShellKind, nonce: str, first_number: int) -> str:
    text = _bare(ADOPTED_TEXTS / "bash.sh").replace("MARKS", _bare(START_UP / "bash.sh"))
    return f"_tm_new={nonce} _tm_from={first_number - 1}\n{text}"


def _zsh(kind: ShellKind, nonce: str, first_number: int) -> str:
    text = _bare(ADOPTED_TEXTS / "zsh.zsh")
    text = text.replace("MARKS", shlex.quote(_bare(START_UP / "zsh" / "marks.zsh")))
    text = text.replace("TYPED", _bare(START_UP / "zsh" / "typed.zsh"))
    return f"_tm_new={nonce} _tm_from={first_number - 1}\n{text}"


def _fish(kind: ShellKind, nonce: str, first_number: int) -> str:
    return "\n".join(
        [
            "set -q __tmuxmcp_aid; and __tmuxmcp_off",
            # What a start-up file has begun may have inherited what was meant for the shell that reads it.
            "set -e TMUXMCP_NONCE_FILE TMUXMCP_HISTFILE",
            f"set -g TMUXMCP_NONCE {nonce}",
            f"set -g __tmuxmcp_from {first_number - 1}",
            _bare(START_UP / "marks.fish"),
        ]
    )


def _posix(kind: ShellKind, nonce: str, first_number: int) -> str:
    text = _bare(ADOPTED_TEXTS / "posix.sh")
    if kind.restricted:
        text = re.sub(r"\s*\d?>\s?/dev/(null|tty)", "", text)
    return f"_tm_new={nonce} _tm_from={first_number - 1}\n{text}"


_BODIES = {Dialect.BASH: _bash, Dialect.ZSH: _zsh, Dialect.FISH: _fish, Dialect.POSIX: _posix}
