"""Whether a shell can be given a command: it is at its prompt, on its way there, or something is in the way. Pure.

`AtPrompt.feed` is given what one look tells, and the time by any one clock that does not go back. It says the next
step, or what is needed to know that: then it is given the same with it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Literal

from tmuxmcp.contract.value import value
from tmuxmcp.machine.witness.kernel import InputWait
from tmuxmcp.readiness.judge import UNMARKED_S, Need
from tmuxmcp.terminal.marks import ShellState

if TYPE_CHECKING:
    from tmuxmcp.sessions.look import Look

SETTLES_S = 0.015
"""After this long a shell that is in front of ours is adopted, if it is certainly at its prompt."""

ARRIVES_S = 0.1
"""One on another machine that waits at its prompt for so long has read what was typed before."""

STOPPED_S = 1.0
"""How long a shell is stopped before that is said: it may go on in a moment."""

LEAVES_S = 1.0
"""One that has said that it draws another prompt, or no longer listens, is given so long for that."""

OFTEN_LOST, OFTEN_DOUBTED = 2, 1
"""How often it is asked for its prompt: where marks of it may be missing, and where they may be somebody else's."""


class PromptStep(Enum):
    """What comes next."""

    LOOK = "look again"
    TYPE = "type: it is at its prompt"
    SETTLE = "finish an adoption that somebody has begun"
    END_LISTENING = "end its listening: it was given our key, and then no command; `listens_no_more` is told"
    ADOPT = "adopt the shell in front, if it is certainly at its prompt; `tried` is told what came of it"
    SHOW_PROMPT = "have it show its prompt anew"
    DRAW_PROMPT = "have it draw another prompt"
    BLOCKED = "it waits for input, and takes no command: adopt what is in front, or say what it is"
    SEVERAL = "say that the program in front has several terminals in one"
    BUSY = "say that it runs a command, or is stopped"


class PromptNeed(Enum):
    """What has to be known or done first, by the name of its field."""

    TAKEN_BACK = "taken_back"
    LOGGED = "logged"
    LOST = "lost"
    PATIENCE = "patience_s"


@value
class PromptFacts:
    """A look, and what was found out besides. None: that was not yet."""

    look: Look
    doubtful: bool = False
    """What its shell's marks say may not be its own word."""
    taken_back: bool = False
    """What somebody left unfinished at its prompt was taken back."""
    logged: bool | None = None
    """All that was printed is in the log."""
    lost: bool | None = None
    """Something that was printed since its prompt was not recorded."""
    patience_s: float | None = None
    """How long a shell that seems to run a command is given to come to its prompt."""


class AtPrompt:
    """Judges one shell from when a command is to be typed."""

    def __init__(self, now: float, *, adopts: bool) -> None:
        """`adopts`: a shell in front may be adopted without being asked for."""
        self._begun = now
        self._adopts = adopts
        self._waits_since: float | None = None
        """Since when it waits for input, or may, at each look."""
        self._rests_since: float | None = None
        """Since when it waits at its prompt for keys that may be on their way."""
        self._stopped_since: float | None = None
        self._leaves_since: float | None = None
        self._asked = 0
        """How often it was asked for its prompt."""
        self._let_go = False
        """Its listening was ended: what it says of that later is old."""
        self._tried = False
        self.adopted = False
        """A shell was adopted on the way: none is in front of that."""

    def feed(self, seen: PromptFacts, now: float) -> PromptStep | PromptNeed:
        """Judge by what was seen at a moment."""
        look, shell = seen.look, seen.look.shell
        if look.adopting:
            return PromptStep.SETTLE
        self._stopped_since = (self._stopped_since or now) if look.waiting is InputWait.STOPPED else None
        if self._stopped_since is not None:
            return PromptStep.BUSY if now - self._stopped_since >= STOPPED_S else PromptStep.LOOK
        if look.unanswered:
            self._rests_since = (self._rests_since or now) if look.at_editor else None
            if not self._rests_since or now - self._rests_since < ARRIVES_S:
                return PromptStep.LOOK
        if shell.state is ShellState.PROMPT and look.may_listen:
            return self._shown(look, now)
        if shell.state is ShellState.CONTINUATION and look.may_listen and not seen.taken_back:
            return PromptNeed.TAKEN_BACK
        if look.terminals_in_one:
            return PromptStep.SEVERAL
        if look.ready or _is_hidden(look):
            return self._waits(seen, now)
        self._waits_since = None
        if not look.marks or (shell.state is ShellState.RUNNING and shell.prompted is None):
            if seen.patience_s is None:
                return PromptNeed.PATIENCE
            patience_s = max(seen.patience_s, LEAVES_S) if self._let_go else seen.patience_s
            return PromptStep.BUSY if now - self._begun > patience_s else PromptStep.LOOK
        return PromptStep.LOOK

    def tried(self, adopted: bool) -> None:
        """Take in whether a shell was adopted."""
        if adopted:
            self.adopted, self._waits_since = True, None

    def listens_no_more(self, now: float) -> None:
        """Take in that its listening was ended: a shell that takes lines runs one, and comes to another prompt."""
        self._begun = now

    def _shown(self, look: Look, now: float) -> PromptStep:
        """Of a shell that reads keys, and shows its prompt."""
        self._leaves_since = (self._leaves_since or now) if look.leaves_prompt else None
        if self._leaves_since and now - self._leaves_since < LEAVES_S:
            return PromptStep.LOOK
        if look.marks and (not look.shell.listening or self._let_go):
            return PromptStep.TYPE
        self._let_go = True
        return PromptStep.END_LISTENING

    def _waits(self, seen: PromptFacts, now: float) -> PromptStep | PromptNeed:
        """Where something waits for input, or may: our shell without its mark, or what is in front of it."""
        if self._waits_since is None:
            self._waits_since = now
            return PromptStep.LOOK
        waited_s, ours = now - self._waits_since, seen.look.may_listen
        # Where another shell is in front than ours, no mark is to be waited for.
        early = not self._tried and not _is_hidden(seen.look) and (not ours or not seen.look.marks)
        if waited_s <= (SETTLES_S if early else UNMARKED_S):
            return PromptStep.LOOK
        if seen.logged is None:
            return PromptNeed.LOGGED
        if not seen.logged:
            return PromptStep.LOOK
        if early:
            self._tried = True
            return PromptStep.ADOPT if self._adopts else PromptStep.LOOK
        if ours and self._asked < OFTEN_LOST:
            if seen.lost is None:
                return PromptNeed.LOST
            # The mark of its prompt was not recorded or not printed, or other marks are not its own: have it show that,
            # or else draw another.
            if seen.lost or (seen.doubtful and self._asked < OFTEN_DOUBTED):
                self._asked, self._waits_since = self._asked + 1, None
                return PromptStep.SHOW_PROMPT if self._asked == 1 else PromptStep.DRAW_PROMPT
        return PromptStep.BLOCKED


