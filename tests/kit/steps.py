"""Steps through real programs: what is sent, and what the answer must say of the program then."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.conftest import SLOW
from tests.kit.agent import Agent

CLEAN = {"HISTFILE": "/dev/null", "LESSHISTFILE": "-", "PYTHON_HISTORY": "/dev/null", "DEBUGINFOD_URLS": "", "LESS": ""}


DRAWN = {"editor", "pager", "fullscreen"}


@dataclass
class Step:
    """Something sent, and what the answer must say."""

    mode: str
    send: dict[str, Any] = field(default_factory=dict)
    shows: str = ""
    """Must be in the answer's content, and for the last step on the screen."""
    evidence: str = "kernel"
    outcome: str = "ready"


@dataclass
class Case:
    """A program, and the steps through it."""

    name: str
    argv: list[str]
    steps: list[Step]
    needs: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


def line(text: str, mode: str, shows: str = "", evidence: str = "kernel", **more: Any) -> Step:
    return Step(mode, {"text": text, "enter": True, **more}, shows, evidence, _outcome(evidence))


def keys(*names: str, mode: str, shows: str = "", evidence: str = "kernel", **more: Any) -> Step:
    return Step(mode, {"keys": list(names), **more}, shows, evidence, _outcome(evidence))


def over(**send: Any) -> Step:
    return Step("exited", send, evidence="", outcome="exited")


def first(mode: str, shows: str = "", evidence: str = "kernel") -> Step:
    return Step(mode, {}, shows, evidence, _outcome(evidence))


def _outcome(evidence: str) -> str:
    """Silence says of no program that it is ready."""
    return "idle" if evidence == "quiet" else "ready"


class Terminal:
    """One session, stepped through."""

    def __init__(self, agent: Agent, argv: list[str], env: dict[str, str] | None = None, **more: Any) -> None:
        self.agent = agent
        made = agent.call(
            "create_session", program=argv[0], args=argv[1:], env=CLEAN | (env or {}), wait_ready=False, **more
        )
        self.id = made["session_id"]

    def step(self, step: Step) -> dict[str, Any]:
        limit = int(30_000 * SLOW)
        if step.send:
            wait = "exit" if step.outcome == "exited" else "ready"
            read = "screen" if step.mode in DRAWN else "auto"  # which would be what has changed
            arguments = {"wait_for": wait, "timeout_ms": limit, "read": read} | step.send
            answer = self.agent.call("send", session_id=self.id, **arguments)["result"]
        else:
            answer = self.agent.call("read", session_id=self.id, wait_for="ready", timeout_ms=limit, view="screen")
        found = (answer["mode"], answer["outcome"], answer["evidence"] or "")
        assert found == (step.mode, step.outcome, step.evidence), f"{step}: {answer}"
        shows = step.shows if step.send else step.shows.rstrip()  # a screen's rows end without their blanks
        assert shows in answer["content"], f"{step}: {answer}"
        return answer

    def close(self) -> None:
        self.agent.call("destroy_session", session_id=self.id, force=True)
