"""The commands of a session's shell: those that ended, and the one that runs. It types nothing and waits for nothing.

The marks say where a command begins and ends. A program can print marks as well, so an end counts only once the shell
was seen at its next prompt, or has gone on to another command: until then the command runs. What was typed by calls of
ours, and where the shell does not tell what it ran the line editor's echo, say what the command was.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

from tmuxmcp.contract.call import iso
from tmuxmcp.contract.value import replace, value
from tmuxmcp.machine.witness.kernel import InputWait
from tmuxmcp.record.commands import By, CommandFile, EndedCommand, TypedInput
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import Events, ShownEvent
from tmuxmcp.record.levels import Level
from tmuxmcp.record.log import RawLog, ResumePoints
from tmuxmcp.sessions.life import State
from tmuxmcp.sessions.look import LogView, Look
from tmuxmcp.terminal.marks import Finished, ShellState
from tmuxmcp.terminal.text.echo import ECHO_LIMIT, TOLD_BY_BEGINNING, EditorEcho, behind_echo, compared, on_one_line
from tmuxmcp.terminal.text.plain import plain
from tmuxmcp.terminal.widths import sanitize

SOME_NEW = 8
"""So many commands are written down at once while a shell works at the next."""

MOST_NEW = 64
"""Commands that are not written down yet: a killed broker's successor finds them in the log."""

LONGEST_TEXT = 1000
"""Characters of a command that are kept; a longer one ends with `…`, as in the marks of zsh and fish."""


MOST_AHEAD = 64
"""Inputs that may lie before a command as it begins: what is typed ahead is not much."""

LONGEST_TYPED = 2 * TOLD_BY_BEGINNING
"""Characters of an input that are kept: enough to tell by its beginning which command it was."""


@value
class RunningCommand:
    """A command that has not ended, as far as is known."""

    number: int
    text: str | None
    by: By
    began: float | None
    start: int
    """Where its output begins."""
    level: int = 0
    """Of the shell that runs it."""
    stdin: bool = False
    """As `EndedCommand` has it."""
    caller: str = ""
    """The same."""


Command = EndedCommand | RunningCommand


