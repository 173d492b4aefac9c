"""What is known of a session: a line of the list, and everything."""

from __future__ import annotations

from tmuxmcp.broker.reading import cursor_of, title_of
from tmuxmcp.contract import results as r
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.session import Session


def summary(session: Session, look: Look) -> r.SessionSummary:
    """A session as `list_sessions` shows it."""
    code, name = look.exit_status
    return r.SessionSummary(
        session_id=session.id,
        program=session.meta.program,
        args=session.meta.args,
        mode=look.mode,
        ready=look.ready,
        exited=look.exited,
        exit_code=code,
        exit_signal=name,
        ended=session.ended,
        pid=look.pid,
        cwd=look.cwd,
        title=title_of(look.pane),
        rows=look.rows,
        cols=look.cols,
        created_at=session.meta.created_at,
        last_activity_at=session.last_activity(),
        output_bytes=look.size,
        healthy=_recorded(look),
    )


def of(session: Session, look: Look, attach_command: str) -> r.SessionFacts:
    """All facts of a session."""
    return r.SessionFacts(
        **dict(summary(session, look)),
        generation=session.generation,
        cursor=cursor_of(look.pane),
        foreground=look.foreground,
        alternate_screen=look.alternate_screen,
        recording=False,
        taken_over=False,
        usage=session.usage(),
        attach_command=attach_command,
        watch_url=None,
        commands=session.commands.count(look),
        sandbox=session.bounds.sandbox,
        limits=session.bounds.applied,
        note=_note(session, look),
    )


def _recorded(look: Look) -> bool:
    return look.exited or bool(look.pane and look.pane.piped)


def _note(session: Session, look: Look) -> str | None:
    notice = session.take_notice()
    if look.replaced:
        return "Somebody has put another program into its pane (respawn-pane): run cannot be used."
    return notice or (None if _recorded(look) else "Its output is not being recorded at this moment.")
