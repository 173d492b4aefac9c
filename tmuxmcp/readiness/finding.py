"""What a judgement needs to know of a session, found out: some with each look, the rest when it is asked for."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from tmuxmcp.contract.value import field, replace, value
from tmuxmcp.machine.searching import CompiledPattern
from tmuxmcp.machine.witness.kernel import InputWait
from tmuxmcp.machine.witness.tty import holder_of_terminal
from tmuxmcp.readiness.adoptable import note_prompt
from tmuxmcp.readiness.judge import (
    UNMARKED_S,
    AskingJudge,
    Conclusion,
    Facts,
    Judge,
    LastLine,
    Logged,
    Need,
    NewLine,
    NewText,
    ScreenLooks,
    Terms,
    doubt,
    stands_s,
)
from tmuxmcp.sessions.levels import shell_at
from tmuxmcp.sessions.look import LogView, Look
from tmuxmcp.sessions.screens import shown_by
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.emulator.capture import ShownScreen
from tmuxmcp.terminal.marks import Finished, ShellState
from tmuxmcp.terminal.text.echo import (
    ECHO_LIMIT,
    LAST_LINE_BYTES,
    Echo,
    Printed,
    behind_echo,
    drawn_to_cursor,
    edited_in,
    padded,
    unechoed,
    without_echo,
)
from tmuxmcp.terminal.widths import text_width

# ---- Where a wait looks for its pattern ------------------------------------------------------------------------------
#
# In what programs printed, and on the screen of one that draws the whole of it.
#
# What a full-screen program draws is no text of the log, so its screen is looked at as soon as it is there. What line
# editors show of what was typed is no output, however often they draw it. Blanks at the end of the line that the cursor
# is in count: a prompt mostly ends with one.

PATTERN_BYTES = 256 * 1024
"""Raw bytes back from the end of the log in which a pattern is looked for."""

COLUMN_BYTES = 16
"""Of the sequence that puts the cursor into a column."""

MOST_PROMPTS = 8
"""Behind so many prompts the echo of what was typed is looked for."""

MOST_ON_SCREEN = 200
"""Places of a screen at which a pattern is looked for beyond those that stood there before."""

_TO_COLUMN = re.compile(rb"\x1b\[\d+G$")


@value
class Stretch:
    """Bytes of the log, and how they are shown."""

    start: int
    """Offset of the first."""
    data: bytes
    shown: Callable[[bytes], str]
    """`shown(data)`: the clean text of so many of them."""

    def bytes_of(self, text: str) -> int:
        """How many of the bytes it takes to show a beginning of the text as it stands at the end of all."""
        low, high = 0, len(self.data)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.shown(self.data[:middle]).startswith(text) else (middle + 1, high)
        return low


@value
class Output:
    """What programs printed since something was typed, as clean text."""

    text: str
    stretches: tuple[tuple[int, Stretch], ...]
    """Each with the place of its first character in the text."""

    def offset_of(self, place: int) -> int:
        """Up to which offset of the log that much of the text was printed."""
        begin, stretch = next(each for each in reversed(self.stretches) if each[0] <= place)
        return stretch.start + stretch.bytes_of(self.text[begin:place])


def output_since(scan: LogView, offset: int, echo: Echo, typed: Sequence[str] = (), jobs_to: int = 0) -> Output:
    """What was printed since an offset, or the end of it, without what line editors showed of what was typed.

    Where shells mark it, nothing between a prompt and the beginning of its command counts. Elsewhere, and before the
    first such place, the echo of what was just typed does not.

    Args:
        jobs_to: behind the prompt at which the shell waits, what others have printed counts up to this offset.
        typed: texts that are none of that.
    """
    start = max(offset, scan.size - PATTERN_BYTES, scan.log.head())
    size = (scan.cols, scan.rows)

    def unechoed_text(data: bytes) -> str:
        return unechoed(Printed(data, *size, () if scan.marks else tuple(edited_in(data)[:MOST_PROMPTS])), echo)

    def clean_text(data: bytes) -> str:
        return unechoed(Printed(data, *size), Echo(""))

    def job_text(data: bytes) -> str:
        text = clean_text(data)
        for each in typed:
            text = without_echo(text, Echo(each))
        return text

    text, found = "", list[tuple[int, Stretch]]()
    open_at = scan.shell.prompt_end if scan.at_prompt and jobs_to > scan.shell.prompt_end else None
    edited = [(jobs_to if begin == open_at else begin, end) for begin, end in _edited(scan)]
    for begin, end in _outside(edited, start, scan.size, open_at):
        shown = (
            job_text if open_at is not None and begin >= open_at else unechoed_text if begin == start else clean_text
        )
        stretch = Stretch(begin, b"".join(scan.log.pieces(begin, end)), shown)
        text += "\n" if text and not text.endswith("\n") else ""
        found.append((len(text), stretch))
        text += stretch.shown(stretch.data)
    return Output(text, tuple(found))


def _outside(
    edited: Iterable[tuple[int, int]], start: int, end: int, cut: int | None = None
) -> Iterator[tuple[int, int]]:
    """The stretches between two offsets that are in none of these, at least one; at `cut` one ends and one begins."""
    at = start
    for begin, behind in sorted([*edited, *([(cut, cut)] if cut is not None else [])]):
        if begin > at:
            yield at, min(begin, end)
        at = max(at, behind)
        if at >= end:
            break
    yield min(at, end), end


def _edited(scan: LogView) -> Iterator[tuple[int, int]]:
    """Where the line editors of shells with marks showed what they read: from behind a prompt to its command."""
    for each in scan.levels:
        for finished in (*each.commands, *each.held):
            ran = finished.output_start is not None
            yield finished.echo_start, finished.echo_end if ran else _echo_end(scan, finished)
        shell = each.shell
        if shell.state is ShellState.RUNNING:
            yield shell.prompt_end, shell.echo_end
        elif shell.state is not ShellState.STARTING and not shell_at(each.level, scan.program).draws_after_mark:
            yield shell.prompt_end, scan.size


def _echo_end(scan: LogView, finished: Finished) -> int:
    """Where the echo ends of a line in which nothing ran: behind it is what the shell said of that."""
    start = max(finished.echo_start, finished.output_end - ECHO_LIMIT)
    return start + behind_echo(scan.log.read(start, finished.output_end - start))


def printed_since(scan: LogView, offset: int, echo: Echo) -> str:
    """What was printed since an offset, or the end of it, as clean text without the echo of what was typed there."""
    start = max(offset, scan.size - PATTERN_BYTES, scan.log.head())
    data = b"".join(scan.log.pieces(start, scan.size))
    edited = _edited_since(scan, start, data) if echo.typed else ()
    return unechoed(Printed(data, scan.cols, scan.rows, edited), echo)


def _edited_since(scan: LogView, start: int, data: bytes) -> tuple[tuple[int, int], ...]:
    """Where line editors showed what they read, from behind a prompt to its end; the first few of them.

    Args:
        data: what was printed since `start`.
    """
    if scan.marks:
        shell = scan.shell
        shown = [(each.echo_start - start, each.echo_end - start) for each in scan.commands]
        if shell.state is not ShellState.STARTING:
            end = shell.echo_end if shell.state is ShellState.RUNNING else scan.size
            shown.append((shell.prompt_end - start, end - start))
    else:
        shown = edited_in(data)
    return tuple((begin, end) for begin, end in shown if 0 < begin < end)[:MOST_PROMPTS]


def line_since(scan: LogView, offset: int, typed: str) -> str:
    """The line that the cursor is in, as far as it was printed since an offset and is no echo of what was typed."""
    if scan.size <= offset:
        return ""
    start = max(offset, scan.size - LAST_LINE_BYTES, scan.log.head())
    text = drawn_to_cursor(scan.log.read(start, scan.size - start), scan.cols, scan.rows)
    if text is None:
        return printed_since(scan, offset, Echo(typed)).rpartition("\n")[2]
    return without_echo(text.rpartition("\n")[2], Echo(typed))


def takes_pastes(scan: LogView) -> bool:
    """Whether the last word on pastes in brackets switched them on: a line editor is at work."""
    start = max(scan.size - LAST_LINE_BYTES, scan.log.head(), 0)
    return scan.log.read(start, scan.size - start).rpartition(b"\x1b[?2004")[2].startswith(b"h")


def puts_cursor(scan: LogView) -> bool:
    """Whether the last thing printed put the cursor into a column, as line editors do behind their prompt."""
    start = max(scan.size - COLUMN_BYTES, scan.log.head(), 0)
    return _TO_COLUMN.search(scan.log.read(start, scan.size - start)) is not None


def screen_text(shown: ShownScreen) -> str:
    """A screen's rows, that of the cursor with its blanks up to there."""
    rows, (row, col, _) = list(shown.capture.rows), shown.cursor
    if row < len(rows):
        rows[row] = padded(rows[row], text_width(rows[row], shown.version), col)
    return "\n".join(rows)


