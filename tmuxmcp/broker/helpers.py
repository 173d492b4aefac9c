"""What editors and pagers are told to do, in their own keys: only while they are in front, and wait for keys.

Which program reads is the kernel's word. tmux checks the name of the program in front again in the command that
types, so that nothing lands in a shell. What is typed in two parts is looked at between them: text goes on only into
the command line or the question that was to open.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Any

import psutil

from tmuxmcp.broker.reading import Reading
from tmuxmcp.broker.sending import flush_input, not_typed
from tmuxmcp.broker.verbs import Work, verb
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import begin
from tmuxmcp.contract.errors import InvalidArgument, Unsupported, WrongMode
from tmuxmcp.contract.value import value
from tmuxmcp.sessions.screens import shown_by
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell.sequence import Text, one_newline
from tmuxmcp.terminal.emulator.capture import ShownScreen
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.control import command
from tmuxmcp.tmux.panes import InputLeftover

OPENS_S, LOOK_EVERY_S = 2.0, 0.02
"""How long a program may take to open its command line or a question, and how often that is looked for."""

AFTER_MS = 5000
"""How long it may take for what it was told."""

PROGRAM_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""Names of programs that may enter a tmux command."""

ShownCheck = Callable[[ShownScreen], bool]


@value
class HelperStep:
    """Something to type, and what must be shown before anything follows it."""

    data: bytes
    opens: ShownCheck | None = None


# ---- what is typed: pure -------------------------------------------------------------------------


def vim_steps(request: q.EditorAction) -> list[HelperStep]:
    """Keys for vim, from whatever mode it is in: CTRL-\\ CTRL-N goes to normal mode (:help CTRL-\\_CTRL-N)."""
    words = {"save": "w", "quit": "q", "save_quit": "wq", "goto": str(request.line)}
    line = words.get(request.action) or _vim_insert(one_newline(request.text))
    return [HelperStep(b"\x1c\x0e:", _vim_command_line), HelperStep(line.encode() + b"\r")]


def _vim_insert(text: str) -> str:
    """A command that inserts a text before the cursor, as it is: no mapping, abbreviation or indent changes it.

    All but letters, digits and blanks is written as a number, so that nothing of it is a key or ends the command.
    """
    written = {"\n": "\\r", "\t": "\\t", " ": " "}
    chars = [written.get(c) or (c if c.isascii() and c.isalnum() else f"\\U{ord(c):08x}") for c in text]
    insert = f'set paste|exe "normal! i{"".join(chars)}"'
    return f"let w:tmuxmcp=&paste|try|{insert}|finally|let &paste=w:tmuxmcp|unlet w:tmuxmcp|endtry"


def _vim_command_line(shown: ShownScreen) -> bool:
    row, col, _ = shown.cursor
    return col == 1 and _row(shown, row) == ":"


def nano_steps(request: q.EditorAction) -> list[HelperStep]:
    """Keys for nano, where no question of its own is open."""
    save = [HelperStep(b"\x0f", _nano_asks), HelperStep(b"\r", nano_rests)]
    match request.action:
        case "save":
            return save
        case "quit":
            return [HelperStep(b"\x18")]
        case "save_quit":
            return [*save, HelperStep(b"\x18")]
        case "goto":
            return [HelperStep(b"\x1f", _nano_asks), HelperStep(f"{request.line}\r".encode())]
        case "insert":
            # As a paste: no key, and not indented.
            return [HelperStep(b"\x1b[200~" + Text(one_newline(request.text)).data + b"\x1b[201~")]


def nano_rests(shown: ShownScreen) -> bool:
    """The help of its main window is shown: it edits text, and asks nothing."""
    return _row(shown, shown.rows - 1).startswith("^X")


def _nano_asks(shown: ShownScreen) -> bool:
    return shown.cursor[0] == shown.rows - 3 and not _row(shown, shown.rows - 1).startswith("^X")