class Commands:
    """The commands of one session."""

    def __init__(
        self,
        directory: SessionDirectory,
        log: RawLog,
        places: ResumePoints,
        events: Events,
        size: Callable[[], tuple[int, int]],
        log_seems_complete: Callable[[int], bool],
    ) -> None:
        """Take up what is written down.

        Args:
            size: columns and rows of the terminal.
            log_seems_complete: as `Session` has it.
        """
        self._file = CommandFile(directory)
        self._log, self._places, self._events = log, places, events
        self._size, self._log_seems_complete = size, log_seems_complete
        self._new: dict[int, Finished | EndedCommand] = {}
        """Ended, and not written down as they are here; what is known of one is found out when it is asked for."""
        self._levels: dict[int, int] = {}
        """By number, the level of those in `_new` that were run by another shell than the session's own."""
        self._sure = 0
        """Number of the last command that has certainly ended."""

    # ---- what the marks say --------------------------------------------------------------------

    def take(self, finished: Finished, level: int = 0) -> None:
        """Take note of an end that the marks tell; where nothing ran, there was no command.

        Args:
            level: of the shell that says it.
        """
        number = finished.number
        if not finished.proven and self._is_settled(number):
            return  # a copy of its end
        if level:
            self._levels[number] = level
        if finished.output_start is not None:
            self._new[number] = finished
        elif known := self._new.get(number) or self._file.ended.get(number):
            self._new[number] = _ended_again(known, finished)

    def promised(self, job: str = "", done: str = "") -> TypedInput | None:
        """The newest input of which a proof was promised: of a name, or the one whose proof has this half for D."""
        self._file.read_on()
        return self._file.promised(job, done)

    def lost(self, start: int, end: int) -> bool:
        """Whether output between these offsets was lost."""
        return bool(self._events.gaps(start, end))

    @property
    def highest(self) -> int:
        """The highest number that is known; 0: none is."""
        self._file.read_on()
        return max(0, *self._new, *self._file.numbers[-1:], self._file.first - 1)

    @property
    def many_new(self) -> bool:
        """So many are not written down that they should be."""
        return len(self._new) >= MOST_NEW

    def save_some(self) -> None:
        """Write down which have ended, if that is worth it: else a later call has to, of many at once."""
        if len(self._new) >= SOME_NEW:
            self.save()

    def save(self) -> bool:
        """Write down what is new; whether nothing is left to be written down."""
        self._file.read_on()
        new = [number for number, each in self._new.items() if not self._is_written_down(each)]
        if new and not self._file.end([self.ended(number) for number in new]):
            return False
        self._new.clear()
        self._levels.clear()
        return True

    def typing(self, typed: TypedInput) -> bool:
        """Write down what a call is about to type, of a long text the beginning, by which it is told; whether it is."""
        text = typed.text[:LONGEST_TYPED] if typed.text else typed.text
        return self._file.type(replace(typed, text=text))

    def typed_by(self, caller: str, *, entered: bool = False) -> TypedInput | None:
        """The last input of a caller, as far as it is remembered.

        Args:
            entered: the last that entered a line, and for which no command was seen to wait.
        """
        self._file.read_on()
        own = (each for each in reversed(self._file.typed) if each.caller == caller and each.by == "agent")
        return next((each for each in own if not entered or (each.lines and not each.read_by)), None)

    def texts_typed_behind(self, offset: int) -> list[str]:
        """What callers have typed since the log had this size, as far as it was shown."""
        self._file.read_on()
        return [each.text for each in self._file.typed if each.offset >= offset and each.text]

    def typed_since(self, offset: int) -> bool:
        """Whether a call has typed anything since the log had this size."""
        self._file.read_on()
        return any(each.offset >= offset for each in self._file.typed)

    # ---- what is known -------------------------------------------------------------------------

    def count(self, scan: LogView) -> int:
        """How many there were, also those that are forgotten; with the one that runs."""
        return self.forgotten + len(self.said_to_have_ended()) + len(self.running(scan))

    @property
    def forgotten(self) -> int:
        """How many there were before those that are kept."""
        return self._file.forgotten

    def kept_commands(self, look: Look) -> list[Command]:
        """All that are kept, newest last; one whose end is not certain runs."""
        numbers, sure = self.said_to_have_ended(), self.ended_numbers(look)
        found: list[Command] = [self.ended(number) for number in sure]
        found += [_unended(self.ended(number)) for number in numbers[len(sure) :]]
        over = look.exited and look.state is not State.LOST
        found += [_ended_with_session(each, look.size) if over else each for each in self.running(look)]
        return sorted(found, key=lambda each: each.number)

    def ended_numbers(self, look: Look, after: int = 0) -> list[int]:
        """Numbers of those that have certainly ended and are kept, rising; only those above `after`."""
        numbers = self.said_to_have_ended(after)
        if numbers and numbers[-1] > self._sure:
            goes_on = look.shell.state is ShellState.RUNNING and look.shell.number > numbers[-1]
            goes_on = goes_on or self._is_proven(numbers[-1])
            level = self._level_of(numbers[-1])
            goes_on = goes_on or level > look.level.number or not (level or look.own_marks)  # its shell has ended
            if not (goes_on or look.exited or (shell_is_back(look) and self._log_seems_complete(look.size))):
                return numbers[:-1]
            self._sure = numbers[-1]
        return numbers

    def settle(self, look: Look) -> None:
        """Take note that a look was at all that had been printed until after it: what had ended by then, has."""
        numbers = self.said_to_have_ended(self._sure)
        if numbers and shell_is_back(look):
            self._sure = numbers[-1]

    def in_doubt(self, look: Look) -> bool:
        """Whether marks have ended a command that may still run."""
        said = self.said_to_have_ended(self._sure)
        return bool(said) and len(self.ended_numbers(look, self._sure)) < len(said)

    @property
    def sure(self) -> bool:
        """All that marks have ended have certainly ended, whatever the kernel says."""
        numbers = self.said_to_have_ended(self._sure)
        return not numbers or self._is_proven(numbers[-1])

    def find(self, look: Look, number: int) -> Command | None:
        """The command of a number; None when nothing of it is kept."""
        if number in self.ended_numbers(look):
            return self.ended(number)
        return next((each for each in self.kept_commands(look) if each.number == number), None)

    def of_job(self, look: Look, job: str) -> EndedCommand | None:
        """The command that was given to its shell under this name, if it has certainly ended and is kept."""
        found = (self.ended(number) for number in reversed(self.ended_numbers(look)))
        return next((each for each in found if each.job == job), None)

    def said_to_have_ended(self, after: int = 0) -> list[int]:
        """Numbers of all that are kept and that marks have ended, rising; only those above `after`."""
        self._file.read_on()
        kept = self._file.numbers[bisect_right(self._file.numbers, after) :]
        after = max(after, self._file.first - 1)
        new = [each for each in self._new if each > after and each not in self._file.ended]
        return sorted([*kept, *new]) if new else kept

    def running(self, scan: LogView) -> list[RunningCommand]:
        """The commands that run, as the marks say: one of each shell, and the next shell is in front of it."""
        return [self._running(begun, level.number) for begun, level in _begun(scan)]

    def running_in(self, scan: LogView) -> dict[int, Level]:
        """By number, the shells of those."""
        return {begun.number: level for begun, level in _begun(scan)}

    def begun_behind(self, look: Look, offset: int, caller: str) -> list[Command]:
        """The commands of a caller that began behind an offset, as far as they are kept, oldest first."""
        runs = ((begun, level) for begun, level in _begun(look) if (begun.output_start or 0) > offset)
        found: list[Command] = [self._running(begun, level.number) for begun, level in runs]
        for number in reversed(self.said_to_have_ended()):
            command = self.ended(number)
            if command.start <= offset and command.level == look.level.number:
                break
            if command.start > offset and all(each.number != number for each in found):
                found.append(command)
        return sorted((each for each in found if each.caller == caller), key=lambda each: each.number)

    def ended_behind(self, offset: int, ran: Iterable[int] = ()) -> list[int]:
        """Numbers of the commands that began behind an offset, or are named, and that marks have ended, rising."""
        found, named = [], set(ran)
        for number in reversed(self.said_to_have_ended()):
            known = self._new.get(number) or self._file.ended[number]
            if number in named or _start(known) > offset:
                found.append(number)
            elif number < min(named, default=number + 1):
                break
        return found[::-1]

    def newest_of(self, look: Look, caller: str, numbers: Iterable[int] | None = None) -> Command | None:
        """The newest command of a caller that is kept; only one that runs or has one of these numbers."""
        own: list[Command] = [each for each in self.running(look) if each.caller == caller]
        ended = sorted(self.said_to_have_ended() if numbers is None else numbers, reverse=True)
        newest = next((each for number in ended if (each := self.ended(number)).caller == caller), None)
        return max([*own, *([newest] if newest else [])], key=lambda each: each.number, default=None)

    def _running(self, begun: Finished, level: int) -> RunningCommand:
        text, by, caller = self._origin(begun)
        stdin = self._reads_stdin(begun)
        return RunningCommand(begun.number, text, by, begun.began, begun.output_start or 0, level, stdin, caller)

    def _is_proven(self, number: int) -> bool:
        known = self._new.get(number) or self._file.ended.get(number)
        return known is not None and known.proven

    def _is_settled(self, number: int) -> bool:
        """Whether it is known how a command ended: its shell has proved it, or was seen back at its prompt."""
        self._file.read_on()
        seen_over = number <= self._sure and (number in self._new or number in self._file.ended)
        return seen_over or self._is_proven(number)

    def _level_of(self, number: int) -> int:
        known = self._file.ended.get(number)
        return self._levels.get(number, 0) if known is None else known.level

    def _is_written_down(self, command: Finished | EndedCommand) -> bool:
        code = command.exit_code if isinstance(command, EndedCommand) else command.status
        return self._file.has(command.number, code, _end(command))

    def ended(self, number: int) -> EndedCommand:
        """All that is known of one that marks have ended."""
        known = self._new.get(number) or self._file.ended[number]
        if isinstance(known, Finished):
            known = self._new[number] = self._command_of(known)
        return known

    def _command_of(self, finished: Finished) -> EndedCommand:
        assert finished.output_start is not None, "take() drops what did not run"
        text, by, caller = self._origin(finished)
        end = _end(finished)
        times = finished.began, finished.ended
        level = self._levels.get(finished.number, 0)
        return EndedCommand(
            finished.number,
            text,
            by,
            finished.status,
            *times,
            finished.cwd,
            finished.output_start,
            end,
            level,
            finished.proven,
            finished.job,
            self._reads_stdin(finished),
            caller,
        )

    # ---- what it was, and who typed it ---------------------------------------------------------

    def _origin(self, finished: Finished) -> tuple[str | None, By, str]:
        """A command's text, who typed it, and which caller that was."""
        told = finished.text
        self._file.read_on()
        given = self._file.input_of_job(finished.job) if finished.job else None
        caller = given.caller if given else ""
        if given and given.text and len(given.text) < LONGEST_TYPED:
            return _clean(given.text), "agent", caller
        if finished.job and told is not None:  # given by our key
            return _clean(told), "agent", caller
        shown = self._echo_of(finished) if told is None else told
        expanded = told is not None
        held = self._was_held(finished)
        typed = self._input_of_call(finished, shown, expanded=expanded, held=held)
        if typed is None:
            return _clean(shown or None), "agent" if finished.job else "person" if held else "other", caller
        exact = typed.whole and not expanded and (not shown or _echo(typed, shown) is not EditorEcho.WITHIN)
        return _clean(typed.text if exact else shown or None), typed.by, typed.caller

    def _reads_stdin(self, finished: Finished) -> bool:
        """Whether it reads what a call gave it, instead of the terminal."""
        given = self._file.input_of_job(finished.job) if finished.job else None
        return given is not None and given.stdin

    def _was_held(self, finished: Finished) -> bool:
        """Whether a person held the session when it began."""
        start = finished.echo_end if finished.output_start is None else finished.output_start
        return any(each.covers(start, finished.began) for each in self._events.holdings())

    def _input_of_call(self, finished: Finished, shown: str | None, *, expanded: bool, held: bool) -> TypedInput | None:
        """The input of a call that gave the command to the shell.

        Args:
            expanded: the shell tells what it runs, which need not be what was typed.
            held: a person pressed Enter, unless a call had typed all of it before: its text alone tells.
        """
        before = (each for each in reversed(self._file.typed) if each.offset <= finished.echo_end)
        near: list[tuple[TypedInput, bool]] = []
        lines = count = 0
        for typed in islice(before, MOST_AHEAD):
            # The key by which bash is given a command has it draw its prompt anew.
            here = typed.offset >= finished.echo_start or bool(finished.job and typed.whole)
            near.append((typed, here))
            lines += typed.lines - bool(typed.read_by)
            if here or self._begun_since(typed.offset, finished.number) < max(lines, typed.lines):
                count = len(near)  # else the lines from this one on have begun the commands before
        del near[count:]
        for at, (typed, here) in enumerate(near):
            if typed.text is not None and shown and _agree(typed, shown, here=here):
                # Whoever pressed Enter behind it has entered it.
                entered = next((each for each, _ in near[:at] if each.lines), typed) if not typed.lines else typed
                return replace(typed, caller=entered.caller, by=entered.by)
        for typed, here in near:
            untold = expanded or typed.text is None or shown is None or not shown.strip()
            if untold and not held and (here or not typed.read_by):
                return typed
        return None

    def _begun_since(self, offset: int, number: int) -> int:
        """How many commands began behind an offset, and before the one of this number."""
        starts = {at: _start(each) for at, each in self._new.items() if at < number}
        for each in reversed(self._file.numbers):
            if each < number:
                start = self._file.ended[each].start
                if start <= offset:
                    break
                starts.setdefault(each, start)
        return sum(1 for start in starts.values() if start > offset)

    def _echo_of(self, finished: Finished) -> str | None:
        """What the line editor showed of it; None when that is not recorded or no longer kept."""
        start, end = finished.echo_start, min(finished.echo_end, finished.echo_start + ECHO_LIMIT)
        if self._log.head() > start or self._events.gaps(start, end):
            return None
        lines: list[str] = []
        col = self._places.at(start, self._size()[0]).col
        for part in _CONTINUATION_PROMPT.split(self._log.read(start, end - start)):
            shown = on_one_line(part[: behind_echo(part)] or part)
            text = plain(shown, *self._size(), col=0 if lines else col).text.rstrip("\n")
            if lines and not text.startswith(PROMPT_2):
                return None  # a prompt of the user's own: nothing says where it ends
            lines.append(text.removeprefix(PROMPT_2) if lines else text)
        return "\n".join(lines)


