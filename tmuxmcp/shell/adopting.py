"""Adopting a shell: our marks are typed into the one in front, once, so that `run` is exact there too.

What can happen. What stands in front is a shell at its prompt, or only looks so: half a line may be typed there, a
command may read the line as an answer, ssh may lead to anything. It may answer, answer late, be too old, be another
process than the one that was judged, or say nothing. A person may take over between two steps, and every broker that
takes part may be killed at any moment.

In which order. What is typed is each time one guarded tmux command, which types only while its condition holds:

    1 judged       unasked where kernel and prompt prove it (`adoptable`, `farprompt`), else by the caller's consent
    2 ASKED        the level is written to `levels.json` before anything is typed: the nonce by which marks are known
    3 the line     is typed, and `@tmuxmcp_adopting` set to the nonce: until that is cleared nobody else types
    4 ANSWERED     the shell said who it is, under the nonce; it reads on without echo
    5 the body     the marks of its kind are typed, and the option set to nonce and `-body`
    6 ADOPTED      it shows a prompt with those marks; the option is cleared, the level is the session's front one

A second broker takes no part: a file lock is held from before step 2 to the end, and the kernel lets go of it with
the process that holds it. Whoever finds the level not adopted and the lock free (`settle`) goes on from what tmux's
option says: nothing set, the line was never typed and the level is forgotten; the nonce, on from step 4; nonce and
`-body`, on from step 6. An option that is left behind a finished adoption is cleared (`free_if_left`).

What is trusted, and why:

- The nonce is made for this one adoption. An answer under it comes from what read the line, or who saw that.
- So where the process that waited is known, what answers has to be it, by the id that the shell itself says: in its own
  name space that may be another number, which the kernel knows as well. Where it is not known, the answer has to be of
  a shell below who leads the foreground group; else the shell counts as remote, behind that leader.
- tmux's option says how far the typing came: it is set in the same command that types.
- Consent is the caller's word that a prompt stands there. It goes past none of: a question for a secret, the
  alternate screen, a stopped program, a program seen to be no shell, one that the kernel sees at work.

Invariants:

- A line is typed once for an adoption; nothing is typed again in doubt. A shell waits for the body only some seconds
  (`adoption.GIVE_UP_S`), then is as it was: none stays deaf, whoever was killed.
- Every way out that is no adoption forgets the level, or leaves it for `settle`. An option without a level holds nobody
  off for long: who cannot type because of it clears it.
- A level that is not adopted takes no command: a look at such a session says that it runs.
- What was said of the exit code (`passes_on`) holds only where nothing but this shell stands behind its command.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import suppress

import anyio

from tmuxmcp.contract.call import Progress, begin, iso
from tmuxmcp.contract.errors import AdoptionFailed, HostUnreachable, SessionBusy, SessionTaken, TmuxMcpError
from tmuxmcp.contract.value import replace, value
from tmuxmcp.machine import proc
from tmuxmcp.machine.launch.shells import ADOPTABLE, SHELLS, adoption
from tmuxmcp.machine.locks import lock_within, open_lock, take
from tmuxmcp.machine.ownfiles import closing
from tmuxmcp.machine.ssh.client import SSH_FAILED
from tmuxmcp.machine.witness.kernel import MANY_IN_ONE, InputWait
from tmuxmcp.readiness.adoptable import NotAdopted, may_adopt_far
from tmuxmcp.readiness.wait import WaitCondition, wait_for
from tmuxmcp.record.events import AdoptedEvent
from tmuxmcp.record.levels import AdoptionStage, Level
from tmuxmcp.sessions.levels import identity
from tmuxmcp.sessions.look import LogView, Look
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.marks import ShellState
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.control import command
from tmuxmcp.tmux.panes import Pane

SHELL_ANSWERS_S = 2.0
"""How long a shell of this machine may take to answer, or to show its first prompt with marks, once it rests."""

FAR_ANSWERS_S = 5.0
"""The same for one that no process here is known to be."""

BUSY_S = 10.0
"""The same in all, while the kernel says that it is at work."""

OTHER_ADOPTS_S = 3.0
"""How long another broker is given to finish an adoption."""

SCREEN_CHARS = 400
"""Characters of the screen's end that an error shows."""

END_AS_INNER = frozenset({"su", "sudo", "doas", "runuser"})
"""Programs between two shells that end with the exit code of the inner one."""

SSH_VALUED = "BbcDEeFIiJLlmOoPpQRSWw"
"""Options of ssh that a value follows (ssh(1))."""

MOST_BETWEEN = 8
"""Programs between two shells that are looked at."""

