"""What we ask of panes, with tmux's own command names: create, look, type, capture, resize, kill.

A pane is addressed by its id, and every command that acts checks our `@tmuxmcp_id` in the same breath: ids start
again with a new server, and a script may have put another pane in our place. Only `[A-Za-z0-9_-]` and our own
paths enter formats.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import count, takewhile
from typing import NamedTuple

import anyio

from tmuxmcp.contract.errors import TmuxFailed
from tmuxmcp.contract.value import value
from tmuxmcp.machine.proc import since_boot_s
from tmuxmcp.terminal.widths import OLDEST_VERSION, TmuxVersion, text_width, version_of
from tmuxmcp.tmux.control import command, sequence
from tmuxmcp.tmux.leaseoptions import IS_FREE, Lease, taken_error
from tmuxmcp.tmux.server import Tmux, pipe_command

PANE_OPTIONS = ("id", "program", "args", "created", "owner", "log", "sink", "scrollback", "nonce", "home", "leader")
"""What a session is, as pane options `@tmuxmcp_*`: adoption needs tmux alone."""

BORN_WITH = {"home": "#{session_id}", "leader": "#{pane_pid}"}
"""Options that keep what tmux said of the pane when it was made: scripts move panes and respawn them."""

_PLAIN_NAME = "?#{m:*[!A-Za-z0-9_-]*,#{session_name}},,#{session_name}"
"""The tmux session's name; empty if it could break a line: scripts rename it as they like.

By a pattern of file names: tmux compiles a regular expression anew each time, which is a tenth of what a pane costs.
"""

_PANE_FIELDS = (
    *(f"@tmuxmcp_{name}" for name in PANE_OPTIONS),
    "pane_id",
    "session_id",
    "pane_pid",
    "pane_tty",
    "pane_dead",
    "pane_dead_status",
    "pane_dead_signal",
    "pane_width",
    "pane_height",
    "cursor_x",
    "cursor_y",
    "cursor_flag",
    "alternate_on",
    "pane_pipe",
    "pane_in_mode",
    "pane_input_off",
    "mouse_any_flag",
    "@tmuxmcp_taken",
    "@tmuxmcp_paused",
    "@tmuxmcp_paused_all",
    "@tmuxmcp_given",
    "@tmuxmcp_held_at",
    _PLAIN_NAME,
    "window_id",
    "window_active",
    "pane_active",
    "window_active_clients",
    "pane_title",  # last: a program wrote it
)
PANE_FORMAT = "|".join(f"#{{{name}}}" for name in _PANE_FIELDS)
"""One line; no field but the last can hold the bar: texts of ours are JSON, with the bar escaped."""

STATUS_S, STATUS_TO_COME_S = 1.0, 5.0
"""Longest wait for the exit status of a pane that is dead; and where its launcher, which has it, is not gone yet."""

INLINE_BYTES = 4096
"""Input up to this goes to tmux in the command line itself; more, or a NUL, by a file in memory."""

RAW_BYTES = 200
"""Bytes that one command types as they are."""

_numbers = count(1)


class InputLeftover(StrEnum):
    """What the last input of a pane left behind, as our variable `typed` says."""

    LINE = "line"
    """Nothing: it was one line, typed where a program waited for it."""
    COMMAND = "command"
    """Nothing: it was a command of `run`, which its shell had asked for."""
    LINES = "lines"
    """Nothing: it ended with Enter. Who read which line of it is not known."""
    BROKEN = "broken"
    """Nothing, but in a shell that keeps its line: it ended with C-c."""
    OPEN = "open"
    """Perhaps half a line, a search, a mode of the line editor."""


class PaneChanged(Exception):
    """The pane is not as tmux last told of it; nothing was done. Whoever acts looks for the target anew."""


@value
class LastInput:
    """The last input of a pane that went through this door."""

    at_s: float
    """When, by the clock CLOCK_BOOTTIME; 0: there was none."""
    left: InputLeftover
    option: str
    """What the pane's option says."""
    program: str = ""
    """Which program was to read it, as whoever typed it had it; empty: that is not known."""

    @classmethod
    def parse(cls, option: str) -> LastInput | None:
        """From the option; None: somebody else has set it."""
        if not option:
            return cls(0.0, InputLeftover.LINE, "")
        found = re.fullmatch(r"([0-9]{1,15})-(line|command|lines|broken|open)(?:-([0-9a-z]+))?", option)
        return cls(int(found[1]) / 1000, InputLeftover(found[2]), option, found[3] or "") if found else None


