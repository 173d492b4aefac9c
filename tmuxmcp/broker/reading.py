"""Reading: an optional wait, then a view of what a session shows or printed, with what is to be said of it."""

from __future__ import annotations

from typing import Literal, cast

from tmuxmcp.broker import past, views
from tmuxmcp.broker.verbs import Services, Work, verb
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import SMALL_ANSWER_BYTES, Call, joined_notes
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import replace
from tmuxmcp.contract.words import SCREEN_VIEWS, View, conditions
from tmuxmcp.machine.witness.kernel import InputWait
from tmuxmcp.readiness import finding
from tmuxmcp.readiness.finding import Match
from tmuxmcp.readiness.judge import FULL_SCREEN_MODES
from tmuxmcp.readiness.wait import Answer, WaitCondition, wait_for
from tmuxmcp.record import search
from tmuxmcp.record.events import Holding, handed_back
from tmuxmcp.record.excerpt import Excerpt
from tmuxmcp.record.levels import Level
from tmuxmcp.sessions import commandresults
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.screens import ScreenChange, Screens, change, shown_by
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell import outcomes
from tmuxmcp.shell.startup import start_up
from tmuxmcp.terminal.emulator.capture import NOTHING_SHOWN
from tmuxmcp.tmux.panes import Pane, PaneChanged

CELL_BYTES = 100
"""Most bytes of a cell of the screen as text: a character with what is set upon it, and its colours."""

WantedView = View | Literal["auto", "none"]
"""The view that a call asks for; `auto`: we choose."""

ReadRequest = q.Read | q.Send
"""What a caller wants to see, and after which wait."""


@verb(q.Read)
async def read(work: Work[q.Read]) -> r.ReadResult:
    """Wait, and read."""
    reading = work.broker.part(Reading)
    wait = await reading.wait(work.request, work.call)
    session = await work.settled_session()
    result = await reading.read(session, work.request, wait, work.call)
    if work.target.as_known and session.exited:
        raise PaneChanged
    return result


@verb(q.Search)
async def find(work: Work[q.Search]) -> r.SearchResult:
    """Search what was printed."""
    request, session = work.request, await work.session()
    pattern = await work.broker.searching.pattern(request.pattern, f"{work.caller} {session.id}")
    size = (session.cols, session.rows)
    found = await search.search(session.log, *size, session.id, pattern, request.limit, request.context)
    typed_there = commandresults.seem_typed(session, await session.look(), found) if found.matches else None
    return replace(found, note=joined_notes(found.note, typed_there)) if typed_there else found