PROMPT_2 = "> "
"""What bash shows before each further line of a command, unless the user has another PS2."""

_CONTINUATION_PROMPT = re.compile(rb"\x1b\]133;P;k=s[^\x07\x1b]*(?:\x07|\x1b\\)")


def shell_is_back(look: Look) -> bool:
    """Whether the session's own shell waits at a prompt that the log has: then it has said all that it says of an end.

    The log had the prompt before the kernel was asked: a program may print one after the kernel's word on the shell
    that is about to start it. Where the kernel does not tell who waits, the marks of the prompt have to do.
    """
    untold = look.facts is None or look.waiting is InputWait.UNKNOWN
    waits = look.at_editor and look.shell.prompt_end <= look.heard
    return look.at_prompt and look.own_shell_in_front and (untold or waits)


def _begun(scan: LogView) -> list[tuple[Finished, Level]]:
    """What each shell runs, as the marks say."""
    found = []
    for each in scan.levels:
        begun = next((held for held in each.held if held.output_start is not None), None)
        if begun is None and each.shell.state is ShellState.RUNNING:
            begun = each.shell.as_ended(each.shell.output_start, 0)
        if begun:
            found.append((begun, each.level))
    return found


def _unended(command: EndedCommand) -> RunningCommand:
    told = (command.number, command.text, command.by, command.began, command.start, command.level, command.stdin)
    return RunningCommand(*told, command.caller)


