"""Sending: text and keys into a session, in one guarded step; what cannot arrive whole is refused before."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.errors import InvalidArgument, NoInput, ResourceLimit, TmuxFailed
from tmuxmcp.input.sequence import KeySequence, Text, items_of, text_of
from tmuxmcp.latedataclass import dataclass
from tmuxmcp.machine.terminfo import TMUX_SENDS, home_and_end, type_of
from tmuxmcp.readiness.kernel import InputWait
from tmuxmcp.readiness.settling import ESCAPE_S
from tmuxmcp.readiness.weak import entered_at
from tmuxmcp.reading.reading import Reading
from tmuxmcp.record.commands import TypedInput
from tmuxmcp.running import adopting
from tmuxmcp.running.key import end_listening
from tmuxmcp.sessions.logged import all_logged
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.noting import IdempotentCall
from tmuxmcp.sessions.session import Session
from tmuxmcp.sessions.showninput import one_line
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.control import command as tmux_command
from tmuxmcp.tmux.panes import InputLeftover, Pane, Stamp
from tmuxmcp.tmux.server import Tmux
from tmuxmcp.waiting import nextprompt
from tmuxmcp.waiting.adoptable import learn_prompt
from tmuxmcp.waiting.awaited import TypedNow
from tmuxmcp.waiting.matching import line_of_cursor, takes_pastes
from tmuxmcp.waiting.wait import WaitCondition

CANONICAL_LINE = 4095
"""Bytes of a line that a terminal in canonical mode takes; the kernel drops the rest (termios(3), MAX_CANON)."""


TTY_FULL = 4000
"""Unread bytes at which a terminal takes no more: of 4096 the kernel keeps a few (N_TTY_BUF_SIZE, tty_ldisc.c)."""

ENDS_LINE_KEYS = ("Enter", "KPEnter", "C-m", "C-j")
"""tmux's names of keys that end a line."""

PASTE_BEGIN, PASTE_END = b"\x1b[200~", b"\x1b[201~"

ESCAPES_AFTER_S = 0.2
"""How long a program may take to read text before the Escape that follows it is typed."""

QUEUE_S = 0.5
"""How long a program that reads slowly is given before more input is refused."""


@dataclass(frozen=True)
class Typing:
    """What is typed."""

    text: str
    items: list[KeySequence | Text]
    """What follows the text."""
    bracketed_paste: str

    @property
    def entered(self) -> bool:
        """It ends with Enter."""
        last = self.items[-1] if self.items else Text(self.text)
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
        """The text's bytes, as they were given."""
        return self.text.encode("utf-8", "surrogateescape")

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

    def starts_with(self, key: str) -> bool:
        """Whether a key is the first behind the text."""
        first = self.items[0] if self.items else None
        return isinstance(first, KeySequence) and first.names[:1] == [key]

    def ends_with(self, key: str) -> bool:
        """Whether a key is the last."""
        last = self.items[-1] if self.items else None
        return isinstance(last, KeySequence) and last.names[-1:] == [key]


def typing(settings: BrokerSettings, request: q.Send) -> Typing:
    """What a caller wants typed; a wrong key refuses all of it.

    Raises:
        NoInput, InvalidKey, InvalidArgument, ResourceLimit
    """
    if not request.key and (request.ctrl or request.alt or request.shift):
        raise InvalidArgument("ctrl, alt and shift go with key.", hint='For Ctrl-C: key="c", ctrl=true.')
    what = Typing(text_of(request), items_of(request), request.bracketed_paste)
    if not what.size:
        raise NoInput("There is nothing to send.", hint="Give text, key, keys or enter.")
    check_size(settings, what.texts)
    return what


async def send(
    reading: Reading,
    session: Session,
    what: Typing,
    asked: q.Send,
    wait: WaitCondition,
    call: Call,
    noting: IdempotentCall | None = None,
) -> r.SendResult:
    """Type it, then wait and read.

    Args:
        noting: writes down what is about to be typed, for a call with an id.

    Raises:
        SessionExited, InvalidArgument, TmuxFailed
    """
    pane = session.live()
    await adopting.settle(session)
    await end_listening(session, await nextprompt.prompt_drawn(session))
    data, bracketed, newlines = _pasted(what.data, what.bracketed_paste, pane.alternate_screen)
    look = await with_room(session, reading.settings, data, what)
    if look.ready and not look.takes_commands and await all_logged(session, look.size):
        await learn_prompt(session, look)
    wait.sent_at, wait.typed_now = look.size, typed_now(session, look, what.lines)
    wait.typed = "" if look.waiting is InputWait.SECRET else what.texts  # a secret has no echo
    session.last_texts[call.caller] = look.size, wait.typed
    wait.shown, wait.entered = _has_echo(look), what.entered
    wait.types_after(look)
    wait.at_rest = wait.before is not None and session.prompts.knows(
        wait.before.pid, line_of_cursor(look), takes_pastes(look)
    )
    session.typed_at = look.size
    if what.entered:
        session.entered = entered_at(look.verdict, look.judged, line_of_cursor(look), session.entered)
    await reading.before(session, asked, wait, call, now=True)
    session.commands.typing(
        TypedInput(look.size, _shown_text(look, what), caller=call.caller, lines=what.lines, read_by=look.read_by)
    )
    own = await own_sequences(look, what)
    async with session.input_lock:
        stamp = await noting.types(session, look.size, bytes=what.size) if noting else None
        await _type(session, pane, data, what, bracketed, newlines, own, what.leftover(look.ready), stamp)
    if noting:
        noting.note_typed(session, look.size)
    if what.ends_with("Escape"):
        wait.settle_s = ESCAPE_S
    session.write_input(bytes=what.size - what.keys, keys=what.keys)
    session.write_shown(look.size, one_line(what.text, what.names) if _is_shown(look) and not what.between else None)
    if asked.read == "none":
        return r.SendResult(session_id=session.id, sent_bytes=what.size, note=session.take_notice(), result=None)
    await flush_input(session.tmux)
    result = await reading.waited(session, asked, wait, call)
    session.shown.write_shown(session.cols, session.rows)
    return r.SendResult(session_id=session.id, sent_bytes=what.size, result=result)