class Reading:
    """Waits and reads for `read` and `send`."""

    def __init__(self, broker: Services) -> None:
        self.settings, self._searching = broker.settings, broker.searching
        self.screens = Screens()

    async def wait(self, asked: ReadRequest, call: Call) -> WaitCondition:
        """The wait that was asked for.

        Raises:
            InvalidPattern, InvalidArgument
        """
        wanted = conditions(asked.wait_for)
        if "pattern" in wanted and not asked.pattern:
            raise InvalidArgument("wait_for=pattern needs a pattern.", hint="Give a regular expression as pattern.")
        if asked.pattern and "pattern" not in wanted:
            raise InvalidArgument("A pattern is looked for with wait_for=pattern alone.", hint="Give wait_for=pattern.")
        if isinstance(asked, q.Read):
            _check_view(asked)
        prompt, asker = asked.prompt_pattern or self.settings.prompt_pattern, f"{call.caller} {asked.session_id}"
        return WaitCondition(
            want=wanted,
            timeout_ms=clamp(self.settings, asked.timeout_ms)[0],
            idle_ms=asked.idle_ms,
            patterns=[await self._searching.pattern(asked.pattern, asker)] if asked.pattern else [],
            prompt_pattern=await self._searching.pattern(prompt, asker) if prompt else None,
            prompt_needed=bool(asked.prompt_pattern),
            caller=call.caller,
            progress=call.progress,
        )

    async def read(self, session: Session, asked: q.Read, wait: WaitCondition, call: Call) -> r.ReadResult:
        """Wait for new text or the screen, and read.

        Raises:
            InvalidArgument: `since` is not in the log.
            NotRetained, TimedOut, IoError: of a past screen.
        """
        result = await self._read(session, asked, wait, call)
        unused = _unused(asked)
        if not unused:
            return result
        return replace(result, note=joined_notes(result.note, f"{unused} counts for view=scrollback only."))

    async def _read(self, session: Session, asked: q.Read, wait: WaitCondition, call: Call) -> r.ReadResult:
        if past.is_meant(asked):
            await call.room(asked.max_bytes)
            return await past.read(session, asked)
        if asked.since is not None and asked.since > session.log.size():
            raise InvalidArgument(
                f"since={asked.since} is behind the end of the log ({session.log.size()}).",
                hint="Use a next_offset that this session gave.",
            )
        wait.since = asked.since
        if asked.command is not None and wait.wants("command"):
            wait.command = commandresults.command_of(session, await session.look(), asked.command).number
        await self.before(session, asked, wait, call)
        return await self.waited(session, asked, wait, call)

    async def before(
        self, session: Session, asked: ReadRequest, wait: WaitCondition, call: Call, *, now: bool = False
    ) -> None:
        """Say from which screen the wait `changed` is to see a change.

        Args:
            now: from the one of this moment, whatever the caller saw before.
        """
        if wait.wants("pattern"):
            wait.seen = self.screens.find(self.screens.last(session.id, call.caller))
            if now:
                alternate = session.pane is not None and session.pane.alternate_screen
                wait.seen = await shown_by(session) if alternate else None
        if not wait.wants("changed"):
            return
        seen = "" if now else _screen_id(asked) or self.screens.last(session.id, call.caller)
        wait.screen_id = seen or (await shown_by(session) or NOTHING_SHOWN).id

    async def waited(self, session: Session, asked: ReadRequest, wait: WaitCondition, call: Call) -> r.ReadResult:
        """Wait, and read."""
        answer = await wait_for(session, wait)
        note_match(session, answer.outcome, answer.match, call)
        if call.goes_on and call.goes_on(unseen := await self._unseen(session, answer, asked, wait, call)):
            return unseen
        await call.room(_most_bytes(session, asked, call))
        view = _view(asked)
        if view in SCREEN_VIEWS:
            look, found = await self._screen(session, view, asked, call)
        else:
            look, found = await self._new_or_screen(session, wait, asked, call)
        await commandresults.settle(session, look)
        effective = None if wait.only == "none" else clamp(self.settings, asked.timeout_ms)[1]
        command = _command(session, answer, look, asked, wait, call)
        if starting := await start_up(session, look):
            answer = replace(answer, note=joined_notes(answer.note, starting.note))
        others = commandresults.also_ended(session, look, call, command, keep=_since(asked) is not None)
        return _result(session, answer, look, found, command, others, effective)

    async def _unseen(
        self, session: Session, answer: Answer, asked: ReadRequest, wait: WaitCondition, call: Call
    ) -> r.ReadResult:
        """How a wait ended, without content: nothing counts as read, and no screen as seen."""
        await session.refresh()
        look = await session.look()
        await commandresults.settle(session, look)
        start = session.cursor_of(call.caller)
        unseen = Excerpt("", start, start=start, is_new=look.size > start)
        # The next wait is for the next command.
        command = _command(session, answer, look, asked, wait, call) if wait.wants("command") else None
        return _result(session, answer, look, unseen, command, [], None, notices=False)

    async def _new_or_screen(
        self, session: Session, wait: WaitCondition, asked: ReadRequest, call: Call
    ) -> tuple[Look, Excerpt]:
        """A view of what was printed; for `auto` of the screen, if a program draws the whole of it."""
        view = _view(asked)
        assert view != "none", "who asks for none does not come here"
        if view == "auto" or (view != "scrollback" and wait.only != "none"):
            await session.refresh()
        numbered = isinstance(asked, q.Read) and asked.command is not None
        look = await (finding.at_rest(session) if numbered else session.look())
        if view != "auto":
            return look, self._log(session, look, view, asked, call)
        if look.alternate_screen or look.mode in FULL_SCREEN_MODES:
            return await self._screen(session, "auto", asked, call)
        self.screens.forget(session.id, call.caller)
        return look, self._log(session, look, "new", asked, call)

    def _log(self, session: Session, look: Look, view: View, asked: ReadRequest, call: Call) -> Excerpt:
        """A view of what was printed."""
        if isinstance(asked, q.Read) and asked.command is not None:
            return _output(session, look, view, asked, asked.command)
        since = asked.since if isinstance(asked, q.Read) else None
        start = session.cursor_of(call.caller) if since is None else since
        end = look.size
        if view == "scrollback" and isinstance(asked, q.Read):
            found = views.scrollback(session, asked.offset, asked.limit, asked.max_bytes, end, asked.format)
        elif view == "raw":
            found = views.raw(session, start, end, asked.max_bytes)
        else:
            found = views.text(session, start, end, asked.max_bytes, asked.format, contiguous=since is not None)
        if since is None and view != "scrollback":
            has_read(session, call, found.next_offset)
        return replace(found, view=view, start=start, is_new=end > start)

    async def _screen(self, session: Session, view: WantedView, asked: ReadRequest, call: Call) -> tuple[Look, Excerpt]:
        """A view of what is visible: all of it, or what has changed; of a session without a pane what was visible last.

        Args:
            view: `screen`, `diff`, or `auto` for the better of both.
        """
        end = session.log.size()
        limit = asked.max_bytes
        shown, note, approximate = await shown_by(session), None, False
        if shown is None:
            shown, note, approximate = await past.last_shown(session)
        since = _screen_id(asked) or self.screens.last(session.id, call.caller)
        look = await session.look_at_prompt()
        changed = ScreenChange(None) if view == "screen" else change(self.screens.find(since), shown, since)
        self.screens.showed(session.id, call.caller, shown)
        session.saw_screen(call.caller, end)
        if changed.rows is not None:
            found = views.diff(shown, changed.rows, asked.format, limit, end)
        elif view == "diff":
            found = replace(views.screen(shown, asked.format, limit, end), view=view, is_new=True)
        else:
            is_new = end > session.cursor_of(call.caller, end)
            found = replace(views.screen(shown, asked.format, limit, end), is_new=is_new)
        why = changed.note if found.view == "diff" else None
        return look, replace(found, note=joined_notes(found.note, note, why), approximate=approximate)