BODY_SUFFIX = "-body"
"""Behind the nonce in the pane's option: the marks were typed too."""


def may_by_consent(look: Look) -> NotAdopted | None:
    """Why a shell cannot be adopted though the caller says that its prompt stands there; None: it can."""
    process = look.verdict.process
    name = process.name if process else ""
    if look.secret or look.mode == "password":
        return NotAdopted("something asks for a secret", "Nothing is typed into a question.")
    if look.alternate_screen:
        return NotAdopted(f"{_called(name)} draws on the whole screen", "Use send for it, or quit it first.")
    if look.waiting is InputWait.STOPPED:
        return NotAdopted(f"{_called(name)} is stopped", "Continue it with signal CONT.")
    if look.verdict.hidden or look.facts is None:
        return None
    same = look.marks and look.far is None and process and process.pid == look.shell_pid and name == kind_of(look)
    if same and look.shell.state is not ShellState.STARTING:
        return NotAdopted(
            "its last command is not over: it waits for input", "Answer it with send, or end it with key C-c."
        )
    if name not in ADOPTABLE:
        return NotAdopted(f"{_called(name)} is in front, which is no shell that can be adopted", "Use send for it.")
    if look.ready or look.waiting is InputWait.UNKNOWN:
        return None
    return NotAdopted(f"{_called(name)} is busy", "Wait with read wait_for=ready.")


def kind_of(scan: LogView) -> str:
    """Name of the shell in front of the others."""
    return scan.level.kind if scan.level.number else scan.program


def _called(name: str) -> str:
    return f"`{name}`" if name else "the program in front"


async def adopt(session: Session, look: Look, condition: str = "") -> None:
    """Type the marks into the shell in front; afterwards it is the session's front level, at its prompt.

    Args:
        condition: a tmux format that holds as long as what was judged is still so.

    Raises:
        AdoptionFailed: no answer, or none that can be trusted; the shell is as it was, as far as is known.
        SessionBusy: another broker types at this moment, or something was printed meanwhile.
        SessionExited
    """
    pane = session.live()
    async with session.input_lock:
        with closing(open_lock(session.directory.levels_lock)) as lock:
            if not take(lock):
                raise _busy(session)
            now = await session.scan()
            if now.adopting or now.level.nonce != look.level.nonce or now.size != look.size:
                raise _busy(session)
            begin()
            with anyio.CancelScope(shield=True):
                await _adopt(session, pane, look, condition)


async def _adopt(session: Session, pane: Pane, look: Look, condition: str) -> None:
    nonce = secrets.token_hex(16)
    level = Level(
        nonce,
        look.level.number + 1,
        look.size,
        AdoptionStage.ASKED,
        where="remote",
        carrier=look.facts.foreground if look.facts else None,
        pid=_waits(look),
        host=_host(look),
    )
    session.put_level(level)
    still = f"#{{&&:#{{==:#{{cursor_x}},{pane.cursor_col}}},#{{==:#{{cursor_y}},{pane.cursor_row}}}}}"
    unseen = pane.in_mode  # a person scrolls: the cursor is another one
    test = panes.all_of(condition, "" if unseen else still, "#{?alternate_on,,1}")
    try:
        typed = await panes.type_input(
            session.tmux,
            pane,
            adoption.line(nonce),
            before=[command("set-option", "-p", "-t", pane.pane_id, "@tmuxmcp_adopting", nonce)],
            after=[panes.raw(pane, b"\r")],
            bracketed=True,
            condition=test,
        )
    except SessionTaken:
        session.forget_level(nonce)
        raise
    if not typed:
        session.forget_level(nonce)
        await session.alive()
        raise _busy(session)
    session.write_input(bytes=0, keys=1)
    with session.watcher.waiting(session.log.path):
        await _from_answer(session, pane, level)