def row_of_cursor(shown: ShownScreen) -> str:
    """The row that the cursor is in, with its blanks up to there."""
    row = shown.cursor[0]
    return "".join(screen_text(shown).split("\n")[row : row + 1])


@value
class Match:
    """What a pattern matched."""

    pattern: str
    """As it was given."""
    text: str
    end: int
    """Where it ends in the log; of a screen, the log's end."""
    fresh: bool
    """The caller had not been shown it before."""


def who_holds(session: Session, look: Look) -> str:
    """A process that can print though the command in front has ended, as a job behind `&`; empty: none is known."""
    if session.pane is None or look.facts is None:
        return ""
    shells = [each.level.pid or 0 for each in look.levels] + [look.pid or 0]
    holder = holder_of_terminal(session.pane.leader, session.pane.tty, shells)
    return f"`{holder[1]}` (process {holder[0]})" if holder else ""


@value(frozen=False)
class Matching:
    """Looks for the first of some patterns in a session, and in nothing twice."""

    patterns: Sequence[CompiledPattern] = ()
    start: int = 0
    """New text begins at this offset."""
    echo: Echo = Echo("")
    """What was just typed: its echo matches nothing."""
    read_or_seen_to: int = 0
    """The caller was shown all that was printed up to this offset."""
    seen: ShownScreen | None = None
    """The screen that it was shown last; None: that is not known."""
    sent: bool = False
    """Something was typed: what that screen showed in the same cells ends no wait."""
    jobs: bool = False
    """What stands behind a prompt is a job's: one was seen, or what else is typed there is known."""
    searched_to: int = -1
    """All that was printed up to here was searched."""
    stale: Match | None = None
    """What stood there before anything was typed."""
    _new: NewText = field(init=False)
    _looks: ScreenLooks = field(default_factory=ScreenLooks)

    def __post_init__(self) -> None:
        self._new = NewText(self.start, echoes=bool(self.echo.typed))

    async def found(self, session: Session, scan: LogView, now: float) -> Match | None:
        """What matches now: the first pattern that does."""
        if not self.patterns:
            return None
        return await self._in_text(session, scan, now) or await self._on_screen(session, scan, now)

    async def _in_text(self, session: Session, scan: LogView, now: float) -> Match | None:
        if self._new.feed(scan.size, now, exited=scan.exited):
            jobs_to = await self._printed_at_prompt(session, scan)
            texts = session.commands.texts_typed_behind(min(self.start, scan.shell.output_start)) if jobs_to else []
            output = output_since(scan, self.start, replace(self.echo, drawn=self._new.stands), texts, jobs_to)
            for pattern in self.patterns:
                for begin, end in await pattern.spans(output.text):
                    offset = output.offset_of(end)
                    return Match(pattern.source, output.text[begin:end], offset, offset > self.read_or_seen_to)
        self.searched_to = scan.size
        return None

    async def _printed_at_prompt(self, session: Session, scan: LogView) -> int:
        """Up to which offset others, as jobs are, have printed what is behind a shell's prompt; 0: nothing says so.

        Whole lines are, where the shell waits for keys: a line that was entered there would have begun a command.
        """
        if not scan.at_prompt:
            return 0
        if self.jobs:
            return scan.size
        look = scan if isinstance(scan, Look) else await session.look()
        self.jobs = scan.level.where == "remote" or look.facts is None or bool(who_holds(session, look))
        if self.jobs:
            return scan.size
        start = max(scan.shell.prompt_end, scan.size - PATTERN_BYTES)
        lines = scan.log.read(start, scan.size - start).rfind(b"\n") + 1
        return start + lines if lines and look.at_editor and look.size == scan.size else 0

    async def _on_screen(self, session: Session, scan: LogView, now: float) -> Match | None:
        if not self._looks.due(scan.size, now) or not scan.draws:
            return None
        if self.sent and (await session.look()).unread:
            return None
        self._looks.looked(scan.size, now)
        shown = await shown_by(session)
        if shown is None or not (session.pane and session.pane.alternate_screen):
            return None
        text = screen_text(shown)
        for pattern in self.patterns:
            for begin, end in await pattern.spans(text, MOST_ON_SCREEN):
                fresh = self.seen is None or not _stood(text, begin, end, screen_text(self.seen))
                found = Match(pattern.source, text[begin:end], scan.size, fresh)
                if fresh or not self.sent:
                    return found
                self.stale = self.stale or found
        return None