@value
class Stamp:
    """What the pane's option `@tmuxmcp_request` says before and after a call with a `request_id` has typed.

    It is set by the step that types, and only where it still says what it said: so tmux itself tells whether the call
    typed, and whoever changes it first decides that it never will.
    """

    before: str
    after: str

    @property
    def of_first_step(self) -> Stamp:
        """Of the first of two steps in which something is typed."""
        return Stamp(self.before, f"{self.after}-part")

    @property
    def second(self) -> Stamp:
        """Of the second one."""
        return Stamp(self.of_first_step.after, self.after)

    @property
    def void(self) -> str:
        """What the option says once it is decided that the call did not type and never will."""
        return f"{self.after}-void"


_SAY_OK = command("display-message", "-p", "ok")
_WORD = re.compile(rb"([0-9A-Za-z]{8,})")
_STAMPED_ID = re.compile(r"[A-Za-z0-9_-]{0,96}")


@value
class Pane:
    """What tmux says of one of our panes at one moment."""

    options: Mapping[str, str]
    pane_id: str
    tmux_session_id: str
    leader: int
    """Process id of the launcher; of another program, once a script has respawned the pane with it."""
    tty: str
    dead: bool
    exit_code: int | None
    exit_signal: int | None
    cols: int
    rows: int
    cursor_col: int
    cursor_row: int
    cursor_visible: bool
    alternate_screen: bool
    piped: bool
    in_mode: bool
    input_off: bool
    wants_mouse: bool
    """A program has asked for the mouse."""
    taken: Lease | None
    """Which person holds it."""
    paused: Lease | None
    """That it is paused, by itself or with all others."""
    all_paused: bool
    """All are, and those that are made later."""
    given: str
    """That it was given back and nobody has written that down yet, as the option has it."""
    held_at_s: float
    """When who holds it was last active, beside a terminal of tmux, in seconds since 1970; 0: not known."""
    tmux_session_name: str
    """Our id, until somebody renames it or moves the pane; empty if it is not plain."""
    window_id: str
    in_front: bool
    """It is what a client sees that attaches to the tmux session, and types into."""
    viewers: int
    """How many clients of tmux show its window."""
    title: str

    @property
    def shown_cursor_col(self) -> int:
        """The cursor's column; as many as there are columns: behind the last one.

        tmux (3.3a) leaves the cursor where it was when an alternate screen becomes narrower.
        """
        return min(self.cursor_col, self.cols)

    @property
    def id(self) -> str:
        """Our session id."""
        return self.options["id"]

    @property
    def sink(self) -> int:
        """Number of its sink; 0 when somebody took that away."""
        return _number(self.options["sink"]) or 0

    @property
    def scrollback(self) -> int | None:
        """Lines of scrollback; None when somebody took that away."""
        return _number(self.options["scrollback"])

    @property
    def respawned(self) -> bool:
        """A script has put another program into it, without our launcher."""
        return _number(self.options["leader"]) not in (None, self.leader)

    @property
    def lease(self) -> Lease | None:
        """Who holds it; None: it is free."""
        return self.taken or self.paused

    @property
    def attach_target(self) -> str:
        """What `attach-session -t` takes for it at this moment; exact."""
        target = f"={self.tmux_session_name}" if self.tmux_session_name else self.tmux_session_id
        return target if self.in_front else f"{target}:{self.window_id}.{self.pane_id}"

    @property
    def status_known(self) -> bool:
        """Not the moment between the end of the program and the news of its exit status."""
        return not self.dead or self.exit_code is not None or self.exit_signal is not None


def _number(value: str) -> int | None:
    return int(value) if re.fullmatch(r"[0-9]{1,12}", value) else None


