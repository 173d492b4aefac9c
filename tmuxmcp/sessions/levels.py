"""Which of a session's shells are still there: what the kernel says of their processes, and the marks of those behind.

A mark of an outer shell never ends an inner one by itself: a program can print it. Where the inner shell has a process
on this machine, the kernel tells of its end; where it has none, it ends with the program that leads to it (`ssh`), or
when the shell behind it, on the same far side, shows a new prompt.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tmuxmcp.contract.value import replace, value
from tmuxmcp.machine import proc
from tmuxmcp.machine.launch.shells import adopted, shell_of
from tmuxmcp.machine.launch.shells.record import Shell
from tmuxmcp.machine.ssh.channel import Channel
from tmuxmcp.machine.ssh.client import SSH_PROGRAM
from tmuxmcp.machine.witness.kernel import InputWait, KernelFacts, Verdict, judge
from tmuxmcp.machine.witness.remotekernel import facts_of
from tmuxmcp.record.levels import Level
from tmuxmcp.terminal.marks import Finished, ShellState, ShellTrack

STARTED, STACK_START = 19, 25
"""Where `starttime` and `startstack` stand in /proc/PID/stat behind the name, from 0; exec(2) gives another stack."""


@value
class LevelScan:
    """One shell of a session, and what its marks say."""

    level: Level
    shell: ShellTrack
    commands: tuple[Finished, ...]
    """What it finished lately, newest last."""
    held: tuple[Finished, ...] = ()
    """What it is said to have finished while another shell is in front of it."""


def identity(pid: int) -> str:
    """What tells a process from a later one of the same id, and from itself after exec(2); empty: it has ended.

    Of another user's process the program and the stack are not told: there exec is not seen.
    """
    try:
        words = proc.stat_words(f"/proc/{pid}")
    except OSError:
        return ""
    if words[0] in (b"Z", b"X"):
        return ""
    program = ""
    with suppress(OSError):
        state = os.stat(f"/proc/{pid}/exe")
        program = f"{state.st_dev}:{state.st_ino}"
    return f"{words[STARTED].decode()} {program} {words[STACK_START].decode()}"


def program_of(pid: int | None) -> str:
    """Which program a process runs: after exec(2) this is another text; empty: that cannot be seen."""
    with suppress(OSError):
        return f"{pid}x{proc.stack_start(pid):x}" if pid else ""
    return ""


def is_alive(level: Level) -> bool:
    """Whether a shell is there, as far as the processes of this machine tell."""
    pairs = ((level.pid, level.process), (level.carrier, level.carrier_process))
    return all(identity(pid) == process for pid, process in pairs if pid is not None and process)


def is_replaced(level: Level) -> bool:
    """Whether a shell's process runs another program by now (exec)."""
    now = identity(level.pid or 0)
    return bool(now and level.process) and now != level.process and now.split()[0] == level.process.split()[0]


def is_own_replaced(pid: int) -> bool:
    """Whether the process of the session's own shell certainly runs another program by now (exec), or itself anew.

    It was given our variable, and the kernel tells those that a program began with, whatever becomes of them.
    """
    try:
        return b"TMUXMCP_NONCE_FILE" not in [each.partition(b"=")[0] for each in proc.environment(pid)]
    except OSError:
        return False


def has_terminal(level: Level, facts: KernelFacts | None, own: int | None) -> bool:
    """Whether what is typed goes to this shell, or to who leads to it; True where the kernel does not tell.

    Args:
        own: process id of the session's own program.
    """
    if facts is None:
        return True
    leads = own if level.number == 0 else level.carrier or level.pid
    if leads is None or facts.foreground is None:
        return True
    if facts.foreground == leads:
        return True
    if level.number == 0:
        return False
    try:
        return proc.stat(f"/proc/{leads}").group == facts.foreground  # without job control
    except OSError:
        return False