def _ended_again(known: Finished | EndedCommand, finished: Finished) -> Finished | EndedCommand:
    """The same command with a later end: the mark before was not the shell's."""
    again: Finished | EndedCommand
    if isinstance(known, EndedCommand):
        end = max(known.start, finished.output_end)
        again = replace(known, exit_code=finished.status, end=end, cwd=finished.cwd, ended=finished.ended)
    else:
        end = finished.output_end
        again = replace(known, status=finished.status, output_end=end, cwd=finished.cwd, ended=finished.ended)
    return replace(again, proven=finished.proven)


def _ended_with_session(command: RunningCommand, end: int) -> EndedCommand:
    """A command that ran when its session ended, as `exit` does. The session's exit code need not be its own.

    fish exits with 0 when it is told to hang up, whatever it runs.
    """
    return EndedCommand(**vars(command), exit_code=None, ended=None, cwd=None, end=end)


def _start(command: Finished | EndedCommand) -> int:
    return command.start if isinstance(command, EndedCommand) else command.output_start or 0


def _end(command: Finished | EndedCommand) -> int:
    if isinstance(command, EndedCommand):
        return command.end
    return max(command.output_start or 0, command.output_end)


def _agree(typed: TypedInput, shown: str, *, here: bool) -> bool:
    """Whether what was typed is the command that was shown.

    Args:
        here: it was typed at the command's own prompt; what was typed before may have been read by the one before.
    """
    if (typed.whole or here) and _echo(typed, shown) in (EditorEcho.OURS, EditorEcho.WITHIN):
        return True
    return not typed.whole and any(
        "".join(each.split()) == "".join(shown.split()) for each in (typed.text or "").splitlines()
    )