async def _from_answer(session: Session, pane: Pane, level: Level) -> None:
    """Go on where the line was typed."""
    far = level.pid is None
    answer = await _until(session, lambda scan: session.answer(level.nonce) is not None, far)
    mark = session.answer(level.nonce)
    if answer is None or mark is None:
        raise await _give_up(session, pane, level, "Nothing answered that a shell of ours would be.")
    kind = adoption.who(mark.who)
    level = replace(
        level,
        stage=AdoptionStage.ANSWERED,
        kind=kind.name,
        version=kind.version,
        dialect=kind.dialect or "",
        answer=mark.who,
    )
    if kind.dialect is None:
        raise await _give_up(session, pane, level, f"{kind.name} {kind.version} is too old for our marks.", waits=kind)
    found = _placed(level, kind, session.pid)
    if found is None:
        raise await _give_up(session, pane, level, "What answered is not the shell in front.", waits=kind)
    passes_on = _passes_on(session, await session.scan(), found)
    found = replace(found, passes_on=passes_on, proofs=True, function_key=True)
    session.put_level(found)
    try:
        typed = await panes.type_input(
            session.tmux,
            pane,
            adoption.body(kind, level.nonce, session.highest_number + 1),
            before=[command("set-option", "-p", "-t", pane.pane_id, "@tmuxmcp_adopting", level.nonce + BODY_SUFFIX)],
            adopting=level.nonce,
        )
    except SessionTaken:
        await _give_up(session, pane, level, "A person took the session over.", waits=kind)
        raise
    if not typed:
        session.forget_level(level.nonce)
        await session.alive()
        raise _busy(session)
    await _from_body(session, pane, found)


async def _from_body(session: Session, pane: Pane, level: Level) -> None:
    """Go on where the marks were typed."""
    far = level.where == "remote"

    def told(scan: LogView) -> bool:
        at_prompt = session.track_of(level.nonce).state is ShellState.PROMPT
        return at_prompt or bool(session.readonly_variable(level.nonce))

    answered = await _until(session, told, far)
    if readonly := session.readonly_variable(level.nonce):
        if level.where == "own":
            session.readonly_prompt = readonly
        raise await _give_up(session, pane, level, f"its {readonly} is readonly, and cannot take our marks.")
    if answered is None:
        raise await _give_up(session, pane, level, f"{level.kind} shows no prompt with our marks.")
    await _free(session, pane)
    session.put_level(replace(level, stage=AdoptionStage.ADOPTED))
    if level.where == "own":
        session.end_own_shell()
    await session.scan()
    session.events.append(AdoptedEvent(iso(time.time()), session.log.size(), level.number, level.kind, level.where))
    session.save_checkpoint()


async def _until(session: Session, met: Callable[[LogView], bool], far: bool) -> Look | None:
    """Wait for the shell, longer while it is at work; None: in vain."""
    begun, rested = time.monotonic(), 0.0
    limit_s = FAR_ANSWERS_S if far else SHELL_ANSWERS_S
    async for look in session.looks(0.02, begun + BUSY_S):
        if met(look):
            return look
        now = time.monotonic()
        # One that waits for what we type next rests as well, and has answered.
        rested = rested or now if look.ready or look.waiting is InputWait.UNKNOWN else 0.0
        if look.exited or (rested and now - rested >= limit_s):
            break
    return None


async def _give_up(
    session: Session, pane: Pane, level: Level, why: str, *, waits: adoption.ShellKind | None = None
) -> AdoptionFailed:
    """Let go of a shell that cannot be adopted.

    Args:
        waits: the shell that certainly waits for the marks, and is told that none come.
    """
    if waits is not None:
        with suppress(TmuxMcpError):
            await panes.type_input(session.tmux, pane, adoption.stop(waits), adopting=level.nonce, ends=True)
    scan = await session.scan()
    shown = scan.last_text.rstrip()[-SCREEN_CHARS:]
    session.forget_level(level.nonce)
    await _free(session, pane)
    return AdoptionFailed(
        f"The program in front in session {session.id} could not be adopted: {why} On its screen:\n{shown}",
        hint="Look at it with read view=screen; use send for it.",
        session_id=session.id,
        screen=shown,
    )


async def _free(session: Session, pane: Pane) -> None:
    """Let everybody type again."""
    with suppress(TmuxMcpError):
        await panes.set_option(session.tmux, pane, "adopting", "")


def _busy(session: Session) -> SessionBusy:
    return SessionBusy(
        f"Something happens in session {session.id} at this moment: nothing was typed.",
        hint="Look at it with read view=screen, and try again.",
        session_id=session.id,
    )


# ---- which process answered ------------------------------------------------------------------------


def _host(look: Look) -> str | None:
    """The machine behind the session's ssh, unless another ssh may lead on from there."""
    there = look.level.number == 0 or (look.far is not None and not look.verdict.hidden)
    return look.host or None if there else None


def _waits(look: Look) -> int | None:
    """The process that waits for what is typed, if that is known to be the shell itself."""
    process = look.verdict.process
    return process.pid if process and not look.verdict.hidden and look.far is None else None