def pager_steps(request: q.PagerAction) -> list[HelperStep]:
    """Keys that less and more have in common."""
    match request.action:
        case "next":
            return [HelperStep(b" ")]
        case "prev":
            return [HelperStep(b"b")]
        case "quit":
            return [HelperStep(b"q")]
        case "search":
            text = request.text
            # less takes some characters at the beginning of a pattern for its own (less(1), /pattern).
            text = f"[{text[0]}]{text[1:]}" if text[0] in "!*@&" else text
            return [HelperStep(b"/", _pager_asks), HelperStep(Text(text).data + b"\r")]


def pager_rests(shown: ShownScreen) -> bool:
    """Its prompt is shown, a colon or reverse video, and no question of its own."""
    row, _, _ = shown.cursor
    text = _row(shown, row).strip()
    reversed_ = " ".join(each.text for each in shown.capture.reversed if each.row == row).strip()
    return text == ":" or (bool(text) and text == reversed_)


def _pager_asks(shown: ShownScreen) -> bool:
    row, col, _ = shown.cursor
    return col == 1 and _row(shown, row) == "/"


def _row(shown: ShownScreen, row: int) -> str:
    texts = shown.texts
    return texts[row].rstrip() if 0 <= row < len(texts) else ""


# ---- acting --------------------------------------------------------------------------------------


@verb(q.EditorAction)
async def edit(work: Work[q.EditorAction]) -> r.EditorActionResult:
    """Have the editor in front do something.

    Raises:
        WrongMode: no editor that is known here waits for keys.
        InvalidArgument, SessionExited, TmuxFailed
    """
    session, request = await work.settled_session(), work.request
    _check_text(one_newline(request.text), request.action == "insert", "insert")
    if (request.line is not None) != (request.action == "goto"):
        raise InvalidArgument("line goes with goto, and goto needs it.", hint="Lines count from 1.")
    front = await _front(session)
    if front.program.startswith(("vim", "nvim")):
        steps, rests = vim_steps(request), None
    elif front.program == "nano":
        steps, rests = nano_steps(request), nano_rests
    else:
        raise front.wrong("vim, nvim or nano")
    seen = await _type(work, session, front, steps, rests)
    note = None
    if front.program == "nano" and request.action == "quit" and await _is_in_front(session, front):
        seen = await _type(work, session, front, [HelperStep(b"\x03")], None)
        note = "nano has not ended: there are changes that are not saved. Use save_quit, or send its own keys."
    return r.EditorActionResult(
        session_id=session.id, program=front.program, mode=seen.mode or "unknown", note=note, content=seen.content
    )


@verb(q.PagerAction)
async def page(work: Work[q.PagerAction]) -> r.PagerActionResult:
    """Have the pager in front do something.

    Raises:
        WrongMode: no pager that is known here waits for keys.
        Unsupported: it is more, which does not tell at once what it has found.
        InvalidArgument, SessionExited, TmuxFailed
    """
    session, request = await work.settled_session(), work.request
    _check_text(request.text, request.action == "search", "search")
    if "\n" in request.text or "\t" in request.text:
        raise InvalidArgument("A pattern is one line without tabs.")
    front = await _front(session)
    if front.program not in ("less", "more"):
        raise front.wrong("less or more")
    if front.program == "more" and request.action == "search":
        # Its answer to a pattern comes at the next key (util-linux 2.38): the screen would say nothing of it.
        raise Unsupported("more shows what it has found only later.", hint="Open the text with less.")
    seen = await _type(work, session, front, pager_steps(request), pager_rests)
    return r.PagerActionResult(
        session_id=session.id, program=front.program, mode=seen.mode or "unknown", content=seen.content
    )