def _stood(text: str, begin: int, end: int, before: str) -> bool:
    """Whether a stretch of a screen's text stood in the same cells of another screen."""
    rows, old = text.split("\n"), before.split("\n")
    first, at = text.count("\n", 0, begin), begin - (text.rfind("\n", 0, begin) + 1)
    for number in range(first, text.count("\n", 0, end) + 1):
        upto = at + end - begin if number == first else end - (text.rfind("\n", 0, end) + 1)
        row, was = rows[number], old[number] if number < len(old) else ""
        upto = min(upto, len(row))
        if row[at:upto] != was[at:upto] or text_width(row[:at]) != text_width(was[:at]):
            return False
        at = 0
    return True


# ----------------------------------------------------------------------------------------------------------------------


class Finding:
    """Finds out what is asked of one session, from one look after the other."""

    def __init__(self, session: Session, terms: Terms) -> None:
        self._session, self._terms = session, terms
        self._new = (-1, "")
        """The new line, and the size of the log for which it was made."""
        self._shown = (-1, False)
        """Whether the described prompt was shown, and the size of the log for which that was looked at."""

    async def judged(self, judge: Judge, look: Look, now: float) -> tuple[Conclusion, Look] | float:
        """Have one look judged, at its time.

        Returns:
            The answer, with the look that it is about; or when the same facts would give one.
        """
        process, facts, confirms = look.verdict.process, Facts(look), False
        said = judge.feed(facts, now)
        while isinstance(said, Need):
            if said is Need.LAST_LOOK:
                look, confirms = await self._session.look(), True
                facts = Facts(look)
            else:
                facts = await self._with(said, facts)
            said = judge.confirm(facts) if confirms else judge.feed(facts, now)
        if not isinstance(said, Conclusion):
            return said
        if said.prompt and process:
            self._session.prompts.learn(process.pid, said.prompt, takes_pastes(look))
        return said, look

    async def _with(self, need: Need, facts: Facts) -> Facts:
        """The facts of a look with one more."""
        look = facts.look
        match need:
            case Need.LINE:
                return replace(facts, line=last_line_of(self._session, look))
            case Need.NEW_LINE:
                return replace(facts, new_line=self._new_line(look))
            case Need.PROMPT:
                return replace(facts, shows_prompt=await self._shows_prompt(look))
            case _:
                asked = time.monotonic()
                complete = await self._session.log_complete(look.size)
                return replace(facts, logged=Logged(complete, (time.monotonic() - asked) / 2))

    async def _shows_prompt(self, look: Look) -> bool:
        """Whether the described prompt stands in the cursor's line; one from before anything was typed does not."""
        pattern = self._terms.prompt_pattern
        if pattern and look.size != self._shown[0]:
            if look.draws:
                shown = await shown_by(self._session)
                line = row_of_cursor(shown) if shown else ""
            else:
                line = self._line(look)
            self._shown = look.size, bool(line) and await pattern.search(line) is not None
        return self._shown[1]

    def _new_line(self, look: Look) -> NewLine:
        if self._new[0] != look.size:
            newer = look.size > self._session.typed_at
            self._new = look.size, (self._line(look) if self._terms.entered else look.line_of_cursor) if newer else ""
        process, line = look.verdict.process, self._new[1]
        prompts = self._session.prompts
        return NewLine(line, process is not None and prompts.knows(process.pid, line, takes_pastes(look)))

    def _line(self, look: Look) -> str:
        """The line that the cursor is in, as far as it was printed since something was typed, if it was."""
        sent_at = self._terms.sent_at
        return look.line_of_cursor if sent_at is None else line_since(look, sent_at, self._terms.typed)


