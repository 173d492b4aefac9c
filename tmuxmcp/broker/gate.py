"""The gate in front of every operation that a face calls: the policy judges it, the audit writes it down.

What calls the broker as a library, the command line among it, is the person's own and does not pass here.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from tmuxmcp.broker import machine
from tmuxmcp.broker.audit_line import Record
from tmuxmcp.broker.confirmations import Confirmations
from tmuxmcp.contract.call import Call, Question
from tmuxmcp.contract.results import Result
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.errors import ConfirmationDeclined, IoError, PolicyDenied, TmuxMcpError, shortage
from tmuxmcp.host.audit import Audit, OpenLine
from tmuxmcp.host.environment import is_secret_name, user_shell
from tmuxmcp.host.parsing import Parsing
from tmuxmcp.host.redact import Redactor
from tmuxmcp.host.sandbox import meets
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.plain import sanitize

if TYPE_CHECKING:
    from tmuxmcp.broker.actions import Place
    from tmuxmcp.host.policy import Action, Policy, Verdict
    from tmuxmcp.sessions.registry import Registry

log = logging.getLogger(__name__)

Function = Callable[[], Awaitable[Result]]

MOST_TYPED = 1000
"""Sessions whose half-typed lines are remembered."""

WITHOUT_SESSION = frozenset(
    {"create_session", "list_sessions", "run_process", "read_file", "write_file", "list_directory", "health"}
)
"""Tools that concern no session that is there; all others mean the caller's default session when they name none."""

TYPING = frozenset({"run", "send", "mouse"})
"""Tools by which a session does what the caller says."""

SHOWN = 2000
"""Characters of a command that a person is shown when asked."""


@contextmanager
def _shortages_told() -> Iterator[None]:
    """A full disk and the like are nobody's defect: the caller is told what is missing."""
    try:
        yield
    except Exception as error:
        if told := shortage(error):
            raise told from error
        raise


