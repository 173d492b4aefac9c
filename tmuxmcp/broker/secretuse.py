"""`send secret=NAME`: types a secret.

Whether it may be is judged (`shell/secretreader.py`) before the call is done, when a person may be asked, and again
just before it is typed: in the same state, for the same program, or not at all. The value is had from its source only
then, and overwritten at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from tmuxmcp.broker.reading import Reading
from tmuxmcp.broker.sending import flush_input, not_typed, typed_now
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call, no_progress
from tmuxmcp.contract.errors import ConfirmationDeclined
from tmuxmcp.contract.settings import Secret
from tmuxmcp.machine.secretvalue import value_of
from tmuxmcp.machine.witness.kernel import entered_at
from tmuxmcp.readiness import finding
from tmuxmcp.readiness.wait import WaitCondition
from tmuxmcp.record.commands import TypedInput
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.noting import IdempotentCall
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell import adopting
from tmuxmcp.shell.entering import end_listening
from tmuxmcp.shell.secretreader import SecretMoment, SecretReader, moment, secret_named
from tmuxmcp.tmux import unseen

SECRET_WAS_SHOWN = (
    "The program showed what was typed: the value of secret {name} now stands on the screen and in the log of session "
    "{session}. Tell the person to change it. What the session printed since is not in this answer, but read has it."
)


async def send(
    reading: Reading,
    session: Session,
    request: q.Send,
    wait: WaitCondition,
    call: Call,
    agreed: SecretReader | None,
    env: Mapping[str, str],
    noting: IdempotentCall | None = None,
) -> r.SendResult:
    """Type it and Enter, then wait and read.

    Args:
        agreed: who gets it as a person agreed, if one was asked.
        env: the variables of a command that prints the value.
        noting: writes down what is about to be typed, for a call with an id.

    Raises:
        InvalidArgument, WrongMode, PermissionDenied, ConfirmationDeclined, SessionTaken, SessionExited: nothing was
            typed.
        TmuxMcpError: the value cannot be had.
    """
    secret = secret_named(reading.settings, request)
    await adopting.settle(session)
    await end_listening(session, await finding.prompt_drawn(session))
    await _may(request.secret, secret, session, agreed, call)
    wait.progress = no_progress  # a last line may show what was typed
    async with value_of(request.secret, secret, env) as value:
        await reading.before(session, request, wait, call, now=True)
        async with session.input_lock:
            pane = session.live()
            program = await unseen.program_in_front(session.tmux, pane)
            now = await _may(request.secret, secret, session, agreed, call)
            _note(session, now.look, wait)
            size = len(value)
            stamp = await noting.types(session, now.look.size, bytes=size + 1) if noting else None
            if not await unseen.type_secret(session.tmux, pane, value, program, stamp=stamp):
                await not_typed(session)
        session.write_input(bytes=size, keys=1)
        if noting:
            noting.note_typed(session, now.look.size)
        await flush_input(session.tmux)
        result = None if request.read == "none" else await reading.waited(session, request, wait, call)
        shown = await _was_shown(session, now.look.size, value)
    if shown:
        note = SECRET_WAS_SHOWN.format(name=request.secret, session=session.id)
        return r.SendResult(session_id=session.id, sent_bytes=size + 1, note=note, result=None)
    notice = session.take_notice() if result is None else None
    return r.SendResult(session_id=session.id, sent_bytes=size + 1, note=notice, result=result)


async def _may(name: str, secret: Secret, session: Session, agreed: SecretReader | None, call: Call) -> SecretMoment:
    """How the session stands, if it may be typed there now.

    Raises:
        WrongMode, PermissionDenied
        ConfirmationDeclined: nobody agreed to that.
    """
    now = await moment(name, secret, session)
    if now.asks and not call.person and now.reader != agreed:
        raise ConfirmationDeclined(
            f"Nothing was typed: what asks in session {session.id} is not what the person agreed to.",
            hint="Look at the session; make the call again if it is still right.",
            session_id=session.id,
        )
    return now


def _note(session: Session, look: Look, wait: WaitCondition) -> None:
    """Note what waits and lists go by, as before every input."""
    wait.sent_at = session.typed_at = look.size
    wait.typed, wait.typed_now, wait.entered = "", typed_now(session, look, 1), True
    wait.types_after(look)
    session.entered = entered_at(look.verdict, look.judged, look.line_of_cursor, session.entered, look.size)
    session.commands.typing(TypedInput(look.size, None, caller=wait.caller, read_by=look.read_by))


async def _was_shown(session: Session, start: int, value: bytearray) -> bool:
    """Whether the value stands in what was printed since."""
    look = await session.look()
    await session.log_complete(look.size)
    size = session.log.size() - start
    return bytes(value) in session.log.read(start, min(size, 1 << 20)) if size > 0 else False
