"""What is known of a session: a line of the list, and everything."""

from __future__ import annotations

from tmuxmcp.broker.reading import cursor_of, taken_notice, title_of
from tmuxmcp.contract import results as r
from tmuxmcp.sessions.session import Session


def summary(session: Session) -> r.SessionSummary:
    """A session as `list_sessions` shows it."""
    code, name = session.exit_status
    facts, verdict = session.look()
    return r.SessionSummary(
        session_id=session.id,
        program=session.meta.program,
        mode=session.mode_by(facts, verdict),
        ready=verdict.ready,
        exited=session.exited,
        exit_code=code,
        exit_signal=name,
        pid=session.pid,
        cwd=session.cwd(),
        title=title_of(session),
        rows=session.rows,
        cols=session.cols,
        created_at=session.meta.created_at,
        last_activity_at=session.last_activity(),
        output_bytes=session.log.size(),
    )


def of(session: Session, attach_command: str) -> r.SessionFacts:
    """All facts of a session."""
    pane = session.pane
    return r.SessionFacts(
        **dict(summary(session)),
        args=session.meta.args,
        cursor=cursor_of(pane),
        foreground=session.foreground(),
        healthy=_recorded(session),
        alternate_screen=bool(pane and pane.alternate_screen),
        recording=False,
        taken_over=False,
        usage=session.usage(),
        attach_command=attach_command,
        watch_url=None,
        sandbox=session.bounds.sandbox,
        limits=session.bounds.applied,
        note=_note(session),
    )


def _recorded(session: Session) -> bool:
    return session.exited or bool(session.pane and session.pane.piped)


def _note(session: Session) -> str | None:
    notice = taken_notice(session)
    if session.pane and session.pane.respawned:
        return "Somebody has put another program into its pane (respawn-pane): run cannot be used."
    return notice or (None if _recorded(session) else "Its output is not being recorded at this moment.")