def _is_hidden(look: Look) -> bool:
    """Whether it cannot be known if a program waits for input."""
    return look.verdict.hidden or (look.waiting is InputWait.UNKNOWN and not look.own_shell_in_front)


# ---- What time tells of a command that runs --------------------------------------------------------------------------
#
# Whether a look can wait, whether it is silent, whether its shell rests. Pure.
#
# Each is fed what was seen at a moment, and the time by any one clock that does not go back.

LOOKS_S, PUT_OFF_S = 0.02, 0.003
"""Longest time between two looks while a command runs; and for how long the log must not grow for one before that."""

FLOODS_BYTES, FLOOD_LOOKS_S = 1 << 16, 0.25
"""A command that prints so much between two looks is looked at so seldom while it prints on: its own mark ends it.

It prints on as long as it does not pause for `LOOKS_S`: on a busy machine the log grows by fits and starts.
"""

RESTS_S = 0.03
"""A shell that waits at its prompt for so long, before and after tmux said that nothing is on its way, rests."""


class LookDelay:
    """Tells whether a look can wait: while the log grows, the next thing in it is likely to be the end.

    A look at the kernel takes longer than a short command.
    """

    def __init__(self, now: float) -> None:
        self._size, self._looked_at, self._waits = -1, now, False
        self._floods = False
        self._grown_at, self._looked_size = now, -1
        """When the log was first seen to have its size; what that was at the last look."""

    def feed(self, size: int, now: float) -> bool:
        """Whether it waits, by the size that the log has now; else it is done now."""
        self._looked_size = size if self._looked_size < 0 else self._looked_size
        self._floods = size - self._looked_size >= FLOODS_BYTES
        if size != self._size:
            self._size, self._grown_at = size, now
        pause_s, longest_s = (LOOKS_S, FLOOD_LOOKS_S) if self._floods else (0.0, LOOKS_S)
        self._waits = now - self._grown_at <= pause_s and now - self._looked_at < longest_s
        if not self._waits:
            self._looked_at, self._looked_size = now, size
        return self._waits

    def step_s(self) -> float:
        """Longest time until it is asked again."""
        return PUT_OFF_S if self._waits and not self._floods else LOOKS_S


class SilenceTimer:
    """Tells when nothing was printed for so long."""

    def __init__(self, idle_ms: int) -> None:
        """`idle_ms`: 0: never."""
        self._idle_ms, self._size, self._since = idle_ms, -1, 0.0

    def feed(self, size: int, now: float) -> bool:
        """Whether that is so, by the size that the log has now."""
        if size != self._size:
            self._size, self._since = size, now
        return bool(self._idle_ms) and (now - self._since) * 1000 >= self._idle_ms


class ShellRest:
    """Tells when a shell waits for keys and nothing is on its way: neither to it nor into the log.

    For `RESTS_S` it waits and prints nothing, tmux and the log's writer say that they have passed on all they had,
    and for `RESTS_S` more nothing changes.
    """

    def __init__(self) -> None:
        self._waits: tuple[int, int] | None = None
        """Size of the log, and how often the shell that waits for keys had slept by then; None: it works."""
        self._since = 0.0
        self._logged = False

    def feed(self, look: Look, now: float) -> bool | Literal[Need.LOGGED]:
        """Whether it is so, by this look and those before it, or what is needed for that (`logged`)."""
        process = look.verdict.process
        waits = (look.size, process.wakes) if look.at_editor and process else None
        if waits is None or waits != self._waits:
            self._waits, self._since, self._logged = waits, now, False
            return False
        if now - self._since < RESTS_S:
            return False
        return True if self._logged else Need.LOGGED

    def logged(self, complete: bool, now: float) -> None:
        """Take in whether the log holds all that was printed by now."""
        self._logged, self._since = complete, now