def parse(line: str) -> Pane | None:
    """A line of `PANE_FORMAT`; None for a pane that is not ours."""
    values = line.split("|", len(_PANE_FIELDS) - 1)
    if len(values) != len(_PANE_FIELDS):
        return None
    options = dict(zip(PANE_OPTIONS, values, strict=False))
    facts = dict(zip(_PANE_FIELDS, values, strict=True))
    # What somebody has set for all panes shows in others too, and where there is none any more.
    if not (options["id"] and options["log"] and re.fullmatch(r"%\d+", facts["pane_id"])):
        return None
    dead = facts["pane_dead"] == "1"
    return Pane(
        options=options,
        pane_id=facts["pane_id"],
        tmux_session_id=facts["session_id"],
        leader=int(facts["pane_pid"] or 0),
        tty=facts["pane_tty"],
        dead=dead,
        exit_code=int(facts["pane_dead_status"]) if dead and facts["pane_dead_status"] else None,
        exit_signal=int(facts["pane_dead_signal"]) if dead and facts["pane_dead_signal"] else None,
        cols=int(facts["pane_width"]),
        rows=int(facts["pane_height"]),
        cursor_col=int(facts["cursor_x"] or 0),
        cursor_row=int(facts["cursor_y"] or 0),
        cursor_visible=facts["cursor_flag"] != "0",
        alternate_screen=facts["alternate_on"] == "1",
        piped=facts["pane_pipe"] == "1",
        in_mode=facts["pane_in_mode"] not in ("", "0"),
        input_off=facts["pane_input_off"] == "1",
        wants_mouse=facts["mouse_any_flag"] == "1",
        taken=Lease.parse(facts["@tmuxmcp_taken"]),
        paused=Lease.parse(facts["@tmuxmcp_paused"]) or Lease.parse(facts["@tmuxmcp_paused_all"]),
        all_paused=bool(facts["@tmuxmcp_paused_all"]),
        given=facts["@tmuxmcp_given"],
        held_at_s=float(_number(facts["@tmuxmcp_held_at"]) or 0),
        tmux_session_name=facts[_PLAIN_NAME],
        window_id=facts["window_id"],
        in_front=facts["window_active"] == facts["pane_active"] == "1",
        viewers=_number(facts["window_active_clients"]) or 0,
        title=facts["pane_title"],
    )


@value
class NewPane:
    """A pane to make."""

    options: Mapping[str, str]
    """`@tmuxmcp_*` by name without the prefix; `id` among them."""
    argv: Sequence[str]
    """Word one and its arguments, exact."""
    pipe: Sequence[str]
    """The sink and its arguments."""
    cols: int
    rows: int
    history_limit: int


async def new_session(tmux: Tmux, new: NewPane) -> Pane:
    """Make a pane that loses nothing: created, piped and described in one command list.

    Raises:
        TmuxFailed: tmux refused; nothing is left.
    """
    name = new.options["id"]
    target = f"={name}:"
    commands = _make_commands(name, new, "on") + _is_ours(target, new.options)
    async with tmux.undisturbed():
        reply = await tmux.checked(*commands)
    pane = parse(os.fsdecode(reply.lines[-1])) if reply.lines else None
    if pane is None:
        raise TmuxFailed(f"tmux made session {name} but does not know it.")
    return pane


def _make_commands(name: str, new: NewPane, remain: str) -> list[bytes]:
    """The commands that make a tmux session with one pane."""
    target = f"={name}:"
    if len(new.argv) < 2:
        raise ValueError("a single word would go through a shell")
    return [
        command("set-option", "-g", "history-limit", str(new.history_limit)),
        command("new-session", "-d", "-s", name, "-x", str(new.cols), "-y", str(new.rows), *new.argv),
        # Per window: `set -g window-size manual` crashes 3.3a-3.6b at the next new-session.
        command("set-option", "-w", "-t", target, "window-size", "manual"),
        command("pipe-pane", "-O", "-t", target, pipe_command(*new.pipe)),
        # On the pane itself: the exit status outlives what a script sets for all panes.
        command("set-option", "-p", "-t", target, "remain-on-exit", remain),
    ]


def _is_ours(target: str, options: Mapping[str, str]) -> list[bytes]:
    """The commands that make a pane a session's, and describe it."""
    return [
        *(command("set-option", "-p", "-t", target, f"@tmuxmcp_{option}", value) for option, value in options.items()),
        *(
            command("set-option", "-p", "-F", "-t", target, f"@tmuxmcp_{option}", form)
            for option, form in BORN_WITH.items()
        ),
        command("display-message", "-p", "-t", target, PANE_FORMAT),
    ]


SPARE_PREFIX = "_"
"""Begins the name of a tmux session whose pane is no session's yet, before that session's id."""

_HAS_NO_SESSION = "#{==:#{@tmuxmcp_id},}"


async def new_spare(tmux: Tmux, new: NewPane) -> str:
    """Make a pane that is no session's yet, and goes when its launcher does; return its id.

    Raises:
        TmuxFailed: tmux refused; nothing is left.
    """
    name = SPARE_PREFIX + new.options["id"]
    async with tmux.undisturbed():
        reply = await tmux.checked(
            *_make_commands(name, new, "off"), command("display-message", "-p", "-t", f"={name}:", "#{pane_id}")
        )
    return os.fsdecode(reply.lines[-1]) if reply.lines else ""