@value
class _KeyReader:
    """The program that waits for keys."""

    pid: int
    program: str
    """Name of its file; empty: it cannot be known."""
    command: str
    """The program in front, as tmux calls it: for git's pager it is git."""
    mode: str

    def wrong(self, wanted: str) -> WrongMode:
        """What is raised where another program is in front."""
        what = f"{self.program} is in front" if self.program else "the program in front cannot be told"
        return WrongMode(
            f"Nothing was typed: {what} (mode {self.mode}), not {wanted}.",
            hint="read view=screen shows it; send types keys into any program.",
            mode=self.mode,
        )


async def _front(session: Session) -> _KeyReader:
    """Who waits for keys at the session's own terminal."""
    await session.alive()
    pane = session.live()
    told = await session.tmux.query(command("display-message", "-p", "-t", pane.pane_id, "#{pane_current_command}"))
    name = told.text.strip()
    found = _KeyReader(0, "", "", "unknown")
    async for look in session.looks(LOOK_EVERY_S, time.monotonic() + OPENS_S):
        process = look.verdict.process
        found = _KeyReader(0, "", "", look.mode)
        if look.ready and process and look.mode in ("editor", "pager", "fullscreen", "line_input"):
            own = not look.relays and look.far is None and not look.host
            program = _file_of(process.pid) if own and PROGRAM_NAME.fullmatch(name) else ""
            return _KeyReader(process.pid, program, name, look.mode)
        if look.mode in ("shell_prompt", "password", "exited", "stopped", "lost"):
            return found
    return found


def _file_of(pid: int) -> str:
    try:
        return os.path.basename(psutil.Process(pid).exe())
    except (psutil.Error, OSError):
        return ""


async def _is_in_front(session: Session, front: _KeyReader) -> bool:
    look = await session.look()
    return look.verdict.process is not None and look.verdict.process.pid == front.pid


async def _type(
    work: Work[Any], session: Session, front: _KeyReader, steps: list[HelperStep], rests: ShownCheck | None
) -> r.ReadResult:
    """Type the steps, each once the one before has opened what it was to open; the screen once the program waits."""
    pane, call, reading = session.live(), work.call, work.broker.part(Reading)
    asked = q.Read("screen", session.id, wait_for="ready", timeout_ms=AFTER_MS).filled(work.broker.settings)
    wait = await reading.wait(asked, call)
    condition = f"#{{==:#{{pane_current_command}},{front.command}}}"
    async with session.input_lock:
        if rests and not await _shows(session, rests):
            raise WrongMode(
                f"Nothing was typed: {front.program} asks something of its own, or its prompt cannot be seen.",
                hint="read view=screen shows it; send answers or cancels it (C-c).",
            )
        for step in steps:
            look = await session.look()
            wait.sent_at = session.typed_at = look.size
            wait.types_after(look)
            if step is steps[0]:
                begin()
            if not await panes.type_input(session.tmux, pane, step.data, condition=condition, left=InputLeftover.OPEN):
                await not_typed(session)
            session.write_input(bytes=len(step.data), keys=0)
            await flush_input(session.tmux)
            if step.opens and not await _shows(session, step.opens):
                raise WrongMode(
                    f"{front.program} did not open what the text was for; the text was not typed.",
                    hint="read view=screen shows what it does instead.",
                )
    return await reading.waited(session, asked, wait, call)


async def _shows(session: Session, check: ShownCheck) -> bool:
    """Whether the screen comes to be as it should."""
    async for _ in session.looks(LOOK_EVERY_S, time.monotonic() + OPENS_S):
        shown = await shown_by(session)
        if shown and check(shown):
            return True
    return False


def _check_text(text: str, needed: bool, action: str) -> None:
    if bool(text) != needed:
        raise InvalidArgument(f"text goes with {action}, and {action} needs it.")
    wrong = next(
        (c for c in text if (c < " " and c not in "\n\t") or "\x7f" <= c < "\xa0" or "\ud800" <= c < "\ue000"), ""
    )
    if wrong:
        raise InvalidArgument(f"text cannot hold the character {wrong!r}.", hint="Newline and tab alone are allowed.")
