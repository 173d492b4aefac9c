"""Sending: text and keys into a session, in one guarded step; what cannot arrive whole is refused before."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby

import anyio

from tmuxmcp.broker.reading import Reading
from tmuxmcp.broker.verbs import Work, check_size, verb
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import begin, joined_notes
from tmuxmcp.contract.errors import (
    InvalidArgument,
    NoInput,
    ResourceLimit,
    TmuxFailed,
    TmuxMcpError,
    Unsupported,
    WrongMode,
)
from tmuxmcp.contract.requests import Mouse
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import value
from tmuxmcp.machine import proc
from tmuxmcp.machine.environment import TMUX_SENDS, home_and_end, type_of
from tmuxmcp.machine.witness.kernel import InputWait, entered_at
from tmuxmcp.readiness import finding
from tmuxmcp.readiness.adoptable import learn_prompt
from tmuxmcp.readiness.finding import takes_pastes
from tmuxmcp.readiness.judge import ESCAPE_S
from tmuxmcp.readiness.wait import TypedNow, WaitCondition
from tmuxmcp.record.commands import TypedInput
from tmuxmcp.sessions.commands import one_line
from tmuxmcp.sessions.levels import program_of
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.screens import shown_by
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell import adopting
from tmuxmcp.shell.sequence import KeySequence, Text, ends_with_newline, items_of, text_of
from tmuxmcp.shell.typing import end_listening
from tmuxmcp.terminal.keys import encode
from tmuxmcp.terminal.modes import PROMPT_SHELLS
from tmuxmcp.terminal.widths import OLDEST_VERSION, TmuxVersion, text_width
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.control import command as tmux_command
from tmuxmcp.tmux.panes import InputLeftover, Pane, Stamp
from tmuxmcp.tmux.server import Tmux

CANONICAL_LINE = 4095
"""Bytes of a line that a terminal in canonical mode takes; the kernel drops the rest (termios(3), MAX_CANON)."""


TTY_FULL = 4000
"""Unread bytes at which a terminal takes no more: of 4096 the kernel keeps a few (N_TTY_BUF_SIZE, tty_ldisc.c)."""

ENDS_LINE_KEYS = ("Enter", "KPEnter", "C-m", "C-j")
"""tmux's names of keys that end a line."""

ENTERED_ONCE_NOTE = "Enter was pressed once: the newline at the end of the text is Enter already."

PASTE_BEGIN, PASTE_END = b"\x1b[200~", b"\x1b[201~"

DEALT_WITH_S = 0.2
"""How long a program may take, in one `send`, to deal with what is typed before the Enter or Escape that follows it."""

QUEUE_S = 0.5
"""How long a program that reads slowly is given before more input is refused."""


@value
class Typing:
    """What is typed."""

    first: Text
    items: list[KeySequence | Text]
    """What follows the text; where that ends with a newline, Enter comes first."""
    bracketed_paste: str
    note: str | None = None
    """What the caller asked for and does not get."""

    @property
    def text(self) -> str:
        """The text before all keys."""
        return self.first.text

    @property
    def entered(self) -> bool:
        """It ends with Enter."""
        last = self.items[-1] if self.items else self.first
        return last.names[-1] in ENDS_LINE_KEYS if isinstance(last, KeySequence) else last.text.endswith(("\n", "\r"))

    def leftover(self, waited: bool) -> InputLeftover:
        """What it leaves behind, typed where a program waited for input or did not."""
        if self.ends_with("C-c"):
            return InputLeftover.BROKEN
        quoted = self.texts.rstrip("\r\n").endswith("\x16")  # C-v: what follows is no Enter
        if not self.entered or quoted or (self.bracketed_paste == "always" and not self.items):
            return InputLeftover.OPEN
        return InputLeftover.LINE if waited and self.lines == 1 else InputLeftover.LINES

    @property
    def lines(self) -> int:
        """How many lines are entered, where none of them is a part of a paste."""
        return len(re.findall(r"\r\n|[\r\n]", self.texts)) + sum(name in ENDS_LINE_KEYS for name in self.names)

    @property
    def names(self) -> list[str]:
        """tmux's names of the keys."""
        return [name for item in self.items if isinstance(item, KeySequence) for name in item.names]

    @property
    def data(self) -> bytes:
        """The bytes of the text before all keys."""
        return self.first.data

    @property
    def between(self) -> list[bytes]:
        """The bytes of the texts among the keys."""
        return [item.data for item in self.items if isinstance(item, Text)]

    @property
    def keys(self) -> int:
        """How many keys are pressed."""
        return len(self.names)

    @property
    def size(self) -> int:
        """Bytes and keys in all."""
        return len(self.data) + sum(map(len, self.between)) + self.keys

    @property
    def texts(self) -> str:
        """All text that is typed."""
        return self.text + "".join(item.text for item in self.items if isinstance(item, Text))

    @property
    def with_enters(self) -> str:
        """All text that is typed, with a newline for each Enter."""
        items = [
            "\n" * item.names.count("Enter") if isinstance(item, KeySequence) else item.text for item in self.items
        ]
        return self.text + "".join(items)

    def ends_with(self, key: str) -> bool:
        """Whether a key is the last."""
        last = self.items[-1] if self.items else None
        return isinstance(last, KeySequence) and last.names[-1:] == [key]


