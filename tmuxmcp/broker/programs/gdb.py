"""Debuggers: gdb by GDB/MI, each with a session as the terminal of what it debugs.

gdb runs below a supervisor, as `run_process` has it: it and all that it starts end with the broker, however that ends.
With a sandbox in the settings gdb is inside, and so is whatever its commands run; its session's terminal is lent to it.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Literal

import anyio
from anyio.abc import TaskStatus

from tmuxmcp.broker import lifecycle
from tmuxmcp.broker.lifecycle import create_session
from tmuxmcp.broker.programs import inside
from tmuxmcp.broker.programs.machine import MachineWork, environment
from tmuxmcp.broker.reading import clamp
from tmuxmcp.broker.verbs import Services, Work, verb
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call, begin
from tmuxmcp.contract.errors import (
    FileMissing,
    InvalidArgument,
    IoError,
    PathOutsideRoot,
    PolicyDenied,
    ResourceLimit,
    TimedOut,
    TmuxMcpError,
)
from tmuxmcp.contract.settings import Limits
from tmuxmcp.contract.value import field, replace, value
from tmuxmcp.machine import process
from tmuxmcp.machine.cgroup import rlimits
from tmuxmcp.machine.environment import find_cwd, find_program
from tmuxmcp.machine.launch import launch
from tmuxmcp.machine.process import PIPE_BYTES
from tmuxmcp.sessions import lease
from tmuxmcp.sessions.life import EndCause
from tmuxmcp.sessions.session import Session

log = logging.getLogger(__name__)

MOST_DEBUGGERS = 8
"""Debuggers of a broker at once."""

OPEN_S = 60.0
"""For gdb to read the symbols."""

INTERRUPT_S = 0.2
"""For gdb to take an interruption as a command."""

SESSION_ENDED_LOOK_S = 0.5
"""How soon gdb ends after its session, and a wait when a person takes that."""

UNTOLD_BYTES = 64 * 1024
"""Of text, and of records, until they are told."""

RECORD_BYTES = 1024 * 1024
"""Bytes of a record; a longer one is not told."""

GDB_SETUP = (
    "confirm off",
    "pagination off",
    "auto-load off",  # what lies beside the program is not run
    "debuginfod enabled off",
    "style enabled off",
    "history save off",
    "mi-async on",  # so that gdb listens while the program runs
)
HOLD_TERMINAL_CODE = """\
trap '' INT QUIT TSTP
n=0
until [ -p "$1" ]; do n=$((n + 1)); [ $n -lt 100 ] || exit; sleep 0.1; done
read -r end <"$1"
"""
"""Holds a terminal until nobody has a pipe open for writing any more, or makes none. No key ends it."""

HELD_BY = "gdb"
"""Name of that pipe."""

UNQUOTED_ARGUMENT = re.compile(r"[A-Za-z0-9_./:=,+@%-]+")
"""Arguments that come through gdb as they are without a shell: it splits at blanks, whatever quotes say."""

MORE_LINES = re.compile(r"(commands|define|document|while|if|actions|python-interactive|pi|(python|py|guile|gu)$)\b")
"""What reads further lines would take the next commands for them."""

GDB_QUITS = re.compile(r"(q|quit|exit|-gdb-exit)( .*)?")
"""gdb ends without an answer."""

NO_SUCH_GDB = "gdb_open starts one. Those of other clients, and of before a restart, are not known."


@value(frozen=False)
class Debugger:
    """One gdb."""

    gdb_id: str
    caller: str
    session: Session
    held: int = -1
    """The pipe whose end ends the session."""
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    over: anyio.Event = field(default_factory=anyio.Event)
    """It is to end, or has ended."""
    gone: anyio.Event = field(default_factory=anyio.Event)
    running: bool = False
    answered: int = 0
    """The last command with a result."""
    _token: int = 0
    _input: int = -1
    _child: process.SupervisorChild | None = None
    _heard: anyio.Event = field(default_factory=anyio.Event)
    _records: list[MiRecord] = field(default_factory=list)
    _text: list[str] = field(default_factory=list)
    _kept: list[int] = field(default_factory=lambda: [0, 0])
    _truncated: bool = False
    _stopped: MiRecord | None = None

    async def keep(
        self, started: AbstractAsyncContextManager[process.SupervisorChild], *, task_status: TaskStatus[None]
    ) -> None:
        """Run gdb until it, its session or the broker ends; its session ends with it.

        Raises:
            TmuxMcpError: it did not start.
        """
        begun = False
        try:
            async with started as child:
                assert child.process.stdin
                self._child = child
                self._input = child.process.stdin.fileno()
                async with anyio.create_task_group() as tg:
                    tg.start_soon(self._read, child.stdout)
                    tg.start_soon(_drain, child.stderr)
                    tg.start_soon(self._mind_session)
                    begun = True
                    task_status.started()
                    await self.over.wait()
                    tg.cancel_scope.cancel()
        except Exception:
            if not begun:
                raise
            log.exception("a debugger failed")  # no reason to end the broker
        finally:
            self._input, self._child = -1, None
            self.let_go()
            self._heard.set()
            self.gone.set()

    def let_go(self) -> None:
        """Let its session end."""
        self.over.set()
        if self.held >= 0:
            os.close(self.held)
            self.held = -1

    async def command(self, command: str, timeout_s: float) -> r.GdbCmdResult:
        """Give gdb a command, and wait for its result, and for a stop if the program runs by it; empty: only wait.

        Raises:
            SessionTaken: a person holds its session.
            TimedOut: gdb took no command for so long.
            IoError: gdb has ended, and did not answer.
        """
        async with self.lock:
            token, sent, done, taken = self._token, False, False, False
            waits = not command or command.split()[0] in ("interrupt", "-exec-interrupt")
            if command:
                await self.session.refresh()
                lease.refuse(self.session)  # nothing is waited for from here to the first byte
                begin()
            with anyio.move_on_after(timeout_s):
                if command:
                    await self._write(line_of(token + 1, command))
                    sent, token = True, token + 1
                    self._token = token
                    if waits:
                        await self._interrupt(token)
                ran, held = self.running, self.session.lease
                while not self.over.is_set():
                    heard = self._heard = anyio.Event()
                    answered = self.answered >= token
                    begun = self.running and (not ran or _resumed(self._records))
                    if answered and not begun and not (waits and self.running):
                        done = True
                        break
                    if self.session.lease not in (None, held):
                        taken = True
                        break
                    await heard.wait()
            ended = self.over.is_set()
            if command and not (sent or ended):
                raise TimedOut("gdb took no command for so long, so this one was not sent.", hint="Try again later.")
            if ended and self.answered < token and not GDB_QUITS.fullmatch(command):
                raise IoError("gdb has ended and did not answer.", hint="gdb_open starts another one.")
            return self._new_output(_note(ended, taken, done or self.answered >= token, self.running and not ended))

    def _new_output(self, note: str | None) -> r.GdbCmdResult:
        """All that has come since the last time."""
        told = r.GdbCmdResult(
            stopped=_stopped(self._stopped) if self._stopped else None,
            running=self.running and not self.over.is_set(),
            truncated=self._truncated,
            note=note,
            text="".join(self._text),
            records=[r.GdbRecord(type=each.kind, name=each.name, results=each.results)  # type: ignore[arg-type]  # no stream
                     for each in self._records],
        )  # fmt: skip
        self._records, self._text, self._kept, self._truncated, self._stopped = [], [], [0, 0], False, None
        return told

    async def _interrupt(self, token: int) -> None:
        """Have gdb stop what it does, if it does not hear: commands of its console that wait are not put off."""
        with anyio.move_on_after(INTERRUPT_S):
            while self.answered < token and not self.over.is_set():
                heard = self._heard = anyio.Event()
                await heard.wait()
        if self.answered < token and self._child:
            await self._child.interrupt()

    async def _write(self, line: str) -> None:
        """Write all of it or nothing: half a line would become part of the next one, so gdb is ended instead."""
        data = line.encode("utf-8", "surrogateescape")
        view = memoryview(data)
        try:
            while view and self._input >= 0:
                try:
                    view = view[os.write(self._input, view) :]
                except BlockingIOError:
                    await anyio.wait_writable(self._input)
        except OSError:
            self.over.set()
        finally:
            if 0 < len(view) < len(data):
                self.over.set()

    async def _read(self, fd: int) -> None:
        """Take what gdb says, always: it never waits for us."""
        rest, skips = b"", False
        while True:
            await anyio.wait_readable(fd)
            try:
                piece = os.read(fd, PIPE_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                piece = b""
            if not piece:
                break
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if not skips:
                    self._take(parse(line.decode("utf-8", "backslashreplace").rstrip("\r")), len(line))
                skips = False
            if len(rest) > RECORD_BYTES:
                rest, skips, self._truncated = b"", True, True
            self._heard.set()
        self.over.set()
        self._heard.set()

    def _take(self, record: MiRecord, size: int) -> None:
        match record.kind, record.name:
            case "result", _:
                self.answered = max(self.answered, record.token or 0)
            case "exec", "running":
                self.running = True
            case "exec", "stopped":
                self.running, self._stopped = False, record
            case "prompt", _:
                return
        stream = record.kind in ("console", "target", "log")
        self._kept[stream] += size
        if self._kept[stream] > UNTOLD_BYTES and record.kind not in ("result", "exec"):
            self._truncated = True
        elif stream:
            self._text.append(record.text)
        elif record.kind == "other":
            self._records.append(MiRecord("other", results={"text": record.text}))
        else:
            self._records.append(record)

    async def _mind_session(self) -> None:
        while not self.session.exited:
            await anyio.sleep(SESSION_ENDED_LOOK_S)
            await self.session.refresh()
            if self.session.lease:
                self._heard.set()
        self.over.set()
        self._heard.set()


@verb(q.GdbOpen, inside=True)
async def gdb_open(work: Work[q.GdbOpen]) -> r.GdbOpenResult:
    """Start gdb."""
    return await work.broker.part(Debuggers).start(work.request, work.call)


@verb(q.GdbCmd, inside=True)
async def gdb_cmd(work: Work[q.GdbCmd]) -> r.GdbCmdResult:
    """Give gdb a command."""
    debuggers = work.broker.part(Debuggers)
    return await debuggers.command(work.request, debuggers.of(work.request.gdb_id, work.call))


@verb(q.GdbClose, inside=True)
async def gdb_close(work: Work[q.GdbClose]) -> r.GdbCloseResult:
    """End gdb, and its session."""
    debuggers = work.broker.part(Debuggers)
    debugger = debuggers.of(work.request.gdb_id, work.call)
    await debuggers.settle(debugger.session)
    lease.refuse(debugger.session)
    await debuggers.close(debugger)
    return r.GdbCloseResult(gdb_id=debugger.gdb_id, closed=debugger.gone.is_set())


class Debuggers:
    """All debuggers of a broker."""

    def __init__(self, broker: Services) -> None:
        self._broker, self._settings, self._boundary = broker, broker.settings, broker.boundary
        self._machine = broker.part(MachineWork)
        self._open: dict[str, Debugger] = {}
        self._opening = 0

    def of(self, gdb_id: str, call: Call) -> Debugger:
        """A caller's debugger.

        Raises:
            InvalidArgument: there is none of this id.
        """
        self._open = {each.gdb_id: each for each in self._open.values() if not each.gone.is_set()}
        found = self._open.get(gdb_id)
        if not found or not (call.person or found.caller == call.caller):
            raise InvalidArgument(f"There is no debugger {gdb_id!r}, or it has ended.", hint=NO_SUCH_GDB)
        return found

    async def command(self, request: q.GdbCmd, debugger: Debugger) -> r.GdbCmdResult:
        """Give one a command.

        Raises:
            TmuxMcpError: as the request's docstring has it.
        """
        if MORE_LINES.match(request.command.strip()):
            raise InvalidArgument(
                "This command reads further lines, and there are none.",
                hint='For a breakpoint\'s commands: -break-commands 1 "print x" "continue".',
            )
        allowed_ms, _ = clamp(self._settings, request.timeout_ms)
        await self.settle(debugger.session)
        told = await debugger.command(request.command.strip(), allowed_ms / 1000)
        if debugger.over.is_set():
            await self.close(debugger)
        return told

    async def settle(self, session: Session) -> None:
        """See who holds it: not whoever has gone."""
        await session.refresh()
        if session.lease:
            await lease.settle(session, self._settings.take_timeout_s)

    async def start(self, request: q.GdbOpen, call: Call) -> r.GdbOpenResult:
        """Start one.

        Raises:
            TmuxMcpError: as the request's docstring has it.
        """
        level = await anyio.to_thread.run_sync(self._boundary.level)
        argv = await self._argv(request)
        alive = [each for each in self._open.values() if not each.gone.is_set()]
        if len(alive) + self._opening >= MOST_DEBUGGERS:
            raise ResourceLimit(f"{MOST_DEBUGGERS} debuggers are open.", hint="End one with gdb_close.")
        self._opening += 1
        try:
            session, held = await self._lend(call)
            debugger = Debugger(f"gdb_{secrets.token_hex(4)}", call.caller, session, held)
            try:
                started = self._started(argv, session)
                assert self._broker.tasks
                await self._broker.tasks.start(lambda *, task_status: debugger.keep(started, task_status=task_status))
                text = await self._begin(debugger, request)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self.close(debugger)
                raise
            self._open[debugger.gdb_id] = debugger
        finally:
            self._opening -= 1
        note = inside.NO_FILES_APART_NOTE if level == "limits" else None
        return r.GdbOpenResult(
            gdb_id=debugger.gdb_id, session_id=session.id, sandbox=session.bounds.sandbox, note=note, text=text
        )

    async def _lend(self, call: Call) -> tuple[Session, int]:
        """A session for the program's terminal, and the pipe that keeps it there: it ends when that is closed."""
        name = f"sess_{secrets.token_hex(4)}"
        registry, confined = self._broker.registry, self._machine.is_inside
        directory = registry.directory(name).resolved()
        pipe = (directory.within if confined else directory.path) / HELD_BY
        asked = q.CreateSession("sh", ["-c", HOLD_TERMINAL_CODE, "sh", str(pipe)], name=name, wait_ready=False)
        made = await create_session(Work(self._broker, asked, call))
        session = registry.sessions[made.session_id]
        try:
            os.mkfifo(pipe, 0o600)
            return session, os.open(pipe, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            await self._end(session)
            raise IoError(f"The terminal cannot be held: {error.strerror}.") from None

    @asynccontextmanager
    async def _started(self, argv: list[str], session: Session) -> AsyncIterator[process.SupervisorChild]:
        """gdb at work, in the settings' sandbox if there is one; afterwards it is gone with all that it started."""
        assert session.pane
        async with inside.child(self._boundary, session.pane.tty) as (box, temporary):
            cwd = find_cwd(self._settings.files_root or self._settings.cwd)
            if box.level != "none" and not await anyio.to_thread.run_sync(self._reaches, cwd):
                cwd = temporary
            env = environment(self._settings) | box.env | {"TERM": self._settings.term}
            if "set startup-with-shell on" in argv:
                env |= {"SHELL": "/bin/sh"}
            limits = rlimits(Limits().within(self._settings.limits))
            program = replace(
                process.find(argv, cwd=cwd, env=env, rlimits=limits), box=box, code=str(launch.LAUNCH_ROOM)
            )
            async with process.started(program) as child:
                yield child

    def _reaches(self, path: str) -> bool:
        """Whether a path is to be seen in the settings' sandbox."""
        try:
            inside.reached(self._boundary, [*self._boundary.everywhere()], path, False)
        except PathOutsideRoot:
            return False
        return True

    async def _begin(self, debugger: Debugger, request: q.GdbOpen) -> str:
        """Give the program its terminal, and attach; what gdb said meanwhile.

        Raises:
            InvalidArgument: gdb cannot attach.
            TimedOut
        """
        assert debugger.session.pane
        terminal = inside.terminal_within(debugger.session.bounds.sandbox, debugger.session.pane.tty)
        commands = [f"-inferior-tty-set {terminal}", "unset environment LINES"]
        commands += ["unset environment COLUMNS", *([f"-target-attach {request.pid}"] if request.pid else [])]
        said = ""
        with anyio.move_on_after(OPEN_S) as waiting:
            for command in commands:
                told = await debugger.command(command, OPEN_S)
                said += told.text
                for each in told.records:
                    if (each.type, each.name) == ("result", "error"):
                        raise InvalidArgument(f"gdb refused {command}: {each.results.get('msg')}")
        if waiting.cancelled_caught or debugger.answered < len(commands):
            raise TimedOut(f"gdb was not ready within {OPEN_S:g} s.")
        return said

    async def _argv(self, request: q.GdbOpen) -> list[str]:
        """gdb and its arguments.

        Raises:
            FileMissing, InvalidArgument, PathOutsideRoot, PolicyDenied, ProgramNotFound
        """
        if not (request.path or request.core or request.pid) or (request.core and request.pid):
            raise InvalidArgument("What is to be debugged?", hint="Give path, or pid, or a core with its path.")
        if any("\0" in each or "\n" in each for each in request.args):
            raise InvalidArgument("An argument cannot hold a newline or NUL here.")
        if request.args and not request.path:
            raise InvalidArgument("args needs path.")
        if request.pid and self._machine.is_inside:
            raise PolicyDenied(
                "gdb is in a sandbox, from where it can attach to nothing outside.",
                hint="Give path, so that gdb starts the program itself.",
            )
        path, core = [await anyio.to_thread.run_sync(self._real, each) for each in (request.path, request.core)]
        plain = all(UNQUOTED_ARGUMENT.fullmatch(each) for each in request.args)
        begin = [*GDB_SETUP, f"startup-with-shell {'off' if plain else 'on'}"]
        argv = ["gdb", "-nx", "-nh", "-q", "--interpreter=mi3"]
        argv += [word for each in begin for word in ("-iex", f"set {each}")]
        argv += [f"--core={core}"] if core else []
        argv += ["--args", path, *request.args] if path else []
        find_program("gdb", environment(self._settings)["PATH"], "/")
        return argv

    def _real(self, path: str) -> str:
        """Where a path leads; beneath files_root, if that is set."""
        if not path:
            return ""
        if "\0" in path:
            raise InvalidArgument("A path holds no NUL.")
        if self._machine.is_inside:
            inside.reached(self._boundary, [*self._boundary.everywhere()], path, False)
        root = os.path.realpath(self._settings.files_root) if self._settings.files_root else ""
        real = os.path.realpath(self._machine.absolute(path))
        if root and not real.startswith(root.rstrip("/") + "/"):
            raise PathOutsideRoot(f"{path!r} leads out of {root}.", hint="Give a path beneath files_root.", path=path)
        if not os.path.isfile(real):
            raise FileMissing(f"There is no file {path!r}.", hint="Give the program or the core file.", path=path)
        return real

    async def close(self, debugger: Debugger) -> None:
        """End one, and its session."""
        debugger.over.set()
        with anyio.move_on_after(process.TERM_GRACE_S + process.SUPERVISOR_SLACK_S):
            await debugger.gone.wait()
        debugger.let_go()
        await self._end(debugger.session)
        self._open.pop(debugger.gdb_id, None)

    async def _end(self, session: Session) -> None:
        with suppress(TmuxMcpError):
            await lifecycle.end(self._broker, session, EndCause.DESTROYED, "KILL", 0)


async def _drain(fd: int) -> None:
    """gdb says all by its records; what else comes must not fill the pipe."""
    while True:
        await anyio.wait_readable(fd)
        try:
            if not os.read(fd, PIPE_BYTES):
                return
        except BlockingIOError:
            continue


def _resumed(records: list[MiRecord]) -> bool:
    return any(each.kind == "exec" and each.name == "running" for each in records)


def _note(ended: bool, taken: bool, answered: bool, running: bool) -> str | None:
    if ended:
        return "gdb has ended, and with it what it had started."
    if taken:
        return "A person has taken the program's session over. What was begun goes on; an empty command waits for it."
    if not answered:
        return "gdb has not answered yet; its answer comes with the next command."
    return "The program runs. interrupt stops it; an empty command waits until it stops." if running else None


def _stopped(record: MiRecord) -> r.GdbStopped:
    found: dict[str, Any] = record.results
    frame, code = found.get("frame"), found.get("exit-code")
    return r.GdbStopped(
        reason=found.get("reason"),
        frame=frame if isinstance(frame, dict) else None,
        exit_code=int(code, 8) if code else None,  # gdb tells it in octal
        signal=found.get("signal-name"),
        thread_id=found.get("thread-id"),
    )


# ---- Records of GDB/MI (GDB manual, "GDB/MI Output Syntax") as values, and commands as lines. Pure -------------------
#
# The grammar is short, and what gdb prints departs from it: a breakpoint's commands are a tuple without names, names
# repeat within tuples. pygdbmi 0.11 raises TypeError at the first of these and keeps no names of results in lists.

RecordType = Literal["result", "exec", "status", "notify", "console", "target", "log", "prompt", "other"]

RECORD_KINDS: dict[str, RecordType] = {"^": "result", "*": "exec", "+": "status", "=": "notify"}
STREAMS: dict[str, RecordType] = {"~": "console", "@": "target", "&": "log"}

RECORD = re.compile(r"(?P<token>\d*)(?P<mark>[\^*+=])(?P<name>[\w-]+)(?P<rest>,.*)?", re.DOTALL)
FIELD_NAME = re.compile(r"[^=,{}\[\]\"]+(?==)")
C_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
C_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
ESCAPED_LETTERS = {
    b"n": b"\n",
    b"t": b"\t",
    b"r": b"\r",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
    b"a": b"\a",
    b"e": b"\x1b",
}


@value
class MiRecord:
    """One line of gdb's."""

    kind: RecordType
    name: str = ""
    """Its class: `done`, `error`, `stopped`, ..."""
    token: int | None = None
    """Of the command that it answers."""
    results: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    """Of a stream; of what is no record the line itself."""


def parse(line: str) -> MiRecord:
    """One line, without its end; what is no record is kind `other`."""
    if line.rstrip() == "(gdb)":
        return MiRecord("prompt")
    try:
        if line[:1] in STREAMS and line:
            text, end = _string(line, 1)
            return MiRecord(STREAMS[line[0]], text=text) if end == len(line) else MiRecord("other", text=line)
        if found := RECORD.fullmatch(line):
            results, end = _results(line, found.end("name"))
            if end == len(line):
                token = int(found["token"]) if found["token"] else None
                return MiRecord(RECORD_KINDS[found["mark"]], found["name"], token, results)
    except (ValueError, RecursionError):
        pass
    return MiRecord("other", text=line)


def line_of(token: int, command: str) -> str:
    """A command as gdb reads it: one of MI's as it is, any other for the console."""
    if command.startswith("-"):
        return f"{token}{command}\n"
    escaped = command.replace("\\", "\\\\").replace('"', '\\"')
    return f'{token}-interpreter-exec console "{escaped}"\n'


def _results(line: str, at: int) -> tuple[dict[str, Any], int]:
    """`,name=value` as often as it comes."""
    results: dict[str, Any] = {}
    while line[at : at + 1] == ",":
        name, value, at = _result(line, at + 1)
        _add_value(results, name, value)
    return results, at


def _result(line: str, at: int) -> tuple[str, Any, int]:
    found = FIELD_NAME.match(line, at)
    if not found:
        raise ValueError(f"no name at {at}")
    value, at = _value(line, found.end() + 1)
    return found[0], value, at


def _add_value(results: dict[str, Any], name: str, value: Any) -> None:
    """A name that repeats gets a list of its values."""
    if name not in results:
        results[name] = value
    elif isinstance(results[name], list):
        results[name] = [*results[name], value]
    else:
        results[name] = [results[name], value]


def _value(line: str, at: int) -> tuple[Any, int]:
    match line[at : at + 1]:
        case '"':
            return _string(line, at)
        case "{":
            return _items(line, at + 1, "}")
        case "[":
            return _items(line, at + 1, "]")
        case _:
            raise ValueError(f"no value at {at}")


def _items(line: str, at: int, close: str) -> tuple[Any, int]:
    """A tuple or a list. Results in a list keep their names: each is an object of its own."""
    named: dict[str, Any] = {}
    values: list[Any] = []
    while line[at : at + 1] != close:
        if FIELD_NAME.match(line, at):
            name, value, at = _result(line, at)
            if close == "}":
                _add_value(named, name, value)
            else:
                values.append({name: value})
        else:
            value, at = _value(line, at)
            values.append(value)
        if line[at : at + 1] == ",":
            at += 1
        elif line[at : at + 1] != close:
            raise ValueError(f"no end at {at}")
    if close == "]" or (values and not named):
        return values, at + 1
    if values:
        raise ValueError("a tuple with and without names")
    return named, at + 1


def _string(line: str, at: int) -> tuple[str, int]:
    found = C_STRING.match(line, at)
    if not found:
        raise ValueError(f"no string at {at}")
    data = C_ESCAPE.sub(_unescaped, found[1].encode("utf-8", "surrogateescape"))
    return data.decode("utf-8", "backslashreplace"), found.end()


def _unescaped(found: re.Match[bytes]) -> bytes:
    what = found[1]
    return bytes([int(what, 8) & 0xFF]) if what.isdigit() else ESCAPED_LETTERS.get(what, what)