class Gate:
    """Policy and audit of one broker."""

    def __init__(self, registry: Registry, settings: BrokerSettings) -> None:
        self.registry = registry
        self.settings = settings
        self.redactor = Redactor(os.environ)
        self.redactor.learn_environment(settings.env)
        self._audit = Audit(settings.state_dir)
        self._told = False
        self._typed: OrderedDict[str, str | None] = OrderedDict()
        self._parsing = Parsing()
        self.policy = self._parse()

    def _parse(self) -> Policy | None:
        """The policy; None where there is nothing to judge."""
        if not self.settings.policy:
            return None
        from tmuxmcp.host.rules import parse_policy

        policy = parse_policy(self.settings.policy)
        return None if policy.allows_everything else policy

    def close(self) -> None:
        """Let go of what was started for judging."""
        self._parsing.close()

    async def call(
        self, tool: str, read_only: bool, call: Call, arguments: Mapping[str, Any], function: Function
    ) -> Result:
        """Do an operation, if the policy lets it; write down what came of it.

        Raises:
            PolicyDenied: a rule forbids it, or nobody can be asked; the session is outside the sandbox.
            ConfirmationDeclined: the person did not agree.
            IoError: the audit is strict and cannot be written; the disk is full.
            ResourceLimit: no file descriptors are left.
        """
        self._learn(arguments)
        record = Record(tool, call, arguments, self.redactor)
        place = None
        if self.policy or self.settings.audit == "strict":
            with _shortages_told():
                place = await self._place(tool, arguments, call)
        if place:
            record.see(place)
        with self._recorded(record), _shortages_told():
            if self.policy and place:
                await self._permit(tool, read_only, call, arguments, place, record)
            if tool in TYPING and self.settings.sandbox != "none":
                await self._keep_inside(tool, arguments.get("session_id", ""), call)
            result = await function()
            record.result(result)
            return result

    def refused(self, tool: str, call: Call, error: TmuxMcpError) -> None:
        """Write down a call whose arguments are not even understood."""
        with self._recorded(Record(tool, call, {}, self.redactor)) as record:
            record.error(error)

    def _learn(self, arguments: Mapping[str, Any]) -> None:
        env = arguments.get("env")
        if isinstance(env, Mapping) and env:
            self.redactor.learn_environment(env)

    async def _keep_inside(self, tool: str, session_id: str, call: Call) -> None:
        """Sessions outside the sandbox, made by a person or before the setting, are not for agents to type into."""
        session = await self._session(session_id, call)
        if session and await session.refresh() and not meets(session.bounds.sandbox, self.settings.sandbox):
            raise PolicyDenied(
                f"{tool} was not done: session {session.id} is outside the sandbox that the setting sandbox demands.",
                hint="Make a session with create_session; if this was your default session, destroy it first.",
                session_id=session.id,
            )

    # ---- the policy ----------------------------------------------------------------------------

    async def _permit(
        self, tool: str, read_only: bool, call: Call, arguments: Mapping[str, Any], place: Place, record: Record
    ) -> None:
        from tmuxmcp.host.policy import judge

        assert self.policy
        action = await self._action(tool, read_only, arguments, place)
        verdict = judge(action, self.policy)
        record.verdict(verdict)
        if verdict.decision == "deny":
            raise PolicyDenied(
                f"{tool} was not done: {verdict.reason}.",
                hint="The person's policy says so. Find another way, or ask them.",
                rule=verdict.rule,
            )
        if verdict.decision == "confirm":
            await self._confirm(tool, call, arguments, place, verdict)
        self._remember(tool, arguments, place)

    async def _action(self, tool: str, read_only: bool, arguments: Mapping[str, Any], place: Place) -> Action:
        from tmuxmcp.broker.actions import action_of

        settings = self.settings
        program = [settings.program or user_shell(), *settings.program_args]
        base = settings.files_root if tool in machine.FILE_TOOLS and settings.files_root else settings.cwd
        while True:
            pending = self._typed.get(place.session_id, "")
            action = await action_of(tool, read_only, arguments, place, self._parsing, pending, program, base)
            if self._typed.get(place.session_id, "") == pending:
                return action  # otherwise another call has typed meanwhile

    def _remember(self, tool: str, arguments: Mapping[str, Any], place: Place) -> None:
        """What now stands in a shell's line without Enter: the next `send` may end it."""
        if tool != "send" or not place.takes_commands or place.secret:
            return
        from tmuxmcp.broker.actions import pending_after

        self._typed[place.session_id] = pending_after(self._typed.get(place.session_id, ""), arguments)
        while len(self._typed) > MOST_TYPED:
            self._typed.popitem(last=False)

    async def _confirm(
        self, tool: str, call: Call, arguments: Mapping[str, Any], place: Place, verdict: Verdict
    ) -> None:
        digest = digest_of(tool, call, arguments, place)
        confirmations = Confirmations(self.settings.state_dir)
        if confirmations.take(digest):
            return
        message = self.redactor.text(_question(tool, arguments, place, verdict))
        answer = await call.ask(Question(message, digest))
        if answer is None:
            opened = confirmations.open(digest, message, call.caller)
            raise PolicyDenied(
                f"{tool} was not done: a person must confirm it ({verdict.reason}), and this client cannot ask one.",
                hint=f"Have the person run `tmuxmcp policy confirm {opened}` in a terminal of theirs, then make "
                "exactly the same call again.",
                rule=verdict.rule,
                confirmation=opened,
            )
        if not answer:
            raise ConfirmationDeclined(
                f"{tool} was not done: the person did not agree ({verdict.reason}).",
                hint="Do not try it in another way; ask them what they want.",
                rule=verdict.rule,
            )
        if digest_of(tool, call, arguments, await self._place(tool, arguments, call)) != digest:
            raise ConfirmationDeclined(
                f"{tool} was not done: its session changed while the person was asked, so the answer is void.",
                hint="Look at the session; make the call again if it is still right.",
                rule=verdict.rule,
            )

    async def _place(self, tool: str, arguments: Mapping[str, Any], call: Call) -> Place:
        from tmuxmcp.broker.actions import place_of

        session = None if tool in WITHOUT_SESSION else await self._session(arguments.get("session_id", ""), call)
        if session is None:
            return place_of(None, self.settings.cwd or os.getcwd())
        if self.policy and self.policy.looks_at_modes:  # the kernel tells the rest
            await session.refresh()
        await session.scan()
        return place_of(session)

    async def _session(self, session_id: str, call: Call) -> Session | None:
        """The session that is meant, if it is there already; where it is not, the operation itself says so."""
        if not session_id:
            return self._own(call)
        known = self.registry.sessions.get(session_id)
        if known and known.pane:
            return known
        with suppress(TmuxMcpError):
            return await self.registry.existing(session_id)
        return None

    def _own(self, call: Call) -> Session | None:
        """The caller's default session, if it is there."""
        mine = (each for each in self.registry.sessions.values() if each.meta.owner == call.caller)
        return next((each for each in mine if not each.exited), None)

    # ---- the audit -----------------------------------------------------------------------------

    @contextmanager
    def _recorded(self, record: Record) -> Iterator[Record]:
        """Write the line of a call, however it ends."""
        line = self._begin(record) if self.settings.audit == "strict" else None
        try:
            yield record
        except TmuxMcpError as error:
            self._clean(error)
            record.error(error)
            raise
        except BaseException as error:
            record.failed(error)
            raise
        finally:
            try:
                line.finish(record.entry()) if line else self._write(record)
            except OSError as error:
                self._cannot(error)

    def _begin(self, record: Record) -> OpenLine:
        try:
            return self._audit.begin(record.entry())
        except OSError as error:
            raise IoError(
                f"The audit cannot be written ({error.strerror}), and nothing is done without it.",
                hint=f"Mend {self._audit.path}; the setting audit says `strict`.",
            ) from None

    def _write(self, record: Record) -> None:
        if self.settings.audit != "off":
            self._audit.write(record.entry())

    def _cannot(self, error: OSError) -> None:
        if not self._told:
            log.warning("the audit cannot be written: %s", error)
        self._told = True

    def _clean(self, error: TmuxMcpError) -> None:
        """Take known secrets out of an error before anybody sees it."""
        error.message, error.hint = self.redactor.text(error.message), self.redactor.text(error.hint)
        error.details = self.redactor.value(error.details)


