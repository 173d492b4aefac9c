"""What is known of a session: a line of the list, and everything."""

from __future__ import annotations

from tmuxmcp.broker.reading import cursor_of, title_of
from tmuxmcp.broker.wait import certain
from tmuxmcp.contract import results as r
from tmuxmcp.record.levels import Level
from tmuxmcp.sessions.levels import LevelScan
from tmuxmcp.sessions.look import Look, Scan
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.marks import ShellState


def summary(session: Session, look: Look) -> r.SessionSummary:
    """A session as `list_sessions` shows it."""
    code, name = look.exit_status
    return r.SessionSummary(
        session_id=session.id,
        program=session.meta.program,
        args=session.meta.args,
        mode=look.mode,
        ready=certain(session, look),
        exited=look.exited,
        exit_code=code,
        exit_signal=name,
        ended=session.ended,
        pid=look.pid,
        cwd=look.cwd or None,
        title=title_of(look.pane),
        rows=look.rows,
        cols=look.cols,
        created_at=session.meta.created_at,
        last_activity_at=session.last_activity(),
        output_bytes=look.size,
        healthy=_recorded(look),
        pinned=session.directory.pin.exists(),
    )


def of(session: Session, look: Look, attach_command: str) -> r.SessionFacts:
    """All facts of a session."""
    lease = session.lease
    return r.SessionFacts(
        **dict(summary(session, look)),
        generation=session.generation,
        cursor=cursor_of(look.pane),
        foreground=look.foreground,
        alternate_screen=look.alternate_screen,
        recording=False,
        taken_over=r.TakenOver(by=lease.by, since=lease.since) if lease else None,
        usage=session.usage(),
        attach_command=attach_command,
        watch_url=None,
        shell=shell_of(look.level, look) if look.marks and look.own_shell_in_front and not look.exited else None,
        levels=[
            r.ShellLevel(level=each.level.number, kind=_kind(each.level, look), state=_state(each, look))
            for each in look.levels
            if (look.own_marks or each.level.number) and not look.exited
        ],
        commands=session.commands.count(look),
        host=session.meta.host or None,
        sandbox=session.bounds.sandbox,
        limits=session.bounds.applied,
        note=_note(session, look),
    )


def shell_of(level: Level, scan: Scan) -> r.ShellInFront:
    """A shell as results tell it."""
    return r.ShellInFront(
        kind=_kind(level, scan), where=level.where, level=level.number, adopted=level.number > 0, host=level.host
    )


def _state(each: LevelScan, look: Look) -> str:
    """What a shell does; one that another is in front of runs that."""
    return each.shell.state.value if each.level.nonce == look.level.nonce else ShellState.RUNNING.value


def _kind(level: Level, scan: Scan) -> str:
    return level.kind if level.number else scan.program


def _recorded(look: Look) -> bool:
    return look.exited or bool(look.pane and look.pane.piped)


def _note(session: Session, look: Look) -> str | None:
    notice = session.take_notice()
    if look.replaced:
        return "Somebody has put another program into its pane (respawn-pane): run cannot be used."
    return notice or (None if _recorded(look) else "Its output is not being recorded at this moment.")
