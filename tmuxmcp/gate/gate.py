"""The gate in front of every operation that an agent calls: the policy judges it, the audit writes it down.

What the person calls, at a command line or from a program, does not pass here.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio

from tmuxmcp.contract.call import Call, Question, iso
from tmuxmcp.contract.errors import ConfirmationDeclined, IoError, PolicyDenied, TmuxMcpError, Unauthorized, shortage
from tmuxmcp.contract.request import Bound, Content, Operation, Request, SecretValues
from tmuxmcp.contract.requests import Run, Send
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import replace, value
from tmuxmcp.gate.audit import Audit, AuditLine, Redactor
from tmuxmcp.gate.confirmations import OFFER_S, Confirmations, first_answer, offer_next, reach
from tmuxmcp.gate.policy.parsing import Parsing
from tmuxmcp.gate.target import Target
from tmuxmcp.machine import ownprocess
from tmuxmcp.machine.environment import is_secret_name, user_shell
from tmuxmcp.machine.sandbox.sandbox import meets
from tmuxmcp.machine.ssh.client import parse
from tmuxmcp.machine.usercommands import notify
from tmuxmcp.record.log import wake
from tmuxmcp.sessions import lease
from tmuxmcp.sessions.bounds import allows
from tmuxmcp.terminal.text.plain import sanitize

if TYPE_CHECKING:
    from tmuxmcp.gate.actions import ShellContext
    from tmuxmcp.gate.policy.judge import Action, Policy, Rule, Ruling
    from tmuxmcp.sessions.session import Session
    from tmuxmcp.shell.secretreader import SecretMoment, SecretReader

Find = Callable[[], Awaitable[Target]]

MOST_HALF_TYPED = 1000
"""Sessions whose half-typed lines are remembered."""

NOT_NAMED = "its secret would be typed into a program that the setting secrets does not name for it"
"""Why a person is asked about a secret."""

COMMAND_SHOWN_CHARS = 2000
"""Characters of a command that a person is shown when asked."""


@value
class Judged:
    """A target, and how it was when it was judged."""

    target: Target
    place: ShellContext
    reader: SecretReader | None = None
    """Who would get the secret, if one is to be typed."""


class Gate:
    """Policy and audit of one broker."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.redactor = Redactor(ownprocess.environment())
        self.redactor.learn_environment(settings.env)
        self._audit = Audit(settings.state_dir, wish=settings.audit)
        self._typed: OrderedDict[str, str | None] = OrderedDict()
        self._parsing = Parsing()
        self.policy = self._parse()

    def _parse(self) -> Policy | None:
        """The policy; None where there is nothing to judge."""
        if not self.settings.policy:
            return None
        from tmuxmcp.gate.policy.judge import parse_policy

        policy = parse_policy(self.settings.policy)
        return None if policy.allows_everything else policy

    def close(self) -> None:
        """Let go of what was started for judging."""
        self._parsing.close()

    def check(self, request: Request[Any], call: Call) -> None:
        """Refuse a call whose caller lacks the scope; take note of the secrets that it brings.

        Raises:
            Unauthorized
        """
        try:
            authorize(request, call.scopes)
        except Unauthorized as error:
            self.refused(request.operation, call, error)
            raise
        for _, variables, _ in request.marked(SecretValues):
            self.redactor.learn_environment(variables)

    async def permit(
        self, request: Request[Any], call: Call, target: Target, find: Find, line: AuditLine
    ) -> SecretReader | None:
        """Let an operation be done, if the policy does; who gets the secret that it types, if a person agreed to that.

        Args:
            find: finds the session anew, after a person was asked.

        Raises:
            PolicyDenied: a rule forbids it, or nobody can be asked; the session is outside the sandbox.
            ConfirmationDeclined: the person did not agree.
            SessionTaken: a person would have to agree, and one holds the session.
            IoError: the audit is strict and cannot be written.
        """
        judged = Judged(target, await self._action_place(target)) if self._sees_place(request) else None
        if judged:
            line.see(judged.place)
        self._begin(line)  # not before: where echo is off, it must not have the text
        agreed = None
        if judged and (self.policy or _types_secret(request)):
            target, agreed = await self._permit(request, call, judged, find, line)
        if request.operation.types and self.settings.sandbox != "none":
            await self._keep_inside(request, target)
        return agreed

    @contextmanager
    def telling_what_is_missing(self) -> Iterator[None]:
        """A full disk, a removed state directory and the like are nobody's defect: the caller is told."""
        try:
            yield
        except Exception as error:
            if told := shortage(error):
                raise told from error
            if isinstance(error, FileNotFoundError) and not self.settings.state_dir.is_dir():
                raise IoError(
                    f"The state directory {self.settings.state_dir} was removed while this server ran.",
                    hint="Start the server anew. What runs in its sessions goes on, but is not found any more.",
                ) from error
            if told := self._of_state(error):
                raise told from error
            raise

    def _of_state(self, error: BaseException) -> IoError | None:
        """What is told when a file of the state directory cannot be used: something else is in its place, mostly."""
        if isinstance(error, BaseExceptionGroup):
            return next(filter(None, map(self._of_state, error.exceptions)), None)
        if not isinstance(error, OSError) or not str(error.filename).startswith(f"{self.settings.state_dir}/"):
            return None
        return IoError(
            f"{error.filename} cannot be used: {error.strerror}.",
            hint="If something else was put in the place of a file there, remove it; then try again.",
        )

    def judges_place(self, operation: Operation) -> bool:
        """Whether the verdict depends on the session: then a default session is made before, not after the verdict."""
        return bool(self.policy) and operation.types

    def judges_session(self, request: Request[Any]) -> bool:
        """Whether more of the session is looked at before the operation than which one is meant."""
        return self._sees_place(request) or (request.operation.types and self.settings.sandbox != "none")

    def _sees_place(self, request: Request[Any]) -> bool:
        return bool(self.policy) or self.settings.audit == "strict" or _types_secret(request)

    def refused(self, operation: Operation, call: Call, error: TmuxMcpError) -> None:
        """Write down a call that was not even judged: its arguments are not understood, or it lacks the scope."""
        line = AuditLine(operation, call, None, self.redactor)
        line.error(error)
        self._finish(line)

    def note(self, facts: Mapping[str, str]) -> None:
        """Write down what a person did that concerns agents."""
        self._audit.ended(None, {"time": iso(time.time()), **facts, "outcome": "ok"})

    async def _keep_inside(self, request: Request[Any], target: Target) -> None:
        """Sessions outside the sandbox, made by a person or before the setting, are not for agents to type into.

        But those on a host that the settings allow.
        """
        session = target.session
        if session and session.meta.host and allows(self.settings, parse(session.meta.host)):
            return
        if session and await session.refresh() and not meets(session.bounds.sandbox, self.settings.sandbox):
            name = request.operation.name
            raise PolicyDenied(
                f"{name} was not done: session {session.id} is outside the sandbox that the setting sandbox demands.",
                hint="Make a session with create_session; if this was your default session, destroy it first.",
                session_id=session.id,
            )

    # ---- the policy ----------------------------------------------------------------------------

    async def _permit(
        self, request: Request[Any], call: Call, judged: Judged, find: Find, line: AuditLine
    ) -> tuple[Target, SecretReader | None]:
        """The target for which it is permitted: looked for anew after a person was asked; and the secret's reader."""
        from tmuxmcp.gate.policy.judge import ALLOW, Ruling, agreeing, asking, judge

        verdict, rule, for_session = ALLOW, None, False
        if self.policy:
            policy, action = self.policy, await self._action(request, judged.place)
            verdict = judge(action, policy)
            confirmations = Confirmations(self.settings.state_dir)
            # Each rule once: another one may ask, or forbid, what this one allows from now on.
            while (rule := asking(verdict, policy)) and confirmations.agreed(_scope(rule, judged.target, call)):
                policy = agreeing(policy, rule)
                verdict = judge(action, policy)
            for_session = policy is not self.policy
            line.verdict(verdict)
        if verdict.decision == "deny":
            raise PolicyDenied(
                f"{request.operation.name} was not done: {verdict.reason}.",
                hint="The person's policy says so. Find another way, or ask them.",
                rule=verdict.rule,
            )
        now = await self._asking(request, judged.target)
        judged = replace(judged, reader=now.reader if now else None)
        if now and now.asks and verdict.decision == "allow":
            verdict = Ruling("confirm", NOT_NAMED, "secrets")
            line.verdict(verdict)
        elif for_session and verdict.decision == "allow":  # the question by which they agreed is used up with it
            Confirmations(self.settings.state_dir).forget(digest_of(request, call, judged))
        if verdict.decision == "confirm":
            if request.operation.types and judged.target.session:  # nobody is asked in vain
                await judged.target.session.refresh()
                lease.refuse(judged.target.session)
            scope = _scope(rule, judged.target, call) if rule else ""
            judged = await self._confirm(request, call, judged, find, verdict, scope)
        self._remember(request, judged.place)
        return judged.target, judged.reader if verdict.decision == "confirm" else None

    async def _asking(self, request: Request[Any], target: Target) -> SecretMoment | None:
        """How the session stands that is to be given a secret; None: none is to be typed.

        Raises:
            InvalidArgument, WrongMode, PermissionDenied: it cannot be typed.
        """
        if not isinstance(request, Send) or not request.secret:
            return None
        from tmuxmcp.shell import secretreader

        secret = secretreader.secret_named(self.settings, request)
        if target.session is None:
            return None  # there is none, or no question in it yet: what acts says so
        return await secretreader.moment(request.secret, secret, target.session)

    async def _action(self, request: Request[Any], place: ShellContext) -> Action:
        from tmuxmcp.gate.actions import action_of

        settings = self.settings
        program = [settings.program or user_shell(), *settings.program_args]
        base = settings.files_root if request.operation.acts == "file" and settings.files_root else settings.cwd
        while True:
            pending = self._typed.get(place.session_id, "")
            action = await action_of(request, place, self._parsing, pending, program, base)
            if self._typed.get(place.session_id, "") == pending:
                return action  # otherwise another call has typed meanwhile

    def _remember(self, request: Request[Any], place: ShellContext) -> None:
        """What now stands in a shell's line without Enter: the next `send` may end it."""
        if not isinstance(request, Send) or not place.takes_commands or place.secret:
            return
        from tmuxmcp.gate.actions import pending_after

        self._typed[place.session_id] = pending_after(self._typed.get(place.session_id, ""), request)
        while len(self._typed) > MOST_HALF_TYPED:
            self._typed.popitem(last=False)

    async def _confirm(
        self, request: Request[Any], call: Call, judged: Judged, find: Find, verdict: Ruling, scope: str
    ) -> Judged:
        """Ask the person; what they agreed to, as it is now.

        Args:
            scope: for what else they may agree; empty: for nothing.

        Raises:
            PolicyDenied: nobody can be asked here.
            ConfirmationDeclined: they did not agree, or it is something else by now.
        """
        name, digest = request.operation.name, digest_of(request, call, judged)
        confirmations = Confirmations(self.settings.state_dir)
        if call.answers != digest and confirmations.take(digest):
            return judged
        message = self.redactor.text(_question(request, judged, verdict))
        question = Question(message, digest)
        session = judged.target.session
        opened = await self._open(question, confirmations, call, scope, session)
        try:
            answer = await first_answer(question, confirmations, call)
        finally:
            if session:
                with anyio.move_on_after(OFFER_S, shield=True):
                    await offer_next(session, self.settings)
        if answer is None:
            raise PolicyDenied(
                f"{name} was not done: a person must confirm it ({verdict.reason}), and this client cannot ask one.",
                hint=f"Have the person run `tmuxmcp policy confirm {opened}` or `tmuxmcp answer` in a terminal of "
                "theirs, then make exactly the same call again.",
                rule=verdict.rule,
                confirmation=opened,
            )
        if not answer:
            raise ConfirmationDeclined(
                f"{name} was not done: the person did not agree ({verdict.reason}).",
                hint="Do not try it in another way; ask them what they want.",
                rule=verdict.rule,
            )
        target = await find()
        now = await self._asking(request, target)
        judged = Judged(target, await self._action_place(target), now.reader if now else None)
        if digest_of(request, call, judged) != digest:
            raise ConfirmationDeclined(
                f"{name} was not done: its session changed while the person was asked, so the answer is void.",
                hint="Look at the session; make the call again if it is still right.",
                rule=verdict.rule,
            )
        return judged

    async def _open(
        self, question: Question, confirmations: Confirmations, call: Call, scope: str, session: Session | None
    ) -> str:
        """Put the question where the command line shows it as well; empty: it was there, and was answered."""
        if call.answers == question.digest and confirmations.of(question.digest) is None:
            return ""
        known = confirmations.of(question.digest) is not None
        where = session.id if session else ""
        opened = confirmations.open(question.digest, question.message, call.caller, scope, where)
        if not known:
            if session:
                wake(session.log.path)  # for who waits until it needs a person
            notify(self.settings.notify_command, {"ID": opened, "KIND": "policy"})
            if session:
                await reach(session, self.settings, opened)
        return opened

    async def _action_place(self, target: Target) -> ShellContext:
        from tmuxmcp.gate.actions import ShellContext, place_of

        session = target.session
        if session is None:
            return ShellContext(cwd=self.settings.cwd or os.getcwd())
        if self.policy and self.policy.looks_at_modes:  # the kernel tells the rest
            await session.refresh()
        return place_of(session.id, await session.look())

    # ---- the audit -----------------------------------------------------------------------------

    @contextmanager
    def audited(self, request: Request[Any], call: Call) -> Iterator[AuditLine]:
        """The audit's line of a call, which is written however the call ends, but for one that is still to go on."""
        line = AuditLine(request.operation, call, request, self.redactor)
        try:
            with self.telling_what_is_missing():
                yield line
        except TmuxMcpError as error:
            self._clean(error)
            line.error(error)
            raise
        except BaseException as error:
            line.failed(error)
            raise
        finally:
            if line.ended:
                self._finish(line)

    def _begin(self, line: AuditLine) -> None:
        if self.settings.audit == "strict" and not line.opened:
            line.opened = self._audit.begun(line.entry())

    def _finish(self, line: AuditLine) -> None:
        self._begin(line)
        if self.settings.audit != "off":
            self._audit.ended(line.opened, line.entry())

    def _clean(self, error: TmuxMcpError) -> None:
        """Take known secrets out of an error before anybody sees it."""
        error.message, error.hint = self.redactor.text(error.message), self.redactor.text(error.hint)
        error.details = self.redactor.value(error.details)