def gone(levels: Sequence[LevelScan], facts: KernelFacts | None, own: int | None) -> int | None:
    """Number of the first shell that has ended, or was stopped, and with which those in front of it have; None: none.

    Args:
        levels: those that are there as far as was seen, the session's own first.
    """
    for at, each in enumerate(levels[1:], 1):
        if not is_alive(each.level) or _is_behind(levels[at - 1], each, facts, own):
            return at
    return None


def _is_behind(outer: LevelScan, inner: LevelScan, facts: KernelFacts | None, own: int | None) -> bool:
    """Whether the outer shell has shown a new prompt since the inner one was adopted, by the kernel's word too."""
    shell = outer.shell
    if shell.state is not ShellState.PROMPT or shell.prompt_start < inner.level.since:
        return False
    if facts is None:
        return True
    if inner.level.pid is not None or outer.level.carrier != inner.level.carrier:
        # Both have a process here, or the same program does not lead to both: the kernel knows who is in front.
        return has_terminal(outer.level, facts, own) and not has_terminal(inner.level, facts, own)
    return has_terminal(outer.level, facts, own)


def shell_at(level: Level, program: str) -> Shell:
    """What we know of a level's shell.

    Args:
        program: the session's own.
    """
    return shell_of(program) if level.number == 0 else adopted(level.dialect, level.kind)


# ---- The far end of a session that ssh leads to ----------------------------------------------------------------------
#
# What the kernel there says, in place of the `unknown` of the one here.
#
# A word of the far end counts for the look that asked for it, and for no other: what it said before may be over. Where
# it does not answer in time, how the session stands is unknown.


class RemoteEnd:
    """What this broker knows of one session's far end."""

    def __init__(self, control: str) -> None:
        self._channel = Channel(SSH_PROGRAM, Path(control))

    @property
    def open(self) -> bool:
        """A second channel holds the connection open."""
        return self._channel.open

    @property
    def answers(self) -> bool:
        """Its witness has answered before: where it does not, it is only late."""
        return not self._channel.why_not and self._channel.answered_at > 0

    async def look(self, facts: KernelFacts | None, verdict: Verdict) -> tuple[KernelFacts | None, Verdict]:
        """What the far kernel says now, and the verdict on what is typed to: there, or here where ssh itself asks.

        Args:
            facts, verdict: of the terminal here.
        """
        self.close_channel_if_over(facts)
        if not _leads_there(facts, verdict):
            return None, verdict
        answer = await self._channel.ask()
        if answer is None:
            return None, _unknown(verdict, self._why())
        far = facts_of(answer, self._channel.machine)
        if far is None:
            return None, _unknown(verdict, "the far end does not say what its terminal does")
        judged = judge(far)
        if judged.waiting is InputWait.UNKNOWN:
            judged = replace(judged, why=f"at the far end, {judged.why}", hidden=True)
        return far, judged

    def close_channel_if_over(self, facts: KernelFacts | None) -> None:
        """Close the second channel when ssh has given the terminal back: it would wait for that one for ever."""
        if self._channel.open and facts is not None and facts.canonical:
            self._channel.close()

    def close(self) -> None:
        """Let go of it."""
        self._channel.close()

    def _why(self) -> str:
        if self._channel.why_not:
            return self._channel.why_not
        if not self._channel.answered_at:
            return "the far end has not said yet what its terminal does"
        return f"the far end has not answered for {time.monotonic() - self._channel.answered_at:.1f} s"


def _leads_there(facts: KernelFacts | None, verdict: Verdict) -> bool:
    """Whether ssh has passed its terminal on, and has read all that was typed: before, and after, it keeps lines.

    That it works at this moment says nothing: our own questions go through its hands.
    """
    if facts is None or facts.canonical or facts.unread or facts.writing or facts.changing:
        return False
    works = verdict.waiting is InputWait.BUSY and verdict.process is not None and verdict.process.name == SSH_PROGRAM
    return works or (verdict.waiting is InputWait.UNKNOWN and verdict.hidden)


def _unknown(verdict: Verdict, why: str) -> Verdict:
    return Verdict(InputWait.UNKNOWN, why, verdict.process, hidden=True)