async def take_spare(tmux: Tmux, pane_id: str, new: NewPane) -> Pane | None:
    """Make a spare pane a session's, in one step; None: it is gone, and nothing was done.

    Raises:
        TmuxFailed: tmux refused, or did not answer.
    """
    name = new.options["id"]
    commands = [
        command("rename-session", "-t", pane_id, name),
        command("set-option", "-p", "-t", pane_id, "remain-on-exit", "on"),
        *_is_ours(pane_id, new.options),
    ]
    test = all_of(f"#{{==:#{{session_name}},{SPARE_PREFIX}{name}}}", _HAS_NO_SESSION, "#{?pane_dead,,1}")
    then = sequence(*commands, _SAY_OK)
    async with tmux.undisturbed():
        printed = _behind_guard(await _printed(tmux, command("if-shell", "-F", "-t", pane_id, test, then)))
    return parse(printed[-1]) if printed else None


THIS_PANE = "\x01"
"""Stands for the id of a pane that only who runs in it knows."""


def unless_taken(tmux: Tmux) -> list[str]:
    """A lock to hold, and the words that meanwhile end a spare pane; if it is a session's they only print something."""
    kill = f"kill-session -t {THIS_PANE}"
    words = [tmux.binary, "-N", "-u", "-S", str(tmux.socket), "if-shell", "-F", "-t", THIS_PANE, _HAS_NO_SESSION]
    return [str(tmux.lock), *words, kill, "display-message -p taken"]


class TakenNames(NamedTuple):
    """The names that a new session may not have, and how many sessions run."""

    names: set[str]
    """Of all tmux sessions, whoever made them, and ids of ours."""
    alive: int
    """Of how many of ours the program runs."""


async def taken(tmux: Tmux) -> TakenNames:
    """Which names are taken, and how many sessions there are: less than `list_panes`, for a moment that all wait for.

    Raises:
        TmuxFailed: tmux did not say.
    """
    form = "#{@tmuxmcp_id}|#{?pane_dead,,1}|#{session_name}"
    reply = await tmux.query(command("list-panes", "-a", "-F", form))
    if reply.failed or not reply.lines:  # our own connection has a pane
        raise TmuxFailed("tmux does not tell its sessions.")
    rows = [os.fsdecode(line).split("|", 2) for line in reply.lines]
    ids = {row[0] for row in rows}
    return TakenNames(ids | {row[-1] for row in rows}, sum(1 for row in rows if row[0] and row[1:2] == ["1"]))


async def has_session(tmux: Tmux, name: str) -> bool:
    """Whether there is a tmux session of exactly this name, whoever made it."""
    return not (await tmux.query(command("has-session", "-t", f"={name}"))).failed


async def list_panes(tmux: Tmux) -> list[Pane]:
    """All our panes."""
    reply = await tmux.query(command("list-panes", "-a", "-F", PANE_FORMAT))
    return [pane for line in reply.lines if (pane := parse(os.fsdecode(line)))]


async def known_ids(tmux: Tmux) -> set[str]:
    """Ids of all sessions that have a pane.

    Raises:
        TmuxFailed: tmux did not say.
    """
    reply = await tmux.checked(command("list-panes", "-a", "-F", "#{@tmuxmcp_id}"))
    return {os.fsdecode(line) for line in reply.lines if line}


async def attached(tmux: Tmux) -> set[str]:
    """Ids of the sessions that somebody looks at."""
    reply = await tmux.query(command("list-clients", "-F", "#{@tmuxmcp_id}"))
    return {os.fsdecode(line) for line in reply.lines if line}


async def find_pane(tmux: Tmux, pane_id: str, session_id: str) -> Pane | None:
    """One pane as it is now; None when it is gone or no longer ours.

    tmux calls a pane dead when its terminal closes, and learns the exit status a moment later: we wait for it.
    Built with libutempter, which it calls just then, it can miss SIGCHLD and leave the status for the next one.
    """
    pane: Pane | None = None
    dead_since: float | None = None
    while True:
        # Before tmux is asked: its answer, which may come late, is as old as that.
        launcher_exists = pane is not None and _exists(pane.leader)
        reply = await tmux.query(command("display-message", "-p", "-t", pane_id, PANE_FORMAT))
        pane = parse(os.fsdecode(reply.lines[0])) if reply.lines and not reply.failed else None
        if pane is None or pane.id != session_id:
            return None
        # 3.2 never tells a signal. The limit is for the status: tmux itself may be slower than that to answer.
        now = anyio.current_time()
        dead_since = now if dead_since is None else dead_since
        limit_s = STATUS_TO_COME_S if launcher_exists else STATUS_S
        if pane.status_known or _version(tmux) < (3, 3) or now - dead_since >= limit_s:
            return pane
        tmux.nudge()
        await anyio.sleep(0.002)