def _shown_text(look: Look, what: Typing) -> str | None:
    """The text that is typed, where no keys but Enter are in it and the kernel says that it will be seen."""
    if not what.texts or not _is_shown(look) or not set(what.names) <= {"Enter"}:
        return None
    return what.text + "".join(each.text if isinstance(each, Text) else "\n" * len(each.names) for each in what.items)


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
    runs = session.commands.running_in(look)
    return TypedNow(look.size, lines, look.read_by if lines else max(runs, default=0))


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


async def _type(
    session: Session,
    pane: Pane,
    data: bytes,
    what: Typing,
    bracketed: bool,
    newlines: bytes,
    own: Mapping[str, bytes],
    left: InputLeftover,
    stamp: Stamp | None,
) -> None:
    """Type text, newlines and keys in one step; in two when Escape follows, so that the text is dealt with before.

    Raises:
        SessionExited, TmuxFailed: nothing was typed, or only the text.
    """
    behind = [panes.raw(pane, newlines)] if newlines else []
    after = [*commands_of(pane, what.items, own)]
    if data and what.starts_with("Escape"):
        first = stamp.of_first_step if stamp else None
        if await panes.type_input(
            session.tmux, pane, data, after=behind, bracketed=bracketed, left=InputLeftover.OPEN, stamp=first
        ):
            stamp = stamp.second if stamp else None
            await flush_input(session.tmux)
            async for look in session.looks(0.001, time.monotonic() + ESCAPES_AFTER_S):
                if look.ready:
                    break
        data, behind = b"", []
    after = [*behind, *after]
    if not await panes.type_input(session.tmux, pane, data, after=after, bracketed=bracketed, left=left, stamp=stamp):
        await not_typed(session)


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


def check_size(settings: BrokerSettings, text: str) -> None:
    """Refuse more input at once than is allowed.

    Raises:
        ResourceLimit
    """
    size = len(text.encode("utf-8", "surrogateescape"))
    if size > settings.max_input_bytes:
        raise ResourceLimit(
            f"{size:,} bytes are more than max_input_bytes ({settings.max_input_bytes:,}) allows at once.",
            hint="Send it in pieces, or write it to a file.",
            limit="max_input_bytes",
        )


def _check_lines(look: Look, data: bytes) -> None:
    if look.judged is None or not look.judged.canonical or len(data) <= CANONICAL_LINE:
        return
    longest = max(len(line) for line in data.split(b"\n"))
    if longest > CANONICAL_LINE:
        raise InvalidArgument(
            f"A line has {longest:,} bytes; the program reads {CANONICAL_LINE} of them, the rest would be lost.",
            hint="Send shorter lines, or hand the text over in a file.",
        )


async def with_room(session: Session, settings: BrokerSettings, data: bytes, what: Typing) -> Look:
    """A look at a terminal that can be given so much; what a full one does not take waits in the tmux server.

    Raises:
        InvalidArgument: a line is longer than the program reads.
        ResourceLimit: the program does not read, and as much as one call may type waits for it already.
    """
    between = what.between
    size = len(data) + sum(map(len, between)) + what.keys
    queued = session.queued.bytes + size
    too_much = queued > settings.max_input_bytes
    async for look in session.looks(0.01, time.monotonic() + (QUEUE_S if too_much else 0)):
        for each in (data, *between):  # before anything is counted as typed
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


def _pasted(data: bytes, wanted: str, full_screen: bool) -> tuple[bytes, bool, bytes]:
    """How text is typed: its bytes, whether tmux brackets them if the program asked for that, newlines behind them.

    `auto` brackets several lines, so that a line editor takes them as one; the last newline stays outside, where it is
    Enter. A full-screen program takes text as keys: vim would not obey a pasted `i`. tmux before 3.6 does not tell
    what the program asked for; so what is always bracketed carries the brackets itself.

    Raises:
        InvalidArgument: it would end the paste itself.
    """
    inner = data if wanted == "always" else data.rstrip(b"\r\n")
    several = b"\n" in inner or b"\r" in inner
    if not data or not (wanted == "always" or (wanted == "auto" and several and not full_screen)):
        return data, False, b""
    if PASTE_END in inner:
        raise InvalidArgument("Pasted text cannot hold ESC [ 201 ~, which ends a paste.", hint="Send it in two parts.")
    if wanted == "always":
        return PASTE_BEGIN + inner + PASTE_END, False, b""
    return inner, True, data[len(inner) :]
