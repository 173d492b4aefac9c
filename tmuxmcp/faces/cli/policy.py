"""`tmuxmcp policy`: judge a command without running it, and answer what agents wait for."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from tmuxmcp.contract.errors import InvalidArgument, PermissionDenied, PolicyDenied, SessionNotFound
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.arguments import take_own
from tmuxmcp.faces.cli.service import effective
from tmuxmcp.gate.confirmations import Confirmation, Confirmations
from tmuxmcp.machine.ownprocess import in_a_session

if TYPE_CHECKING:
    from tmuxmcp.config import Settings
    from tmuxmcp.contract.request import Request
    from tmuxmcp.gate.actions import ShellContext
    from tmuxmcp.gate.policy.judge import Action

ACTIONS = ("test", "pending", "confirm", "decline")


def policy(options: argparse.Namespace) -> int:
    """`tmuxmcp policy ACTION`."""
    action, *options.words = take_own(options) or [""]
    options.action = action
    if action not in ACTIONS:
        raise InvalidArgument(
            f"`policy` does {', '.join(ACTIONS)}, not {action!r}.", hint="See `tmuxmcp policy --help`."
        )
    settings, _ = effective(options)
    if options.action == "test":
        return _test(settings, options)
    asked = Confirmations(settings.state_dir)
    if options.action == "pending":
        if options.words:
            raise InvalidArgument("`policy pending` takes no words.", hint="See `tmuxmcp policy --help`.")
        return _pending(asked, options)
    return _answer(asked, options)


def _test(settings: Settings, options: argparse.Namespace) -> int:
    import anyio

    from tmuxmcp.gate.actions import ShellContext
    from tmuxmcp.gate.policy.judge import RULE_TOOLS, judge, parse_policy

    if options.tool not in RULE_TOOLS:
        raise InvalidArgument(f"There is no tool {options.tool!r}.", hint=f"Tools: {', '.join(sorted(RULE_TOOLS))}.")
    if not options.words and options.tool in ("run", "send", "run_process"):
        raise InvalidArgument("There is no COMMAND to judge.", hint="See `tmuxmcp policy --help`.")
    cwd = os.path.abspath(os.path.expanduser(options.cwd or settings.cwd or os.getcwd()))
    action = anyio.run(_action, options, ShellContext(cwd=cwd, mode=options.mode))
    verdict = judge(action, parse_policy(settings.policy))
    if options.json:
        output.write_json({"verdict": verdict.decision, "reason": verdict.reason, "rule": verdict.rule or None})
    else:
        why = f": {output.visible(verdict.reason)}" if verdict.reason else ""
        rule = f" [rule {verdict.rule}]" if verdict.rule else ""
        output.write(f"{verdict.decision}{why}{rule}\n")
    return 0 if verdict.decision == "allow" else PolicyDenied.exit_status


async def _action(options: argparse.Namespace, place: ShellContext) -> Action:
    from tmuxmcp.contract.operations import OPERATIONS
    from tmuxmcp.gate.actions import action_of
    from tmuxmcp.gate.policy.judge import Action
    from tmuxmcp.gate.policy.parsing import Parsing

    request = _request(options)
    if request is None:
        row = OPERATIONS.get(options.tool)
        return Action(options.tool, bool(row and row.read_only), mode=place.mode)
    with closing(Parsing()) as parsing:
        return await action_of(request, place, parsing, base=place.cwd or "")


def _request(options: argparse.Namespace) -> Request[Any] | None:
    """What the words say to the tool; None of a tool that has no use for them."""
    from tmuxmcp.contract import requests as q

    words: list[str] = options.words
    text = words[0] if len(words) == 1 else shlex.join(words)
    match options.tool:
        case "run":
            return q.Run(text)
        case "send":
            return q.Send(text, enter=True)
        case "run_process":
            return q.RunProcess(words)
        case "create_session":
            return q.CreateSession("".join(words[:1]), words[1:])
        case "read_file" | "list_directory" if words:
            return q.ReadFile(words[0]) if options.tool == "read_file" else q.ListDirectory(words[0])
        case "write_file" if words:
            return q.WriteFile(words[0], data="")
        case _:
            return None


def _pending(asked: Confirmations, options: argparse.Namespace) -> int:
    found = list(asked.all())
    if options.json:
        output.write_json({"count": len(found), "confirmations": [_as_dict(each) for each in found]})
        return 0
    for each in found:
        state = "confirmed, waits for the agent's next call" if each.granted else "waits for you"
        output.write(f"{each.id}  {state}\n    " + each.message.replace("\n", "\n    ") + "\n")
    if not found:
        output.note("nothing waits for an answer")
    return 0


def _as_dict(question: Confirmation) -> dict[str, Any]:
    return {
        "id": question.id,
        "message": question.message,
        "client": question.client,
        "asked_at": question.asked_at,
        "granted": question.granted,
    }


def _answer(asked: Confirmations, options: argparse.Namespace) -> int:
    if len(options.words) != 1:
        raise InvalidArgument(f"`policy {options.action}` takes one ID.", hint="`tmuxmcp policy pending` shows them.")
    question = options.words[0]
    if options.action == "confirm":
        _check_person()
    known = asked.grant(question) if options.action == "confirm" else asked.decline(question)
    if not known:
        raise SessionNotFound(
            f"There is no question {question!r}; one is forgotten after ten minutes.",
            hint="`tmuxmcp policy pending` shows what waits.",
        )
    granted = options.action == "confirm"
    done = "confirmed: the same call goes through once" if granted else "declined"
    output.tell(options.json, {"id": question, "granted": granted}, done)
    return 0


def _check_person() -> None:
    """Only a person at a terminal confirms, as far as that can be told: no agent by its own session.

    Raises:
        PermissionDenied: this runs without a terminal, in a session, or below a server.
    """
    if not sys.stdin.isatty() or in_a_session():
        raise PermissionDenied(
            "Only a person confirms: this is no terminal of yours, or a session of an agent.",
            hint="Run it in another terminal.",
        )