def _exists(pid: int) -> bool:
    """Whether the process exists; a zombie, whose parent has not waited for it, does."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return pid > 0


async def guarded(
    tmux: Tmux, pane: Pane, *commands: bytes, alive: bool = True, condition: str = "", first: bytes = b""
) -> list[str] | None:
    """Run `commands` only if the pane is still ours (and its program alive, and `condition` holds), atomically.

    Args:
        first: a command that is run in any case, before; it prints nothing.

    Returns:
        What the commands printed; None when they were not run.

    Raises:
        TmuxFailed: one of them failed.
    """
    check = _guard(pane.pane_id, pane.id, commands, alive=alive, condition=condition)
    return _behind_guard(await _printed(tmux, *([first] if first else []), check))


def _guard(pane_id: str, session_id: str, commands: Sequence[bytes], *, alive: bool, condition: str = "") -> bytes:
    """One command that runs these if the pane is still that session's, and then says `ok`."""
    test = all_of(f"#{{==:#{{@tmuxmcp_id}},{session_id}}}", "#{?pane_dead,,1}" if alive else "", condition)
    then = sequence(*commands, _SAY_OK)
    return command("if-shell", "-F", "-t", pane_id, test, then)


def all_of(*conditions: str) -> str:
    """A tmux format that holds while all of these hold; an empty one asks for nothing."""
    test, *others = filter(None, conditions)
    for each in others:
        test = f"#{{&&:{test},{each}}}"
    return test


def _behind_guard(printed: list[str] | None) -> list[str] | None:
    """What the commands behind a guard printed; None when they were not run."""
    return printed[:-1] if printed and printed[-1] == "ok" else None


async def _printed(tmux: Tmux, *commands: bytes) -> list[str] | None:
    """What commands printed; None when their pane is gone.

    Raises:
        TmuxFailed: one of them failed.
    """
    reply = await tmux.request(*commands)
    if reply.failed:
        said = reply.lines[-1].decode("utf-8", "replace") if reply.lines else ""
        if "can't find pane" in said:
            return None
        raise TmuxFailed(f"tmux refused: {said or 'no reason given'}.")
    return reply.text.split("\n") if reply.lines else []


def as_known(pane: Pane) -> str:
    """A tmux format that holds while the pane has the size, the modes and the launcher that it was last seen with.

    And nobody has given it back since, which would still have to be written down.
    """
    known = f"{pane.leader} {pane.cols} {pane.rows} {pane.alternate_screen:d} {pane.wants_mouse:d} "
    now = "#{pane_pid} #{pane_width} #{pane_height} #{alternate_on} #{mouse_any_flag} #{@tmuxmcp_given}"
    return f"#{{==:{now},{known}}}"


async def type_input(
    tmux: Tmux,
    pane: Pane,
    data: bytes,
    *,
    before: Sequence[bytes] = (),
    after: Sequence[bytes] = (),
    bracketed: bool = False,
    condition: str = "",
    left: InputLeftover = InputLeftover.LINE,
    program: str = "",
    adopting: str = "",
    ends: bool = False,
    person: bool = False,
    stamp: Stamp | None = None,
) -> bool:
    """Type keys and bytes in one guarded step; a person who scrolls in copy mode does not swallow them.

    Args:
        before, after: tmux commands around the bytes, made by `keys`, `raw` or `command`.
        bracketed: mark the bytes as a paste, if the program has asked for that.
        condition: a format that must hold as well.
        left: what it leaves behind, which the same step writes down.
        program: which program is to read it, written down as well: digits and small letters; empty: not known.
        adopting: what must be known of a shell that is being adopted there; empty: none is.
        ends: it only ends what a call had begun, and is typed though somebody holds the pane by now.
        person: who holds the pane types it, as in a terminal that is attached; `condition` says that they hold it.
        stamp: of the call that types it, if that has an id: then it is typed once at most.

    Returns:
        False when nothing was typed: the pane is gone, dead, or the condition does not hold.

    Raises:
        SessionTaken: nothing was typed, as a person holds the pane, or it is paused.
        TmuxFailed: nothing was typed, as somebody has switched input off (tmux would drop it without a word).
    """
    # An adoption waits while somebody holds the pane.
    adopts = "" if person else f"#{{==:#{{@tmuxmcp_adopting}},{adopting}}}"
    condition = all_of("" if ends or person else IS_FREE, "#{?pane_input_off,,1}", adopts, condition)
    steps = [command("if-shell", "-F", "-t", pane.pane_id, "#{pane_in_mode}", f"copy-mode -q -t {pane.pane_id}")]
    typed = f"{int(since_boot_s() * 1000)}-{left.value}{f'-{program}' * bool(program)}"
    steps.append(remember(pane, "typed", typed))
    if stamp:
        condition = all_of(_says(stamp.before), condition)
        steps.append(command("set-option", "-p", "-t", pane.pane_id, "@tmuxmcp_request", stamp.after))
    if not data:
        done = await guarded(tmux, pane, *steps, *before, *after, condition=condition)
        return done is not None or await _not_typed(tmux, pane, person)
    buffer = f"tmuxmcp-{os.getpid()}-{next(_numbers)}"
    paste = ["paste-buffer", "-d", "-r", "-b", buffer, "-t", pane.pane_id]
    paste += ["-p"] if bracketed else []
    paste += ["-S"] if _version(tmux) >= (3, 7) else []  # 3.7 escapes control bytes otherwise
    steps += [*before, command(*paste), *after]
    if len(data) <= INLINE_BYTES and b"\0" not in data:
        load = command("set-buffer", "-b", buffer, b"--", data)
        done = await guarded(tmux, pane, *steps, condition=condition, first=load)
    else:
        async with tmux.readable(data) as path:
            load = command("load-buffer", "-b", buffer, path)
            done = await guarded(tmux, pane, *steps, condition=condition, first=load)
    if done is None:
        await tmux.request(command("delete-buffer", "-b", buffer))
    return done is not None or await _not_typed(tmux, pane, person)