@value
class NotTyped:
    """The end of what was to be typed, once its beginning was."""

    items: list[KeySequence | Text]
    why: TmuxMcpError

    @property
    def size(self) -> int:
        """Bytes and keys."""
        return sum(len(item.names if isinstance(item, KeySequence) else item.data) for item in self.items)

    @property
    def note(self) -> str:
        """For the caller: what was typed stays typed."""
        first = self.items[0]
        what = first.names[0] if isinstance(first, KeySequence) else "a text"
        behind = " and what follows it" if self.size > 1 else ""
        return f"What comes before {what} was typed; {what}{behind} was not ({self.why.code})."


def typing(settings: BrokerSettings, request: q.Send) -> Typing:
    """What a caller wants typed; a wrong key refuses all of it.

    Raises:
        NoInput, InvalidKey, InvalidArgument, ResourceLimit
    """
    if not request.key and (request.ctrl or request.alt or request.shift):
        raise InvalidArgument("ctrl, alt and shift go with key.", hint='For Ctrl-C: key="c", ctrl=true.')
    note = ENTERED_ONCE_NOTE if request.enter and ends_with_newline(request) else None
    what = Typing(text_of(request), items_of(request), request.bracketed_paste, note)
    if not what.size:
        raise NoInput("There is nothing to send.", hint="Give text, key, keys or enter.")
    check_size(settings, what.texts)
    return what


async def send(work: Work[q.Send], session: Session, what: Typing, wait: WaitCondition) -> r.SendResult:
    """Type it, then wait and read.

    Raises:
        SessionExited, InvalidArgument, TmuxFailed
    """
    asked, call, noting, reading = work.request, work.call, work.noting, work.broker.part(Reading)
    pane = session.live()
    await adopting.settle(session)
    await end_listening(session, await finding.prompt_drawn(session))
    look = await with_room(session, work.broker.settings, what)
    data, bracketed = _pasted(what, look, pane.alternate_screen)
    if look.ready and not look.takes_commands and await session.log_complete(look.size):
        await learn_prompt(session, look)
    wait.sent_at, wait.typed_now = look.size, typed_now(session, look, what.lines)
    wait.typed = "" if look.waiting is InputWait.SECRET else what.with_enters.rstrip("\n")  # a secret has no echo
    session.last_texts[call.caller] = look.size, wait.typed
    wait.shown, wait.entered = _has_echo(look), what.entered
    wait.types_after(look)
    wait.at_rest = wait.before is not None and session.prompts.knows(
        wait.before.pid, look.line_of_cursor, takes_pastes(look)
    )
    session.typed_at = look.size
    if what.entered:
        session.entered = entered_at(look.verdict, look.judged, look.line_of_cursor, session.entered, look.size)
    await reading.before(session, asked, wait, call, now=True)
    session.commands.typing(
        TypedInput(look.size, _shown_text(look, what), caller=call.caller, lines=what.lines, read_by=look.read_by)
    )
    own = await own_sequences(look, what)
    async with session.input_lock:
        stamp = await noting.types(session, look.size, bytes=what.size) if noting else None
        # A shell reads what is typed at its prompt, also while it still draws that.
        reader = look.verdict.process.pid if look.ready and look.verdict.process else look.shell_pid
        program = program_of(reader) if look.far is None else ""
        steps, left = typing_steps(what, look), what.leftover(look.ready or look.takes_commands)
        rest = await type_steps(
            session, pane, data, steps, own, left, program=program, bracketed=bracketed, stamp=stamp
        )
    if noting:
        noting.note_typed(session, look.size)
    if what.ends_with("Escape"):
        wait.settle_s = ESCAPE_S
    sent, note = what.size - (rest.size if rest else 0), rest.note if rest else what.note
    session.write_input(bytes=what.size - what.keys, keys=what.keys)
    session.write_shown(look.size, one_line(what.text, what.names) if _is_shown(look) and not what.between else None)
    if asked.read == "none":
        note = joined_notes(session.take_notice(), note)
        return r.SendResult(session_id=session.id, sent_bytes=sent, note=note, result=None)
    await flush_input(session.tmux)
    result = await reading.waited(session, asked, wait, call)
    session.shown.write_shown(session.cols, session.rows)
    return r.SendResult(session_id=session.id, sent_bytes=sent, note=note, result=result)