def _placed(level: Level, kind: adoption.ShellKind, own: int | None) -> Level | None:
    """The level with the process that answered; None: another one than the kernel says was in front.

    Args:
        level: `pid` is who waited for what was typed, `carrier` who leads the foreground group.
        own: process id of the session's own program.
    """
    leads, pid = level.carrier, level.pid
    if leads is None:
        return replace(level, carrier=None, pid=None)  # a system without /proc
    if pid is None:
        pid = next((each for each in _below(leads) if _calls_itself(each, kind.pid) and _is_called(each, kind)), None)
    elif not _calls_itself(pid, kind.pid):
        return None
    if pid is None:
        return replace(level, where="remote", carrier_process=identity(leads))
    direct = _group(pid) == leads
    return replace(
        level,
        where="own" if pid == own else "nested",
        host=None,
        pid=pid,
        process=identity(pid),
        carrier=None if direct else leads,
        carrier_process="" if direct else identity(leads),
    )


def _passes_on(session: Session, scan: LogView, level: Level) -> bool:
    """Whether the shell's exit code will be that of the command which led to it."""
    outer = scan.levels[-1]
    command = next((each for each in session.commands.running(scan) if each.level == outer.level.number), None)
    if command is None or not leads_to_one_shell(command.text):
        return False
    if level.pid is None:
        return not session.commands.typed_since(command.start)  # else that may have begun another shell there
    behind = outer.level.pid if outer.level.number else session.pid
    pid = level.pid
    for _ in range(MOST_BETWEEN):
        with suppress(OSError):
            pid = proc.stat(f"/proc/{pid}").parent
            if pid == behind:
                return True
            if proc.name(pid) in END_AS_INNER:
                continue
        break
    return level.pid == behind


def leads_to_one_shell(text: str | None) -> bool:
    """Whether a command does nothing but begin one shell, whose exit code is then its own."""
    if not text or set(text) & set(";|&()<>`$\n{}\\"):
        return False
    words = text.split()
    name, rest = os.path.basename(words[0]), words[1:]
    if name in MANY_IN_ONE and rest:
        name, rest = rest[0], rest[1:]
    if name == "fg":
        return len(rest) <= 1
    if name in ADOPTABLE:
        return all(word.startswith("--") or (word[0] in "-+" and "c" not in word) for word in rest)
    if name in END_AS_INNER:
        return not any(word.startswith(("-c", "--command", "--session-command")) for word in rest)
    return name == "ssh" and _operands(rest) == 1


def _operands(words: list[str]) -> int:
    """How many words of ssh are no options."""
    count, rest = 0, iter(words)
    for word in rest:
        if not word.startswith("-"):
            count += 1
        elif len(word) == 2 and word[1] in SSH_VALUED:
            next(rest, None)
    return count


def _below(leads: int) -> list[int]:
    """The processes below the one that leads the foreground group."""
    found, todo = list[int](), [leads]
    while todo and len(found) < 1000:
        pid = todo.pop(0)
        with suppress(OSError):
            below = proc.children(pid, proc.threads(pid))
            found += below
            todo += below
    return found


def _calls_itself(pid: int, number: int) -> bool:
    """Whether a process knows itself by this id: in a name space of its own it has another one."""
    if pid == number:
        return True
    with suppress(OSError, ValueError):
        return int(proc.status(f"/proc/{pid}", "NSpid").split()[-1]) == number
    return False


def _is_called(pid: int, kind: adoption.ShellKind) -> bool:
    with suppress(OSError):
        name = proc.name(pid).lstrip("-")
        return name in ADOPTABLE and (name == kind.name or kind.name not in SHELLS)
    return False


def _group(pid: int) -> int | None:
    with suppress(OSError):
        return proc.stat(f"/proc/{pid}").group
    return None


# ---- after a broker that was killed ----------------------------------------------------------------


async def settle(session: Session) -> None:
    """Finish an adoption that a broker began which is gone, or wait for one that another broker is about to finish.

    Raises:
        SessionBusy: it does not come to an end.
    """
    level = session.adopting
    if level is None or session.pane is None or session.exited or session.lease:
        return
    async with session.input_lock, lock_within(session.directory.levels_lock, patience_s=OTHER_ADOPTS_S) as mine:
        if not mine:
            raise _busy(session)
        await session.scan()
        level = session.adopting
        if level is None:
            return
        with anyio.CancelScope(shield=True), session.watcher.waiting(session.log.path), suppress(AdoptionFailed):
            await _finish(session, session.pane, level)