def has_read(session: Session, call: Call, offset: int) -> None:
    """Move the caller's read cursor to where its answer ends."""
    before = session.cursor_of(call.caller)

    def put_back() -> None:
        if session.cursor_of(call.caller) == offset:
            session.cursors.move(call.caller, before)

    session.cursors.move(call.caller, offset)
    call.undo.append(put_back)


def _most_bytes(session: Session, asked: ReadRequest, call: Call) -> int:
    """Most bytes of a view, whichever it will be; more may be printed until it is made."""
    most_of_screen = session.rows * session.cols * CELL_BYTES
    if isinstance(asked, q.Read) and asked.view == "screen":
        return min(asked.max_bytes, most_of_screen)
    begin = session.cursor_of(call.caller)
    if isinstance(asked, q.Read) and (asked.view == "scrollback" or asked.command is not None):
        begin = 0
    elif isinstance(asked, q.Read) and asked.since is not None:
        begin = asked.since
    printed = session.log.size() - begin
    if printed > SMALL_ANSWER_BYTES:
        return asked.max_bytes
    return min(asked.max_bytes, max(printed, most_of_screen))


def _check_view(asked: q.Read) -> None:
    """Refuse what does not go with the view, or with a command's output.

    Raises:
        InvalidArgument
    """
    if asked.view == "raw" and asked.format == "ansi":
        raise InvalidArgument(
            "format=ansi does not go with view=raw.",
            hint="view=raw has all bytes, colours too, as base64: leave format out. All other views have colours.",
        )
    past.check(asked)
    if asked.command is not None and asked.view != "screen":
        _check_command(asked)


def _unused(asked: q.Read) -> str:
    """Arguments that the view does nothing with, as they were given; a default is no wish."""
    if asked.view == "scrollback":
        return ""
    given = [f"limit={asked.limit}"] * (asked.limit != asked.operation.defaults["limit"])
    if asked.offset is not None:
        given.append(f"offset={asked.offset}")
    return " and ".join(given)


def _check_command(asked: q.Read) -> None:
    others = {"since": asked.since, "offset": asked.offset, "screen_id": asked.screen_id or None}
    given = [name for name, value in others.items() if value is not None]
    if asked.view not in ("new", "raw"):
        given.append(f"view={asked.view}")
    if given:
        raise InvalidArgument(
            f"command does not go with {', '.join(given)}.",
            hint="It gives clean text, with view=raw the bytes, with view=screen the screen at its end.",
        )


