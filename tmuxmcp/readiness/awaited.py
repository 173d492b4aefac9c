"""Which command a wait is about, and what has become of it.

The end of an earlier command never answers for a later one, begun or only typed. So a wait settles at its beginning
what it is about: a command that is named; what its own call has typed; the lines that its caller entered and that have
begun nothing yet; the caller's newest command of whose end it was not told; else the one that runs, whoever began it.
Lines are settled once the shell is back at its prompt, has read all input, and the log holds all that was printed: then
the last command that they began counts, or it is known that they began none.
"""

from __future__ import annotations

from dataclasses import field

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.contract.results import Outcome
from tmuxmcp.readiness.adoptable import note_prompt
from tmuxmcp.readiness.matching import who_holds
from tmuxmcp.sessions.commands import shell_is_back
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.screens import all_logged
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.marks import ShellState

BEGAN_NONE = "What was typed began no command: it was read as input, or there was nothing in it to run."

WANTS_MORE = "What was typed began no command yet: the shell wants more, as a quote or a here-document is not closed."

HELD = "{command} has ended, and {holder} still has the terminal: so the wait for the pattern went on."


@dataclass(frozen=True)
class TypedNow:
    """What a call has just typed, or is about to type."""

    offset: int
    """Size of the log before."""
    lines: int
    """How many lines it entered."""
    read_by: int = 0
    """Number of the command that waited for it; of keys without Enter, of the one that ran. 0: none."""
    runs: int = 0
    """Number of the command that ran; 0: none."""


@dataclass(frozen=True)
class CommandEnd:
    """What a wait for a command comes to."""

    outcome: Outcome
    """`command`, `left` where its shell ended as it did, `immediate` where there is nothing to wait for."""
    number: int | None = None
    note: str | None = None


NOTHING = CommandEnd("immediate")


@dataclass
class AwaitedCommand:
    """Judges, from one look after the other, whether the command that a wait is about has ended."""

    session: Session
    caller: str
    number: int | None = None
    """The one that is meant; None: the caller's, as the module has it."""
    typed: TypedNow | None = None
    """What this very call types: only what begins behind it counts."""
    _named: bool = field(init=False)
    """It was given by its number."""
    _types: bool = field(init=False)
    """It is about what this very call types."""
    _settled: bool = False
    _shells: dict[int, str] = field(default_factory=dict)
    """By number, nonces of the shells that were seen to run commands."""

    def __post_init__(self) -> None:
        self._named, self._types = self.number is not None, self.typed is not None

    async def judged(self, look: Look) -> CommandEnd | None:
        """What has become of it; None: it goes on."""
        runs = look.shell.state is ShellState.RUNNING and not look.replaced
        if not look.marks and self.number is None and not runs:
            # Where another program has the own shell's place, the log may lack what that said last.
            return None if self.session.meta.marks and not await all_logged(self.session, look.size) else NOTHING
        if not look.marks and runs and look.ready and await all_logged(self.session, look.size):
            await note_prompt(self.session, look)  # a shell at its prompt in the own one's place ends what that ran
        self._shells |= {number: level.nonce for number, level in self.session.commands.running_in(look).items()}
        if not self._settled:
            self._settle(look)
            self._settled = True
        if self.number is not None:
            return await self._of_number(look, self.number)
        return await self._of_lines(look, self.typed) if self.typed else NOTHING

    def _settle(self, look: Look) -> None:
        """Settle what it is about."""
        if self.number is None and self.typed is None:
            self.typed = self._lines(look)
        if self.number is None and self.typed and not self.typed.lines:
            self.number = self.typed.read_by or None
        if self.number is None and self.typed is None:
            told = self.session.told.of(self.caller)
            said = self.session.commands.said_to_have_ended(told.through)
            newest = self.session.commands.newest_of(look, self.caller, [each for each in said if not told.knows(each)])
            self.number = newest.number if newest else max(self.session.commands.running_in(look), default=None)

    def _lines(self, look: Look) -> TypedNow | None:
        """The lines that the caller entered last, if the shell has not got to the end of them as far as is known."""
        entered = self.session.commands.typed_by(self.caller, entered=True)
        if entered is None or entered.offset <= self.session.lines_settled.get(self.caller, -1):
            return None
        begun = self.session.commands.begun_behind(look, entered.offset, self.caller)
        return None if len(begun) >= entered.lines else TypedNow(entered.offset, entered.lines)

    async def _of_number(self, look: Look, number: int) -> CommandEnd | None:
        if self._has_ended(look, number):
            return self._end(number)
        shell = self.session.commands.running_in(look).get(number)
        if shell:
            # Another shell in front of its own waits for its next line: nothing that was typed can end it.
            behind = not self._named and shell.number < look.level.number
            return NOTHING if behind and await self._is_at_rest(look) else None
        if number in self.session.commands.said_to_have_ended(number - 1):
            return None  # its shell is still to be seen back
        gone = number in self._shells and look.at(self._shells[number]) is None
        return CommandEnd("left", number) if gone else NOTHING

    async def _of_lines(self, look: Look, typed: TypedNow) -> CommandEnd | None:
        begun = self.session.commands.begun_behind(look, typed.offset, self.caller)
        last = begun[-1].number if begun else typed.read_by
        ended = last > 0 and self._has_ended(look, last)
        all_begun = len(begun) >= max(typed.lines, 1)
        if not (ended and all_begun) and ((begun and not ended) or not await self._is_at_rest(look)):
            return None
        self.session.lines_settled[self.caller] = typed.offset
        if ended and (self._types or not self.session.told.of(self.caller).knows(last)):
            return self._end(last)
        if ended:  # its end was told by another answer
            self.typed = None
            self._settle(look)
            return await self._of_number(look, self.number) if self.number else NOTHING
        more = look.shell.state is ShellState.CONTINUATION
        return CommandEnd("immediate", note=(WANTS_MORE if more else BEGAN_NONE) if typed.lines else None)

    def _has_ended(self, look: Look, number: int) -> bool:
        return number in self.session.commands.ended_numbers(look, number - 1)

    def _end(self, number: int) -> CommandEnd:
        return CommandEnd("left" if self.session.ended_with_its_shell(number) else "command", number)

    async def _is_at_rest(self, look: Look) -> bool:
        return shell_is_back(look) and await all_logged(self.session, look.size)


@dataclass
class PrintingCommands:
    """The commands that may print what a wait for a pattern is about: those that run as it begins, and later ones."""

    session: Session
    offset: int
    """Size of the log as the wait began; of a call that types, before that."""
    ran: frozenset[int]
    """Numbers of those that ran then."""
    note: str | None = None
    """Why the wait goes on though they have ended."""

    def ended(self) -> list[int]:
        """Numbers of those that marks have ended: if there are any, the session is worth a look."""
        return self.session.commands.ended_behind(self.offset, self.ran)

    async def judged(self, look: Look, searched_to: int) -> CommandEnd | None:
        """The last of them, once none runs and no other process has the terminal; None: the wait goes on.

        Args:
            searched_to: all that was printed up to this offset was searched.
        """
        said = self.ended()
        ended = (
            [each for each in self.session.commands.ended_numbers(look, said[0] - 1) if each in said] if said else []
        )
        if not ended or searched_to < look.size or not shell_is_back(look):
            return None
        holder = who_holds(self.session, look)
        if holder:
            self.note = HELD.format(command=f"Command {ended[-1]}", holder=holder)
            return None
        if not await all_logged(self.session, look.size):
            return None
        return CommandEnd("left" if self.session.ended_with_its_shell(ended[-1]) else "command", ended[-1])