async def _finish(session: Session, pane: Pane, level: Level) -> None:
    """Do the rest of what another broker began; who calls holds the lock."""
    how_far = await panes.option(session.tmux, pane, "adopting")
    if how_far == level.nonce + BODY_SUFFIX or session.track_of(level.nonce).number:
        if not level.dialect:
            mark = session.answer(level.nonce)
            kind = adoption.who(mark.who if mark else "")
            level = replace(level, kind=kind.name, dialect=kind.dialect or "", answer=mark.who if mark else "")
        await _from_body(session, pane, level)
    elif how_far == level.nonce:
        await _from_answer(session, pane, level)
    else:
        session.forget_level(level.nonce)  # it was killed before it typed


async def free_if_left(session: Session) -> bool:
    """Let everybody type again where a broker was killed that had just adopted a shell; whether that was so."""
    pane = session.pane
    if pane is None or not await panes.option(session.tmux, pane, "adopting"):
        return False
    async with lock_within(session.directory.levels_lock, patience_s=OTHER_ADOPTS_S) as mine:
        await session.scan()
        if not mine or session.adopting:
            return False
        await _free(session, pane)
    return True


# ---- A new session on another host: from ssh's start to the first prompt there ---------------------------------------
#
# What ssh asks on the way (a host key, a passphrase, a password) is asked of the person: it is told, and never answered
# here.

SILENT_MS = 3000
"""Silence that is told where the far end has no witness: a login may say nothing for so long."""

SAID_LINES = 3
"""The last lines of ssh that an error repeats."""

SAID_CHARACTERS = 600

SETTLES_S, RETRY_S = 2.0, 0.03
"""How long a shell that shows its prompt may still do something for itself, and how often that is looked at."""

OTHER_KEY = "REMOTE HOST IDENTIFICATION HAS CHANGED"


@value
class Arrival:
    """How far a session has come."""

    ready: bool
    """A program at the far end waits for input."""
    note: str | None = None
    """What the caller should know."""


async def arrive(
    registry: Registry, session: Session, timeout_ms: int, attach_command: str, progress: Progress, *, adopts: bool
) -> Arrival:
    """Wait for the far end, at most so long, and adopt the shell that stands at its prompt there.

    Args:
        attach_command: how a person comes to its terminal.
        adopts: what is there is to be adopted if it is a shell.

    Raises:
        HostUnreachable: there is no connection; nothing is left of the session.
    """
    wait = WaitCondition("ready", timeout_ms, idle_ms=SILENT_MS, sent_at=0, progress=progress)
    answer = await wait_for(session, wait)
    look = await session.look()
    if look.exited:
        if look.exit_status == (SSH_FAILED, None):
            raise await _unreachable(registry, session, look)
        return Arrival(False)
    if _ssh_asks(look):
        return Arrival(False, f"{_question(look)} Only the person answers that: {attach_command.replace(' -r ', ' ')}")
    if answer.outcome != "ready":
        return Arrival(False, answer.note)
    return Arrival(True, await _adopted(session) if adopts else None)


async def _adopted(session: Session) -> str | None:
    """Adopt the shell at its first prompt there, if it is one; else say what to do."""
    deadline = time.monotonic() + SETTLES_S
    while True:
        await session.alive()
        look = await session.look()
        found = await may_adopt_far(session, look)
        if not isinstance(found, NotAdopted) or not found.passes or time.monotonic() > deadline:
            break
        await anyio.sleep(RETRY_S)
    if isinstance(found, NotAdopted):
        return f"run does not work in it yet: {found.why}. {found.hint}"
    try:
        await adopt(session, look, found.condition)
    except (AdoptionFailed, SessionBusy) as error:
        return f"{error.message} {error.hint}"
    return None


def _ssh_asks(look: Look) -> bool:
    """Whether it is ssh that waits for an answer: it has not passed its terminal on yet."""
    return look.ready and look.far is None and look.facts is not None and look.facts.canonical


def _question(look: Look) -> str:
    what = "asks for a secret" if look.secret else "asks a question"
    return f"ssh {what}: {last_lines(look.last_text, 1)!r}."


async def _unreachable(registry: Registry, session: Session, look: Look) -> HostUnreachable:
    said = last_lines(look.last_text, SAID_LINES)
    hint = "Check the host's name, that it is up, and that `ssh` reaches it without a question."
    if OTHER_KEY in look.last_text:
        hint = "The host shows another key than the known one. Only the person can judge why: tell them."
    await registry.forget(session)
    shutil.rmtree(session.directory.path, ignore_errors=True)
    return HostUnreachable(
        f"ssh has no connection to {session.meta.host}: {said or 'it said nothing'}",
        hint=hint,
        host=session.meta.host,
        exit_code=SSH_FAILED,
    )


def last_lines(text: str, most: int) -> str:
    """The last lines that say something, as one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[-most:])[-SAID_CHARACTERS:]