def authorize(request: Request[Any], scopes: frozenset[str]) -> None:
    """Whether a caller with these scopes may do it.

    Raises:
        Unauthorized: no.
    """
    operation = request.operation
    if operation.scope not in scopes:
        raise Unauthorized(
            f"{operation.name} needs the scope {operation.scope}; your token has "
            f"{', '.join(sorted(scopes)) or 'none'}.",
            hint="Ask for a token with that scope.",
            scope=operation.scope,
        )
    if "write" not in scopes and operation.session == "default" and not request.session:
        raise Unauthorized(
            "A token that may only read has no default session.",
            hint="Give a session_id; list_sessions lists them.",
            scope="write",
        )


def _scope(rule: Rule, target: Target, call: Call) -> str:
    """What a person agrees to for the rest of a session: this rule, for this caller, there; empty without a session."""
    if target.session is None:
        return ""
    meta = target.session.meta
    what = [meta.session_id, meta.created_at, call.caller, repr(rule)]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()


def digest_of(request: Request[Any], call: Call, judged: Judged) -> str:
    """What an answer is bound to: who wants what, where, what is in front there, and which process gets a secret."""
    place, session = judged.place, judged.target.session
    made = session.meta.created_at if session else ""
    where = [place.session_id, made, place.cwd, place.foreground, *([repr(judged.reader)] if judged.reader else [])]
    what = [request.operation.name, call.caller, request.arguments(), *where]
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()