def _shown_text(look: Look, what: Typing) -> str | None:
    """The text that is typed, where no keys but Enter are in it and the kernel says that it will be seen."""
    if not what.texts or not _is_shown(look) or not set(what.names) <= {"Enter"}:
        return None
    return what.with_enters


def _is_shown(look: Look) -> bool:
    """Whether the kernel or the marks say that what is typed is shown: no secret is asked."""
    facts = look.judged
    return facts is not None and ((facts.canonical and facts.echo) or (look.at_prompt and look.at_editor))


def _has_echo(look: Look) -> bool:
    """Whether what is typed has an echo: of the terminal, or of a line editor that says that it is one."""
    facts = look.judged
    return facts is None or facts.echo or takes_pastes(look) or look.at_prompt


def typed_now(session: Session, look: Look, lines: int) -> TypedNow:
    """What is about to be typed, by the commands that can read it or begin with it."""
    number = max(session.commands.running_in(look), default=0)
    return TypedNow(look.size, lines, look.read_by if lines else number, number)


async def own_sequences(look: Look, what: Typing) -> Mapping[str, bytes]:
    """What Home and End send to the program that reads, where its TERM names something else than tmux sends."""
    if not any(isinstance(item, KeySequence) and not TMUX_SENDS.keys().isdisjoint(item.names) for item in what.items):
        return {}
    process = look.verdict.process
    pid = process.pid if process else look.facts.foreground if look.facts else None
    return await home_and_end(type_of(pid)) if pid else {}


def commands_of(pane: Pane, items: Sequence[KeySequence | Text], own: Mapping[str, bytes]) -> Iterator[bytes]:
    """The tmux commands that press keys and type the texts between them.

    Args:
        own: keys for which tmux would send something else than this.
    """
    for item in items:
        if isinstance(item, KeySequence):
            for key, names in groupby(item.names, lambda name: name if name in own else ""):
                yield from _presses(pane, list(names), own.get(key))
        else:
            yield from panes.raw_pieces(pane, item.data)


def _presses(pane: Pane, names: list[str], sequence: bytes | None) -> Iterator[bytes]:
    if sequence is None:
        yield from (panes.keys(pane, names[at : at + 200]) for at in range(0, len(names), 200))
    else:
        yield from (panes.cursor_key(pane, sequence) for _ in names)


async def type_steps(
    session: Session,
    pane: Pane,
    data: bytes,
    steps: list[list[KeySequence | Text]],
    own: Mapping[str, bytes],
    left: InputLeftover,
    *,
    program: str = "",
    bracketed: bool = False,
    stamp: Stamp | None = None,
    ends: bool = False,
) -> NotTyped | None:
    """Type bytes and what follows them, each step once what was typed before is dealt with.

    Args:
        own: as `commands_of` takes it.
        left, program, bracketed, stamp, ends: as `panes.type_input` takes them.

    Returns:
        What could not be typed any more, if only the first steps could.

    Raises:
        SessionExited, SessionTaken, TmuxFailed: nothing was typed.
    """
    until = time.monotonic() + DEALT_WITH_S
    stamps: list[Stamp | None] = [stamp, *[None] * (len(steps) - 1)]
    if stamp and len(steps) > 1:
        stamps[0], stamps[-1] = stamp.of_first_step, stamp.second
    with anyio.CancelScope(shield=len(steps) > 1):  # no text stays behind without its Enter
        for number, items in enumerate(steps):
            last = number == len(steps) - 1
            if not number and not ends:
                begin()
            try:
                if not await panes.type_input(
                    session.tmux,
                    pane,
                    b"" if number else data,
                    after=[*commands_of(pane, items, own)],
                    bracketed=bracketed,
                    left=left if last else InputLeftover.OPEN,
                    program=program,
                    stamp=stamps[number],
                    ends=ends,
                ):
                    await not_typed(session)
            except TmuxMcpError as error:
                if not number:
                    raise
                return NotTyped([item for each in steps[number:] for item in each], error)
            if not last:
                await flush_input(session.tmux)
                async for look in session.looks(0.001, until):
                    if look.waiting is not InputWait.BUSY:
                        break
    return None