async def _not_typed(tmux: Tmux, pane: Pane, person: bool) -> bool:
    now = await find_pane(tmux, pane.pane_id, pane.id)
    if now and now.lease and not now.dead and not person:
        raise taken_error(pane.id, now.lease)
    if now and now.input_off and not now.dead:
        raise TmuxFailed(
            f"Nothing was typed: somebody has switched off the input of session {pane.id} (select-pane -d).",
            hint=f"Switch it on: tmux -S {shlex.quote(str(tmux.socket))} select-pane -e -t {pane.pane_id}",
        )
    return False


def _version(tmux: Tmux) -> TmuxVersion:
    return version_of(tmux.version) or (99, 0, "")


def keys(pane: Pane, names: Sequence[str]) -> bytes:
    """The command that presses keys; tmux then honours application cursor mode."""
    return command("send-keys", "-t", pane.pane_id, "--", *names)


def raw(pane: Pane, data: bytes) -> bytes:
    """The command that types a few bytes as they are."""
    return command("send-keys", "-t", pane.pane_id, "-H") + (b" " + data.hex(" ").encode() if data else b"")


def raw_pieces(pane: Pane, data: bytes) -> list[bytes]:
    """The commands that type bytes as they are, each of them `RAW_BYTES` at most."""
    return [raw(pane, data[at : at + RAW_BYTES]) for at in range(0, len(data), RAW_BYTES)]


def raw_words(pane: Pane, data: bytes) -> list[bytes]:
    """The commands that type bytes as they are; long words of letters and digits are one argument each.

    tmux takes two microseconds to read the number of each other byte.
    """
    parts = [part for part in _WORD.split(data) if part]
    target = ("send-keys", "-t", pane.pane_id)
    return [command(*target, "-l", part) if _WORD.fullmatch(part) else raw(pane, part) for part in parts]


def cursor_key(pane: Pane, data: bytes) -> bytes:
    """The command that types a cursor key's sequence: ESC O x to a program in application cursor mode, else ESC [ x."""
    if not data.startswith(b"\x1bO"):
        return raw(pane, data)
    normal = raw(pane, b"\x1b[" + data[2:])
    return command("if-shell", "-F", "-t", pane.pane_id, "#{keypad_cursor_flag}", raw(pane, data), normal)


async def capture_pane(tmux: Tmux, pane: Pane) -> tuple[Pane, list[str]] | None:
    """The pane and its visible rows with their colours (SGR, and SO/SI around line drawing), at one moment."""
    printed = await _printed(tmux, _capture(pane.pane_id))
    now = parse(printed[-1]) if printed else None
    if now is None or now.id != pane.id:
        return None
    if not now.status_known:
        now = await find_pane(tmux, pane.pane_id, pane.id)
    return (now, printed[:-1]) if now and printed else None


@lru_cache(maxsize=256)
def _capture(pane_id: str) -> bytes:
    """The commands that print a pane's rows, and last the pane in `PANE_FORMAT`: its line says whose pane it was."""
    rows = command("capture-pane", "-p", "-e", "-N", "-t", pane_id)
    facts = command("display-message", "-p", "-t", pane_id, PANE_FORMAT)
    return sequence(rows, facts)


async def capture_both_screens(tmux: Tmux, pane: Pane, form: str) -> list[str] | None:
    """A line in this format, the visible rows and, while the alternate screen is on, the rows of the main screen.

    All of it at one moment; None when the pane is gone.
    """
    return await guarded(tmux, pane, *_both_screens(pane, form), alive=False)