def last_line_of(session: Session, look: Look) -> LastLine:
    """The line that the cursor is in, with what is known of it."""
    process, text, pastes = look.verdict.process, look.line_of_cursor, takes_pastes(look)
    editor, prompts = look.waiting is InputWait.EDITOR, session.prompts
    return LastLine(
        text,
        pastes,
        drawn=editor and puts_cursor(look),
        edited=editor and process is not None and not look.entered_in_silence and prompts.begins(process.pid, text),
        known=process is not None and prompts.knows(process.pid, text, pastes),
        secret=look.may_ask_secret,
    )


def certain(session: Session, look: Look) -> bool:
    """Whether a look finds its program waiting for input, and nothing tells that it may be at work.

    A single look: it may print at this moment.
    """
    if not look.ready:
        return look.between_keys
    process, line = look.verdict.process, last_line_of(session, look)
    if process is None:
        return False
    return stands_s(line.text, process.time_out_s) == 0 or line.edited or not doubt(Facts(look, line))


# ---- Whether a command that runs wants input, by looks at its session: `readiness/judge.py` judges them -----------


class InputQuestions:
    """Watches one command."""

    def __init__(self, session: Session) -> None:
        self._session, self._finding, self._asking = session, Finding(session, Terms()), AskingJudge()

    async def asked(self, look: Look) -> tuple[Conclusion, Look] | None:
        """How it came to ask, and a last look, at which all that was printed before is in the log; None: it does not.

        What tells that it asks has stood for a while then.
        """
        judged = await self._finding.judged(self._asking, look, time.monotonic())
        if isinstance(judged, float):
            return None
        how, last = judged
        return how, await note_prompt(self._session, last)