def typing_steps(what: Typing, look: Look) -> list[list[KeySequence | Text]]:
    """What follows the text, cut before each key that a program might take for a part of the text before it.

    So it is with Escape, and with Enter where a program reads keys: some take what they read at once for one key, or
    for a paste. Shells do not, and where whole lines are read the terminal itself cuts.
    """
    process = look.verdict.process
    reads_keys = look.judged is not None and not look.judged.canonical
    shell = look.at_prompt or (process is not None and process.name in PROMPT_SHELLS)
    ends = ENDS_LINE_KEYS if reads_keys and not shell else ()
    steps: list[list[KeySequence | Text]] = [[]]
    behind_text, any_before = bool(what.text), bool(what.text)
    for item in what.items:
        names = item.names if isinstance(item, KeySequence) else [""]
        for name in names:
            if any_before and (name in ends or (name == "Escape" and behind_text)):
                steps.append([])
            if not name:
                steps[-1].append(item)
            elif steps[-1] and isinstance(keys := steps[-1][-1], KeySequence):
                keys.names.append(name)
            else:
                steps[-1].append(KeySequence([name]))
            any_before, behind_text = True, not name or (behind_text and name == "Enter")
    return steps


async def not_typed(session: Session) -> None:
    """Say why nothing was typed.

    Raises:
        SessionExited, TmuxFailed: always one of them.
    """
    await session.alive()
    await adopting.free_if_left(session)
    raise TmuxFailed(f"Nothing was typed: session {session.id} changed at this moment.", hint="Look, try again.")


async def flush_input(tmux: Tmux) -> None:
    """Two more answers of tmux: by then it has written what it was given to the terminal."""
    for _ in range(2):
        await tmux.query(tmux_command("display-message", "-p", ""))


def _check_lines(look: Look, data: bytes) -> None:
    if look.judged is None or not look.judged.canonical or len(data) <= CANONICAL_LINE:
        return
    longest = max(map(len, re.split(rb"[\r\n]", data)))
    if longest > CANONICAL_LINE:
        raise InvalidArgument(
            f"A line has {longest:,} bytes; the program reads {CANONICAL_LINE} of them, the rest would be lost.",
            hint="Send shorter lines, or hand the text over in a file.",
        )


async def with_room(session: Session, settings: BrokerSettings, what: Typing) -> Look:
    """A look at a terminal that can be given so much; what a full one does not take waits in the tmux server.

    Raises:
        InvalidArgument: a line is longer than the program reads.
        ResourceLimit: the program does not read, and as much as one call may type waits for it already.
    """
    size = what.size
    queued = session.queued.bytes + size
    too_much = queued > settings.max_input_bytes
    async for look in session.looks(0.01, time.monotonic() + (QUEUE_S if too_much else 0)):
        for each in (what.data, *what.between):  # before anything is counted as typed
            _check_lines(look, each)
        if not _full(look):
            session.queued.bytes = size
            return look
    if too_much:
        raise ResourceLimit(
            f"The program of session {session.id} does not read its input: {session.queued.bytes:,} bytes wait for it, "
            f"and {size:,} more would exceed max_input_bytes ({settings.max_input_bytes:,}).",
            hint="Wait until it reads (wait_for=ready), interrupt it (key C-c, or signal), or destroy the session.",
            limit="max_input_bytes",
        )
    session.queued.bytes = queued
    return look


def _full(look: Look) -> bool:
    return look.facts is not None and look.facts.unread >= TTY_FULL


def _pasted(what: Typing, look: Look, full_screen: bool) -> tuple[bytes, bool]:
    """How text is typed: its bytes, and whether tmux brackets them if the program asked for that.

    `auto` brackets several lines, so that a line editor takes them as one. A full-screen program takes text as keys:
    vim would not obey a pasted `i`. tmux before 3.6 does not tell what the program asked for; so what is always
    bracketed carries the brackets itself.

    Raises:
        InvalidArgument: it would end the paste itself.
    """
    data, wanted = what.data, what.bracketed_paste
    several = not (what.first.exact or full_screen) and "\n" in what.text.rstrip("\n")
    if not data or wanted == "never" or (wanted == "auto" and not (several and _takes_lines(look, what.text))):
        return data, False
    if PASTE_END in data:
        raise InvalidArgument("Pasted text cannot hold ESC [ 201 ~, which ends a paste.", hint="Send it in two parts.")
    return (PASTE_BEGIN + data + PASTE_END, False) if wanted == "always" else (data, True)