def _output(session: Session, look: Look, view: View, asked: q.Read, number: int) -> Excerpt:
    """A command's output; that moves no cursor."""
    start, end, note = commandresults.output_of(session, look, number)
    if view == "raw":
        found = views.raw(session, start, end, asked.max_bytes)
    else:
        found = views.text(session, start, end, asked.max_bytes, asked.format, command=True)
    return replace(found, view=view, start=start, is_new=end > start, note=joined_notes(found.note, note))


def _command(
    session: Session, answer: Answer, look: Look, asked: ReadRequest, wait: WaitCondition, call: Call
) -> r.Command | None:
    """The command that the answer speaks of: the one asked for, the one that was waited for, else the last that ended.

    Of a call that types, only what was there to read that, and what began behind it.
    """
    number = answer.command
    if isinstance(asked, q.Read) and asked.command is not None:
        number = commandresults.command_of(session, look, asked.command).number
    if wait.wants("command") and answer.outcome == "exited":
        found = _ended_with_session(session, look)
        if found and number in (None, found.number):
            return found
    if number is None and wait.wants("command"):  # one that has ended since is left for the next wait
        return None
    if number is None:
        numbers = commandresults.not_reported(session, look, call.caller)
        typed = wait.typed_now
        if typed:
            behind = session.commands.ended_behind(typed.offset, [typed.runs])
            numbers = [each for each in numbers if each in behind]
        number = numbers[-1] if numbers else None
    if number is None:
        return None
    found = commandresults.command_result(session, look, number)
    if found and found.end_offset is not None and _since(asked) is None:
        commandresults.tell(session, call, number)
    return found


def _since(asked: ReadRequest) -> int | None:
    """The offset from which something is read anew: that tells nothing for good."""
    return asked.since if isinstance(asked, q.Read) and "command" not in conditions(asked.wait_for) else None


def note_match(session: Session, outcome: r.Outcome, match: Match | None, call: Call) -> None:
    """Take note that the caller is given a match: the next one begins behind it."""
    before = session.matched.of(call.caller)
    if match and outcome == "matched" and match.end > before:
        session.matched.move(call.caller, match.end)
        call.undo.append(lambda: session.matched.move(call.caller, before))


def _ended_with_session(session: Session, look: Look) -> r.Command | None:
    """The command during which the session ended, with the session's exit code where that is the command's."""
    running = [(each.number, each.level) for each in session.commands.running(look)]
    found = commandresults.command_result(session, look, running[-1][0]) if running and look.exited else None
    if found is None or found.end_offset is None or look.exit_status[0] is None:
        return found if found and found.end_offset is not None else None
    level = next(each.level for each in look.levels if each.level.number == running[-1][1])
    why = outcomes.why_not_its_code(session, look, level, found.text)
    return found if why else replace(found, exit_code=look.exit_status[0])


def _view(asked: ReadRequest) -> WantedView:
    """The view that was asked for, or `auto`."""
    return asked.view if isinstance(asked, q.Read) else asked.read


def _screen_id(asked: ReadRequest) -> str:
    """A screen that was seen before, for `diff` and for the wait `changed`; else the caller's last look is meant."""
    return asked.screen_id if isinstance(asked, q.Read) else ""


def _result(
    session: Session,
    answer: Answer,
    look: Look,
    found: Excerpt,
    command: r.Command | None,
    also_ended: list[r.AlsoEnded],
    effective_timeout_ms: int | None,
    notices: bool = True,
) -> r.ReadResult:
    stopped = commandresults.why_not_over(session, command)
    return r.ReadResult(
        session_id=session.id,
        outcome=answer.outcome,
        evidence=answer.evidence,
        mode=_mode(look, answer),
        exited=look.exited,
        exit_code=look.exit_status[0],
        ended=session.ended,
        rows=look.rows,
        cols=look.cols,
        cursor=cursor_of(look.pane),
        title=title_of(look.pane),
        matched=answer.matched,
        fresh=answer.match.fresh if answer.match else None,
        waited_ms=answer.waited_ms,
        effective_timeout_ms=effective_timeout_ms,
        time=session.time_at(found.next_offset),
        screen_id=found.shown.id if found.shown else None,
        command=command,
        also_ended=also_ended,
        note=notes(session, found.start, found.next_offset, answer.note, stopped, found.note) if notices else None,
        **views.content(found),
    )