def digest_of(tool: str, call: Call, arguments: Mapping[str, Any], place: Place) -> str:
    """What an answer is bound to: who wants what, where, and what is in front there."""
    what = [tool, call.caller, dict(arguments), place.session_id, place.cwd, place.foreground]
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()


def _question(tool: str, arguments: Mapping[str, Any], place: Place, verdict: Verdict) -> str:
    """What a person is asked; the agent's own words stand indented and can do nothing to a terminal."""
    shown = {
        name: "(not shown)" if name in ("stdin", "stdin_base64", "data") else _without_values(value)
        for name, value in arguments.items()
        if name not in ("session_id", "timeout_ms", "max_bytes", "max_output_bytes") and value
    }
    what = arguments["command"] if list(shown) == ["command"] else json.dumps(shown, ensure_ascii=False, default=str)
    text = sanitize(what)[0].replace("\n", "\n    ")
    if len(text) > SHOWN:
        text = f"{text[: SHOWN - 500]}\n    ... ({len(text) - SHOWN} characters) ...\n    {text[-500:]}"
    where = f"in session {place.session_id} ({place.foreground or place.mode}, " if place.session_id else "("
    return f"An agent wants to {tool} {where}{sanitize(place.cwd or 'directory unknown')[0]}):\n\n    {text}\n\n\
{verdict.reason[:1].upper()}{verdict.reason[1:]}."


def _without_values(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: "(secret)" if is_secret_name(str(name)) else each for name, each in value.items()}
    return value
