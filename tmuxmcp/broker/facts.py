"""What is known of a session: a line of the list, and everything."""

from __future__ import annotations

from collections.abc import Sequence

from tmuxmcp.broker.pages import PageViewer
from tmuxmcp.broker.reading import cursor_of, title_of
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import iso
from tmuxmcp.readiness.finding import certain
from tmuxmcp.record.levels import Level
from tmuxmcp.sessions import inputrequests
from tmuxmcp.sessions.levels import LevelScan
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.marks import ShellState
from tmuxmcp.tmux.held import user_name
from tmuxmcp.tmux.viewers import TmuxViewer


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
        asks=len(inputrequests.waiting(session)),
    )


def of(
    session: Session,
    look: Look,
    attach_command: str,
    viewers: Sequence[TmuxViewer] = (),
    pages: Sequence[PageViewer] = (),
    page_url: str = "",
) -> r.SessionFacts:
    """All facts of a session.

    Args:
        viewers, pages: who looks at it, in a tmux and in a browser.
        page_url: where a server shows the page; empty: this one does not.
    """
    held = session.lease
    return r.SessionFacts(
        **dict(summary(session, look)),
        generation=session.generation,
        cursor=cursor_of(look.pane),
        foreground=look.foreground,
        alternate_screen=look.alternate_screen,
        recording=session.recording is not None and session.recording.state == "running" and not look.exited,
        recorded=recording_of(session),
        taken_over=r.TakenOver(by=held.by, since=held.since) if held else None,
        viewers=sorted(
            [*map(_viewer, viewers), *(_page_viewer(each, session) for each in pages)], key=lambda each: each.since
        ),
        usage=session.usage(),
        attach_command=attach_command,
        watch_url=f"{page_url}/#session={session.id}" if page_url else None,
        shell=shell_of(look.level, look.program)
        if look.marks and look.own_shell_in_front and not look.exited
        else None,
        levels=[
            r.ShellLevel(level=each.level.number, kind=_kind(each.level, look.program), state=_state(each, look))
            for each in look.levels
            if (look.own_marks or each.level.number) and not look.exited
        ],
        commands=session.commands.count(look),
        host=session.meta.host or None,
        sandbox=session.bounds.sandbox,
        limits=session.bounds.applied,
        note=_note(session, look),
    )


def _viewer(viewer: TmuxViewer) -> r.Viewer:
    user = viewer.user or user_name()  # tmux 3.2 lets nobody else in
    return r.Viewer(kind="tmux", name=f"{user} {viewer.terminal}", may_type=viewer.may_type, since=iso(viewer.since_s))


def _page_viewer(viewer: PageViewer, session: Session) -> r.Viewer:
    held = session.pane.taken if session.pane else None
    holds = held is not None and viewer.page != 0 and held.page == viewer.page
    return r.Viewer(kind="page", name=user_name(), may_type=holds, since=iso(viewer.since_s))


def recording_of(session: Session) -> r.RecordingFacts | None:
    """The recording that runs, or that ended with the session; None: there is none."""
    note = session.recording
    if note is None or not (note.is_open or note.with_session):
        return None
    saved = note.state == "saved"
    return r.RecordingFacts(
        state=note.state,
        path=None if note.state == "discarded" else str(note.file(session.directory)),
        format=note.film,
        input=note.input,
        started_at=note.began_at,
        bytes=note.bytes if saved else None,
        duration_s=note.duration_ms / 1000 if saved else None,
        note=note.note or None,
    )


def shell_of(level: Level, program: str) -> r.ShellInFront:
    """A shell as results tell it; `program`: name of the session's own."""
    return r.ShellInFront(
        kind=_kind(level, program), where=level.where, level=level.number, adopted=level.number > 0, host=level.host
    )


def _state(each: LevelScan, look: Look) -> str:
    """What a shell does; one that another is in front of runs that."""
    return each.shell.state.value if each.level.nonce == look.level.nonce else ShellState.RUNNING.value


def _kind(level: Level, program: str) -> str:
    return level.kind if level.number else program


def _recorded(look: Look) -> bool:
    return look.exited or bool(look.pane and look.pane.piped)


def _note(session: Session, look: Look) -> str | None:
    notice = session.take_notice()
    if look.replaced:
        return "Somebody has put another program into its pane (respawn-pane): run works in a shell there."
    return notice or (None if _recorded(look) else "Its output is not being recorded at this moment.")