def _both_screens(pane: Pane, form: str) -> tuple[bytes, ...]:
    capture = ("capture-pane", "-p", "-e", "-N", "-t", pane.pane_id)
    facts = command("display-message", "-p", "-t", pane.pane_id, form)
    return facts, command(*capture), command(*capture, "-a", "-q")


@value
class LineOfCursor:
    """The line that the cursor is in, and what is known of who typed."""

    row: str
    above: tuple[str, ...]
    """Rows above it that are as wide as the pane: the line may begin there."""
    cursor_col: int
    cursor_row: int
    last_input: LastInput | None
    """None: somebody has changed what we wrote down of it."""
    front: str
    """Our variable `front`."""
    still: str
    """A tmux format that holds as long as nothing else is typed."""
    person_at: int
    """When a person last pressed a key in a tmux that showed it, or attached, in seconds since 1970; 0: nobody did."""
    version: TmuxVersion = OLDEST_VERSION
    """Of the tmux that counts its columns."""


_PERSON_AT = "#{?session_last_attached,#{session_activity},0}"
_CURSOR_FORMAT = f"#{{cursor_x}} #{{cursor_y}} #{{pane_width}} {_PERSON_AT} "


async def line_of_cursor(tmux: Tmux, pane: Pane) -> LineOfCursor | None:
    """The cursor's line, without colours, and who typed last, at one moment; None when the pane is gone."""
    target, now = ("-t", pane.pane_id), f"{_CURSOR_FORMAT}|{remembered(pane, 'typed')}|{remembered(pane, 'front')}"
    printed = await guarded(
        tmux, pane, command("display-message", "-p", *target, now), command("capture-pane", "-p", "-N", *target)
    )
    if not printed:
        return None
    place, typed, front = printed[0].split("|", 2)
    col, row, cols, person = (int(word or 0) for word in place.split())
    rows, version = printed[1:], version_of(tmux.version) or OLDEST_VERSION
    above = list(takewhile(lambda each: text_width(each, version) >= cols, reversed(rows[:row])))
    last_input = LastInput.parse(typed)
    still = f"#{{==:{remembered(pane, 'typed')},{last_input.option if last_input else ''}}}"
    line = rows[row] if row < len(rows) else ""
    return LineOfCursor(line, tuple(reversed(above)), col, row, last_input, front, still, person, version)


@value
class MouseModes:
    """The mouse events that a pane's program has asked for."""

    any: bool
    drag: bool
    """Movements while a button is held (mode 1002)."""
    all: bool
    """All movements (mode 1003)."""
    sgr: bool
    """In the SGR encoding (mode 1006)."""


async def mouse_modes(tmux: Tmux, pane: Pane) -> MouseModes:
    """The mouse events that the pane's program has asked for; none where the pane is gone."""
    flags = ("mouse_any_flag", "mouse_button_flag", "mouse_all_flag", "mouse_sgr_flag")
    form = "|".join(f"#{{{flag}}}" for flag in flags)
    printed = await guarded(tmux, pane, command("display-message", "-p", "-t", pane.pane_id, form))
    return MouseModes(*[value == "1" for value in (printed[0] if printed else "|||").split("|")])


async def resize_window(tmux: Tmux, pane: Pane, cols: int, rows: int, form: str) -> tuple[list[str], list[str]] | None:
    """Set the size; give both screens, as `capture_both_screens` does, before it and after it: nothing is in between.

    None when the pane is gone, or somebody holds it.
    """
    resize = command("resize-window", "-t", pane.pane_id, "-x", str(cols), "-y", str(rows))
    look, mark = _both_screens(pane, form), secrets.token_hex(16)  # no program can print it
    middle = command("display-message", "-p", mark)
    printed = await guarded(tmux, pane, *look, middle, resize, *look, alive=False, condition=IS_FREE)
    if printed is None:
        return None
    at = printed.index(mark)
    return printed[:at], printed[at + 1 :]


async def set_option(tmux: Tmux, pane: Pane, name: str, value: str, condition: str = "") -> bool:
    """Set one of our options; False when the pane is gone or the condition does not hold."""
    change = command("set-option", "-p", "-t", pane.pane_id, f"@tmuxmcp_{name}", value)
    return await guarded(tmux, pane, change, alive=False, condition=condition) is not None


async def option(tmux: Tmux, pane: Pane, name: str) -> str:
    """One of our options as it is now; empty when it is not set or the pane is gone."""
    printed = await guarded(tmux, pane, command("display-message", "-p", "-t", pane.pane_id, f"#{{@tmuxmcp_{name}}}"))
    return printed[0] if printed else ""


