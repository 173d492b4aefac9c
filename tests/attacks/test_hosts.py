"""With a sandbox, and with `hosts_allow`, sessions are made on the hosts that it names and on no others."""

from __future__ import annotations

import pytest

from tests.conftest import SLOW
from tests.kit.agent import Agent, refused
from tests.kit.fixtures import of_file
from tests.kit.sshd import LINUX, Box, a_box, an_agent_near

pytestmark = pytest.mark.skipif(not LINUX, reason="only Linux has this witness")

LONG = int(20_000 * SLOW)


box = of_file(a_box)


def works(agent: Agent, host: str) -> str:
    """Make a session there and use it; what was said of it."""
    made = agent.call("create_session", host=host, ready_timeout_ms=LONG)
    session = {"session_id": made["session_id"]}
    assert made["ready"], made
    ran = agent.run("echo $((6*7))", timeout_ms=LONG, **session)
    assert (ran["exit_code"], ran["output"]) == (0, "42\n")
    sent = agent.call("send", text="echo $((6*7+1))", enter=True, timeout_ms=LONG, **session)
    assert "43" in sent["result"]["content"]
    assert agent.call("get_session", **session)["sandbox"] == "none"
    agent.call("destroy_session", force=True, **session)
    return made["note"] or ""


def test_with_a_sandbox_there_is_no_other_host(box: Box):
    with an_agent_near(box, "--sandbox", "auto") as agent:
        for host in (f"{box.user()}box", "box", f"127.0.0.1:{box.port}"):
            refused("POLICY_DENIED", agent.call, "create_session", host=host)
        assert agent.call("list_sessions")["count"] == 0
        assert agent.run("grep NoNewPrivs /proc/self/status")["output"] == "NoNewPrivs:\t1\n"


def test_with_a_sandbox_the_named_hosts_work(box: Box):
    named = f"{box.user()}box"
    with an_agent_near(box, "--sandbox", "auto", "--hosts-allow", f"{named},nowhere") as agent:
        for host in ("root@box", f"{named}:{box.port}", "asks", f"127.0.0.1:{box.port}"):
            refused("POLICY_DENIED", agent.call, "create_session", host=host)
        refused("POLICY_DENIED", agent.call, "create_session", host=named, sandbox="auto")
        assert "in no sandbox" in works(agent, named)


def test_without_a_sandbox_hosts_allow_is_a_bound_too(box: Box):
    named = f"{box.user()}box"
    with an_agent_near(box, "--hosts-allow", f"{box.user() and '*@'}bo?") as agent:
        refused("POLICY_DENIED", agent.call, "create_session", host="asks")
        assert works(agent, named) == ""