def _takes_lines(look: Look, text: str) -> bool:
    """Whether pasted lines are lines for the program that reads, if it takes pastes.

    GNU Readline hands them over as one line: `.mode csv` and `.headers on`, pasted into sqlite3, would be one command.
    Only bash knows better; Python loads that library and has other line editors. A tab is text only in a paste.
    """
    process = look.verdict.process
    if process is None or process.name in PROMPT_SHELLS or process.name.startswith("python") or "\t" in text:
        return True
    with suppress(OSError):
        return not any(name.startswith("libreadline") for _, _, name, _ in proc.code_of(process.pid))
    return True


# ---- The mouse: events at a place of the screen, or on a text of it, for programs that have asked for them -----------

MOST_PLACES = 20
"""Places that an error names."""

CellPlace = tuple[int, int]
"""Row and column, from 0."""


@verb(q.Mouse)
async def mouse(work: Work[Mouse]) -> r.MouseResult:
    """Hand a mouse event to the program.

    Raises:
        InvalidArgument: there is no such place, or the text is not there exactly once.
        WrongMode: the program has not asked for such events.
        Unsupported: it has, in an encoding of old.
        SessionExited, TmuxFailed
    """
    session, event = await work.session(), work.request
    pane = await session.alive()
    asked = await panes.mouse_modes(session.tmux, pane)
    _check_modes(event, asked)
    place = await _text_place(session, event) if event.on_text else _cell_of(session, event)
    data = encode(event.action, *place, event.button or "")
    async with session.input_lock:
        begin()
        # Not in another program that came in between.
        if not await panes.type_input(session.tmux, pane, data, condition="#{mouse_sgr_flag}", left=InputLeftover.OPEN):
            await not_typed(session)
    session.write_input(bytes=len(data), keys=0)
    await flush_input(session.tmux)
    return r.MouseResult(session_id=session.id, sent=True, row=place[0], col=place[1])


def _check_modes(event: Mouse, asked: panes.MouseModes) -> None:
    if not asked.any:
        raise WrongMode(
            "The program has not asked for mouse events: they would arrive as typed text.",
            hint="Use keys, or switch its mouse on (vim: set mouse=a; less: --mouse; tmux: set mouse on).",
        )
    if not asked.sgr:
        raise Unsupported(
            "The program has asked for mouse events in an old encoding; only SGR (mode 1006) is supported.",
            hint="vim: set ttymouse=sgr. htop, dialog and others that use curses: start them with TERM=xterm-256color.",
        )
    if event.action == "move" and not (asked.all or (asked.drag and event.button)):
        raise WrongMode(
            "The program has not asked for movements" + (" without a button." if asked.drag else "."),
            hint="Give the button that is held while the mouse moves." if asked.drag else "Use press and release.",
        )


def _cell_of(session: Session, event: Mouse) -> CellPlace:
    if event.row is None or event.col is None:
        if event.action.startswith("scroll") and event.row is event.col is None:
            return session.rows // 2, session.cols // 2
        raise InvalidArgument("Where? Give row and col, or on_text.", hint="Rows and columns count from 0.")
    for name, place, end in (("row", event.row, session.rows), ("col", event.col, session.cols)):
        if not 0 <= place < end:
            raise InvalidArgument(f"{name} must be 0 to {end - 1}, not {place}.", hint="Rows and columns count from 0.")
    return event.row, event.col


async def _text_place(session: Session, event: Mouse) -> CellPlace:
    """Where a text stands on the screen: its first column."""
    if event.col is not None:
        raise InvalidArgument("Give col or on_text, not both.", hint="row and on_text: the text in that row.")
    shown = await shown_by(session)
    found = [
        (row, col)
        for row, text in enumerate(shown.texts if shown else [])
        for col in _columns(text, event.on_text, shown.version if shown else OLDEST_VERSION)
        if event.row in (None, row)
    ]
    if len(found) == 1:
        return found[0]
    where = f"{event.on_text!r} is not on the screen"
    hint = "read view=screen shows what is; the text must stand in one row as it does there."
    if found:
        named = ", ".join(f"row {row} col {col}" for row, col in found[:MOST_PLACES])
        where = f"{event.on_text!r} is on the screen {len(found)} times: {named}"
        hint = "Give row and col, or row and on_text if it is once in that row."
    raise InvalidArgument(f"{where}.", hint=hint, places=[{"row": r, "col": c} for r, c in found[:MOST_PLACES]])


def _columns(row: str, text: str, version: TmuxVersion) -> list[int]:
    """The columns at which a text begins in a row."""
    found = []
    at = row.find(text)
    while at >= 0:
        found.append(text_width(row[:at], version))
        at = row.find(text, at + len(text))
    return found