def _echo(typed: TypedInput, shown: str) -> EditorEcho:
    """What was shown, compared with what was typed; of a long text, of which only the beginning is known."""
    like = compared(typed.text or "", shown, shown)
    return EditorEcho.OURS if like is EditorEcho.WITHIN and len(typed.text or "") >= LONGEST_TYPED else like


def _clean(text: str | None) -> str | None:
    """A text that is safe to show, of a bounded length."""
    if text is None:
        return None
    text = sanitize(text.encode("utf-8", "replace").decode())[0]
    return text if len(text) <= LONGEST_TEXT + 1 else text[:LONGEST_TEXT] + "…"


# ---- What was typed into a session -----------------------------------------------------------------------------------
#
# For a recording that wants it: written down once the terminal has shown it.
#
# A secret that is typed while echo is off is never shown, so it is never written down, whatever was thought of the
# terminal when it was typed. Until it is shown it is in memory only: a killed broker forgets it.

INPUT_CHARS = 4096
"""Characters of one input that are written down; of a longer one only the size is."""

MOST_WAITING = 64
"""Inputs that the terminal has not shown yet."""

_NAMED_KEY_TEXT = {"Enter": "\r", "KPEnter": "\r", "Tab": "\t", "Escape": "\x1b", "BSpace": "\x7f"}
_CONTROL_KEY_TEXT = {f"C-{chr(ord('a') + at)}": chr(at + 1) for at in range(26)}
KEYS_SEND = _NAMED_KEY_TEXT | _CONTROL_KEY_TEXT
"""Keys that send the same in every terminal mode, and what they send."""