def _mode(look: Look, answer: Answer) -> r.Mode:
    """Its current mode, or its mode at the last ready moment if the program is busy for a moment.

    Which screen it draws on tmux was asked only now: waits go by the kernel. The screen alone says nothing of a program
    that is not seen waiting: behind a tmux inside it would hide that a secret is asked for.
    """
    unseen = look.waiting in (InputWait.BUSY, InputWait.UNKNOWN) and look.mode in FULL_SCREEN_MODES
    if answer.settled and (unseen or look.mode in ("running", "unknown")):
        return replace(answer.settled, pane=look.pane).mode
    return look.mode


def clamp(settings: BrokerSettings, timeout_ms: int) -> tuple[int, int | None]:
    """The wait that is allowed, and that again if it is shorter than what was asked for."""
    most = settings.max_wait_ms
    return (most, most) if timeout_ms > most else (timeout_ms, None)


def notes(session: Session, start: int, end: int, *more: str | None) -> str | None:
    """All that is to be said of a result, which covers the log between two offsets."""
    return joined_notes(session.take_notice(), *more, lost_note(session, start, end) if end > start else None)


def lost_note(session: Session, start: int, end: int) -> str | None:
    """That output was lost between two offsets, if it was."""
    where = ", ".join(map(str, session.events.gaps(start, end)))
    return f"Output was lost at offset {where}: its recording was interrupted." if where else None


def cursor_of(pane: Pane | None) -> r.CursorPosition | None:
    """Where a pane's cursor is; None when its program has ended."""
    if pane is None or pane.dead:
        return None
    return r.CursorPosition(row=pane.cursor_row, col=pane.shown_cursor_col, visible=pane.cursor_visible)


def title_of(pane: Pane | None) -> str:
    """The title that a pane's program has set, safe to show; until then tmux calls it after the machine."""
    return views.title(pane.title if pane else "")


def shell_of(level: Level, program: str) -> r.ShellInFront:
    """A shell as results tell it; `program`: name of the session's own."""
    return r.ShellInFront(
        kind=level.kind if level.number else program,
        where=level.where,
        level=level.number,
        adopted=level.number > 0,
        host=level.host,
    )


# ---- What a caller is told of a session that a person has given back -------------------------------------------------
#
# Once, with the commands of that person.
#
# Who never called before is told of the last time alone. Which times each caller was told of stands in the session's
# directory, so every broker knows it.

HANDED_COMMANDS = 20
"""Commands of a person that are told; `list_commands` has the others."""


def is_news(session: Session, caller: str) -> bool:
    """Whether the session was given back and this caller was not told."""
    return bool(_untold(session, caller))


async def tell_handed_back(session: Session, call: Call) -> r.HandedBack | None:
    """What is new of this to a caller; from now on the caller was told. Several times are told as one, the last."""
    untold = _untold(session, call.caller)
    if not untold:
        return None
    _note_told(session, call)  # before anything is waited for: no other call of this caller tells it as well
    look = await finding.at_rest(session)
    ran = [
        each
        for each in session.commands.kept_commands(look)
        if each.by == "person" and any(held.covers(each.start, each.began) for held in untold)
    ]
    last = untold[-1]
    return r.HandedBack(
        by=last.by,
        since=last.since or None,
        until=last.until,
        reason=cast("r.HandedReason", last.reason),
        omitted_commands=max(len(ran) - HANDED_COMMANDS, 0),
        commands=[commandresults.row(each) for each in ran[-HANDED_COMMANDS:]],
    )


def _untold(session: Session, caller: str) -> list[Holding]:
    back = handed_back(session.events.holdings())
    if not back:
        return []
    told = session.handed.of(caller)
    knew = told or session.cursor_of(caller)
    return back[told:] if knew else back[-1:]


def _note_told(session: Session, call: Call) -> None:
    """Remember that the caller is told, and how to forget it."""
    before = session.handed.of(call.caller)
    session.handed.move(call.caller, len(handed_back(session.events.holdings())))
    call.undo.append(lambda: session.handed.move(call.caller, before))