# ---- The moment between a command's end and the next prompt: a shell that is there is neither busy nor hung ----------


async def prompt_drawn(session: Session) -> LogView:
    """Wait for the prompt of a shell that has just finished a command, for a moment.

    What is typed before it is there is echoed twice: by the terminal, and by the shell's line editor.
    """
    scan = await session.scan()
    if not _between_prompts(scan):
        return scan
    with session.watcher.waiting(session.log.path):
        async for scan in session.scans(0.01, time.monotonic() + UNMARKED_S):
            if not _between_prompts(scan):
                break
    return scan


def _between_prompts(scan: LogView) -> bool:
    between = scan.marks and scan.shell.state is ShellState.STARTING and scan.shell.number > 0
    return between and not scan.exited


async def at_rest(session: Session) -> Look:
    """Let a shell whose command is over come to its next prompt, for a moment: it is neither busy nor hung.

    `run` answers at the mark that ends the command; the prompt comes after it.
    """
    await prompt_drawn(session)
    look = await session.look()
    if _comes_to_rest(look):
        async for look in session.looks(0.001, time.monotonic() + UNMARKED_S):
            if not _comes_to_rest(look):
                break
    return look


def _comes_to_rest(look: Look) -> bool:
    """Whether its shell has drawn its prompt, and still does something for itself."""
    own = look.facts is not None and look.own_shell_in_front
    return own and look.shell.state is ShellState.PROMPT and look.waiting is InputWait.BUSY