async def stamped(tmux: Tmux, pane: Pane) -> str | None:
    """What `@tmuxmcp_request` says, of a dead pane too; None when the pane is gone."""
    asks = command("display-message", "-p", "-t", pane.pane_id, "#{@tmuxmcp_request}")
    printed = await guarded(tmux, pane, asks, alive=False)
    if printed is None:
        return None
    said = printed[0] if printed else ""
    if _STAMPED_ID.fullmatch(said):
        return said
    await set_option(tmux, pane, "request", "")  # somebody else's, which may stand in no format
    return ""


async def never_types(tmux: Tmux, pane: Pane, stamp: Stamp) -> bool:
    """Decide that a call did not type and never will; False where it has typed, or that cannot be decided."""
    return await set_option(tmux, pane, "request", stamp.void, condition=_says(stamp.before))


def _says(stamp: str) -> str:
    assert _STAMPED_ID.fullmatch(stamp)
    return f"#{{==:#{{@tmuxmcp_request}},{stamp}}}"


def remember(pane: Pane, name: str, value: str) -> bytes:
    """The command that writes down what changes with every command: in a hidden variable of the tmux server.

    An option would do as well, but tmux draws the whole screen of everybody who is attached whenever one is set.
    """
    return command("set-environment", "-gh", _variable(pane, name), value)


def remembered(pane: Pane, name: str) -> str:
    """The tmux format of what was written down; empty where nothing was."""
    return f"#{{{_variable(pane, name)}}}"


async def recall(tmux: Tmux, pane: Pane, name: str) -> str:
    """What was written down, as it is now; empty where nothing was, or the pane is gone."""
    printed = await guarded(tmux, pane, command("display-message", "-p", "-t", pane.pane_id, remembered(pane, name)))
    return printed[0] if printed else ""


def _variable(pane: Pane, name: str) -> str:
    return f"TMUXMCP_{name.upper()}_{pane.pane_id.removeprefix('%')}"


PANE_VARIABLES = ("typed", "claim", "front")
"""What is written down of a pane in variables."""


def _forget(pane: Pane) -> list[bytes]:
    return [command("set-environment", "-gu", _variable(pane, name)) for name in PANE_VARIABLES]


async def pipe_again(tmux: Tmux, pane: Pane, sink: Sequence[str], number: int) -> bool:
    """Put our sink back, once: two brokers that notice together do it one time, by the sink's number.

    Args:
        number: of the new sink.

    Returns:
        True when it was we who did it.
    """
    seen = pane.options["sink"]
    done = await guarded(
        tmux,
        pane,
        command("set-option", "-p", "-t", pane.pane_id, "@tmuxmcp_sink", str(number)),
        command("pipe-pane", "-O", "-t", pane.pane_id, pipe_command(*sink)),
        condition=f"#{{==:#{{@tmuxmcp_sink}},{seen}}}" if re.fullmatch(r"\w*", seen) else "",
    )
    return done is not None


async def kill_session(tmux: Tmux, pane: Pane) -> bool:
    """End the pane, wherever it is by now, and the tmux session that was made for it; False when it is gone already.

    What a script opened in that tmux session ends with it, another session's pane that it moved there does not.
    """
    home = pane.options["home"]
    end = []
    if re.fullmatch(r"\$\d+", home):  # for an empty target tmux would choose a session
        ours_alone = f"#{{==:#{{W:#{{P:#{{@tmuxmcp_id}}}}}},{pane.id}}}"
        end = [command("if-shell", "-F", "-t", f"{home}:", ours_alone, command("kill-session", "-t", home))]
    async with tmux.undisturbed():
        was_there = await guarded(tmux, pane, *end, alive=False) is not None
        # It is still there when it was moved, or its window linked to another tmux session.
        left = await guarded(tmux, pane, command("kill-pane", "-t", pane.pane_id), alive=False) is not None
        if was_there or left:
            await tmux.request(*_forget(pane))
    return was_there or left


def options_of(
    *,
    session_id: str,
    program: str,
    args: Sequence[str],
    created: str,
    owner: str,
    log: str,
    scrollback: int,
    nonce: str,
) -> dict[str, str]:
    """The options of a new pane; texts from outside as JSON in ASCII, so that no format line breaks."""
    return {
        "id": session_id,
        "program": _json(program),
        "args": _json(list(args)),
        "created": created,
        "owner": owner,
        "log": _json(log),
        "sink": "1",
        "scrollback": str(scrollback),
        "nonce": nonce,
    }


def _json(value: str | list[str]) -> str:
    """In ASCII, on one line, without the bar between the fields of `PANE_FORMAT`."""
    return json.dumps(value).replace("|", "\\u007c")