@value
class _AwaitedEcho:
    at_s: float
    offset: int
    text: str


def one_line(text: str, keys: Iterable[str]) -> str | None:
    """What a text and keys behind it send; None: more than one line, whose rest another program may read.

    Args:
        keys: tmux's names.
    """
    sent = [KEYS_SEND.get(key) for key in keys]
    if None in sent:
        return None
    whole = text.replace("\n", "\r") + "".join(filter(None, sent))
    return None if "\r" in whole[:-1] else whole


class ShownInput:
    """Of one session."""

    def __init__(self, log: RawLog, events: Events) -> None:
        self._log, self._events = log, events
        self._waiting: deque[_AwaitedEcho] = deque(maxlen=MOST_WAITING)

    def note_typed(self, offset: int, text: str) -> None:
        """Take note of what was typed just now, where the terminal shows what is typed.

        Args:
            offset: size of the log before.
        """
        if text and len(text) <= INPUT_CHARS:
            self._waiting.append(_AwaitedEcho(time.time(), offset, text))

    def write_shown(self, cols: int, rows: int) -> None:
        """Write down what the terminal has shown by now; what it does not show is forgotten later."""
        waiting, self._waiting = self._waiting, deque(maxlen=MOST_WAITING)
        for each in waiting:
            data = self._log.read(each.offset, ECHO_LIMIT)
            if is_in(each.text, plain(data, cols, rows).text):
                self._events.append(ShownEvent(iso(each.at_s), each.offset, each.text))
            elif len(data) < ECHO_LIMIT:
                self._waiting.append(each)


def is_in(typed: str, shown: str) -> bool:
    """Whether each line of what was typed was shown, one behind the other."""
    seen, at = _visible(shown), 0
    for line in typed.replace("\r", "\n").split("\n"):
        wanted = _visible(line)
        at = seen.find(wanted, at)
        if at < 0:
            return False
        at += len(wanted)
    return True


def _visible(text: str) -> str:
    """Without what a terminal or a line editor changes: blanks, wrapping, control characters."""
    return "".join(char for char in text if char.isprintable() and not char.isspace())