def _types_secret(request: Request[Any]) -> bool:
    return isinstance(request, Send) and bool(request.secret)


def _question(request: Request[Any], judged: Judged, verdict: Ruling) -> str:
    """What a person is asked; the agent's own words stand indented and can do nothing to a terminal."""
    place = judged.place
    bounds, contents = request.operation.marks(Bound), request.operation.marks(Content)
    shown = {
        name: _without_values(value) if name not in contents or contents[name].shown else "(not shown)"
        for name, value in request.arguments().items()
        if name not in bounds
    }
    alone = isinstance(request, Run) and list(shown) == ["command"]
    what = shown["command"] if alone else json.dumps(shown, ensure_ascii=False, default=str)
    if judged.reader:
        what += f"\nIt goes to {judged.reader}"
    text = sanitize(what)[0].replace("\n", "\n    ")
    if len(text) > COMMAND_SHOWN_CHARS:
        left_out = len(text) - COMMAND_SHOWN_CHARS
        text = f"{text[: COMMAND_SHOWN_CHARS - 500]}\n    ... ({left_out} characters) ...\n    {text[-500:]}"
    where = f"in session {place.session_id} ({place.foreground or place.mode}, " if place.session_id else "("
    name = request.operation.name
    return f"An agent wants to {name} {where}{sanitize(place.cwd or 'directory unknown')[0]}):\n\n    {text}\n\n\
{verdict.reason[:1].upper()}{verdict.reason[1:]}."


def _without_values(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: "(secret)" if is_secret_name(str(name)) else each for name, each in value.items()}
    return value
