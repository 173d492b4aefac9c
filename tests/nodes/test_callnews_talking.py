"""What a call says on its way through a gateway: how it goes on, what a person is asked, who calls, that it is over.

A real gateway over HTTP, in front of a real broker with a policy; both know the fleet's secret, or one does not.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.types import ElicitResult

import tmuxmcp
from tests.conftest import SLOW, eventually, until_exists
from tests.kit.agent import audit_lines, run_command_line
from tests.kit.service import TOKENS, Service, a_service, bearer
from tmuxmcp.config import Settings
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import PolicyDenied
from tmuxmcp.gate.confirmations import Confirmations
from tmuxmcp.nodes.fleet import Fleet
from tmuxmcp.nodes.fleetfile import proof

RULES = [
    {"program": "touch", "action": "confirm", "reason": "it makes a file"},
    {"program": "mkdir", "action": "deny", "reason": "no new directories"},
]
ERAS = ["auto", "legacy"]


@dataclass
class Machine:
    """One machine of a fleet, with a policy, and the files that a gateway needs."""

    directory: Path
    service: Service
    secret: str = field(default_factory=lambda: secrets.token_hex(32))

    @property
    def home(self) -> Path:
        return self.service.state_dir / "home"

    @property
    def brokers(self) -> Path:
        return self.directory / "brokers.toml"

    @property
    def secret_file(self) -> Path:
        return self.directory / "secret"

    def settings(self, secret_file: Path | None = None) -> Settings:
        return Settings(state_dir=self.directory / "gateway", fleet_secret=secret_file or self.secret_file)

    def audit(self) -> list[dict[str, Any]]:
        return audit_lines(self.service.state_dir)

    def write(self, name: str, text: str) -> Path:
        """A file that only we may read."""
        file = self.directory / name
        file.touch(mode=0o600)
        file.write_text(text)
        return file


@contextmanager
def a_machine(directory: Path) -> Iterator[Machine]:
    secret = secrets.token_hex(32)
    (directory / "secret").touch(mode=0o600)
    (directory / "secret").write_text(secret + "\n")
    with a_service(TMUXMCP_POLICY=json.dumps(RULES), TMUXMCP_FLEET_SECRET=str(directory / "secret")) as service:
        machine = Machine(directory, service, secret)
        machine.write("token", TOKENS["agent"])
        machine.write("person", TOKENS["gateway"])
        files = 'token_file = "token"\nperson_token_file = "person"\n'
        machine.write("brokers.toml", f'[[brokers]]\nname = "n1"\nurl = "{service.url}"\n{files}')
        yield machine


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with a_machine(tmp_path_factory.mktemp("talking")) as made:
        yield made


@contextmanager
def a_gateway(machine: Machine, state_dir: Path, secret_file: Path | None = None) -> Iterator[Service]:
    with Service(
        state_dir, "--fleet", str(machine.brokers), TMUXMCP_FLEET_SECRET=str(secret_file or machine.secret_file)
    ) as gateway:
        yield gateway


async def make(fleet: Fleet, name: str) -> str:
    """A session, by the person: nobody is asked."""
    return (await fleet.create_session("bash", name=name)).session_id


async def test_a_long_call_tells_what_was_printed_last(machine: Machine, tmp_path: Path):
    go, told = tmp_path / "go", []

    async def progress(elapsed_s: float, last_line: str) -> None:
        told.append((elapsed_s, last_line))
        if last_line == "half":
            go.touch()

    for number, secret_file in enumerate((machine.secret_file, tmp_path / "none")):  # with the secret and without
        go.unlink(missing_ok=True)
        told.clear()
        async with tmuxmcp.open_fleet(machine.brokers, machine.settings(secret_file)) as fleet:
            name = await make(fleet, f"long{number}")
            done = await fleet.by(Call("agent", progress=progress)).run(f"echo half; {until_exists(go)}", name)
            assert done.exit_code == 0
            await fleet.destroy_session(name, True)
        assert told[-1][1] == "half"
        assert [each[0] for each in told] == sorted(each[0] for each in told)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_policys_question_reaches_the_person_behind_the_gateway(machine: Machine, state_dir: Path, mode: str):
    asked: list[str] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept" if "asked" in params.message else "decline")

    with a_gateway(machine, state_dir) as gateway:
        async with gateway.mcp(mode, elicitation_callback=answer) as client:
            done = await client.call_tool("run", {"command": f"touch asked; echo once >>asked-{mode}"})
            assert done.structured_content["exit_code"] == 0, done
            declined = await client.call_tool("run", {"command": "touch other"})
            denied = await client.call_tool("run", {"command": "mkdir d"})
    assert declined.content[0].text.startswith("CONFIRMATION_DECLINED: ")
    assert denied.content[0].text.startswith("POLICY_DENIED: ")
    assert len(asked) == 2
    assert "It makes a file" in asked[0]
    assert (machine.home / f"asked-{mode}").read_text() == "once\n"
    assert not (machine.home / "other").exists()
    # The machine's audit has the calls under the ids that their client was given.
    for answered, outcome in ((done, "ok"), (declined, "denied"), (denied, "denied")):
        call_id = answered.meta["tmuxmcp/call"]
        lines = [each for each in machine.audit() if (each["call_id"], each["tool"]) == (call_id, "run")]
        assert [each["outcome"] for each in lines] == [outcome]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_secret_is_asked_for_in_the_page_of_the_gateway(machine: Machine, state_dir: Path, mode: str):
    asked: list[Any] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        asked.append(params)
        return ElicitResult(action="decline")

    with a_gateway(machine, state_dir) as gateway:
        async with gateway.mcp(mode, elicitation_callback=answer) as client:
            made = (await client.call_tool("create_session", {"program": "bash"})).structured_content
            asks = {"session_id": made["session_id"], "message": "The password.", "secret": True}
            told = await client.call_tool("request_user_input", asks)
        assert told.structured_content["outcome"] == "declined", told
        page, _, part = asked[0].url.partition("/#")
        assert page == gateway.url
        request = told.structured_content["request_id"]
        assert part == f"session={made['session_id']}&request={request}"
        assert request.endswith("_at_n1")
    assert "This is on n1." in asked[0].message


async def test_a_question_that_is_answered_elsewhere_is_taken_back(machine: Machine, state_dir: Path):
    reached = anyio.Event()

    async def answer(context: Any, params: Any) -> ElicitResult:
        reached.set()
        await anyio.sleep_forever()
        raise AssertionError

    questions = Confirmations(machine.service.state_dir)

    with a_gateway(machine, state_dir) as gateway:
        async with gateway.mcp("legacy", elicitation_callback=answer) as client, anyio.create_task_group() as tasks:
            done = []

            async def run() -> None:
                done.append(await client.call_tool("run", {"command": "touch elsewhere"}))

            tasks.start_soon(run)
            with anyio.fail_after(20 * SLOW):
                await reached.wait()
            assert [questions.grant(each.id) for each in questions.all()] == [True]
        assert done[0].structured_content["exit_code"] == 0, done


async def test_without_the_secret_nobody_is_asked_and_nothing_is_believed(
    machine: Machine, state_dir: Path, tmp_path: Path
):
    async def answer(context: Any, params: Any) -> ElicitResult:
        raise AssertionError(params.message)

    with a_gateway(machine, state_dir, tmp_path / "none") as gateway:
        async with gateway.mcp("legacy", elicitation_callback=answer) as client:
            denied = await client.call_tool("run", {"command": "touch x"})
    assert denied.content[0].text.startswith("POLICY_DENIED: ")
    assert "tmuxmcp policy confirm c_" in denied.content[0].text
    async with tmuxmcp.open_fleet(machine.brokers, machine.settings(tmp_path / "none")) as fleet:
        name = await make(fleet, "agents")
        with pytest.raises(PolicyDenied):  # a person who cannot show that they are one
            await fleet.run("mkdir d", name)
        await fleet.destroy_session(name, True)


async def test_a_machine_that_does_not_know_the_secret_says_so(machine: Machine, state_dir: Path, tmp_path: Path):
    with Service(state_dir, TMUXMCP_FLEET_SECRET=str(tmp_path / "none")) as other:
        text = machine.brokers.read_text()
        file = machine.write("two.toml", text + text.replace("n1", "n2").replace(machine.service.url, other.url))
        async with tmuxmcp.open_fleet(file, machine.settings()) as fleet:
            notes = {each.name: (each.alive, each.note) for each in await fleet.machines()}
        assert notes == {"n1": (True, ""), "n2": (True, "it does not know the fleet's secret: to it you are an agent")}


async def test_the_person_at_a_command_line_is_the_person_on_the_machine(machine: Machine, state_dir: Path):
    (state_dir / "home").mkdir(exist_ok=True)
    before = len(machine.audit())

    def tmuxmcp(verb: str, *words: str, status: int = 0, secret: str = str(machine.secret_file)):
        fleet = ("--fleet", str(machine.brokers))
        return run_command_line(state_dir, verb, *fleet, *words, status=status, TMUXMCP_FLEET_SECRET=secret)

    assert tmuxmcp("new", "--name", "person", "bash").stdout == "person@n1\n"
    tmuxmcp("run", "person@n1", "mkdir -p made && touch made/file")
    assert (machine.home / "made" / "file").exists()
    assert len(machine.audit()) == before  # what the person does is not the audit's business
    other = machine.write("other-secret", secrets.token_hex(32))
    assert "UNAUTHORIZED" in tmuxmcp("run", "person@n1", "true", status=125, secret=str(other)).stderr
    assert "fleet_secret" in tmuxmcp("fleet", status=1, secret=str(other)).stdout
    # An agent of a gateway that knows the secret stays an agent.
    with a_gateway(machine, state_dir) as gateway:
        refused = gateway.rpc("run", command="mkdir d", session_id="person@n1")["error"]["data"]
        assert refused["code"] == "POLICY_DENIED"
    tmuxmcp("kill", "--force", "person@n1")


def test_an_agents_token_cannot_pose_as_the_person(machine: Machine):
    service = machine.service
    service.result("create_session", name="posing", program="bash")

    def ask(token: str, command: str, call_id: str = "forged", **headers: str) -> httpx2.Response:
        said = {"person": True, "call_id": call_id, "talk": {"line": "a", "key": "b", "asks": True, "tells": True}}
        headers = {"tmuxmcp-gateway": json.dumps(said), **headers}
        with service.http(token, **headers) as client:
            body = {"jsonrpc": "2.0", "id": 1, "method": "run"}
            return client.post("/rpc", json=body | {"params": {"command": command, "session_id": "posing"}})

    for headers in ({}, {"tmuxmcp-fleet": ""}):
        answer = ask("agent", "mkdir d", **headers)
        assert answer.json()["error"]["data"]["code"] == "POLICY_DENIED"
        assert answer.headers["tmuxmcp-call"] != "forged"
    wrong = (
        "x",
        machine.secret,  # it does not travel itself
        proof("0" * 64, TOKENS["agent"]),
        proof(machine.secret, TOKENS["other"]),  # another client's
    )
    for each in wrong:
        answer = ask("agent", "mkdir d", **{"tmuxmcp-fleet": each})
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHORIZED")
    # A gateway whose token may only read speaks for nobody who may do more.
    answer = ask("viewer", "mkdir d", **{"tmuxmcp-fleet": proof(machine.secret, TOKENS["viewer"])})
    assert answer.json()["error"]["data"]["code"] == "UNAUTHORIZED"
    # And nobody answers for a person who cannot show it: what is asked here waits on the machine alone.
    assert ask("agent", "touch x").json()["error"]["data"]["code"] == "POLICY_DENIED"
    with service.http("agent") as client:
        answer = client.post("/fleet/answer", json={"line": "a", "key": "b", "number": 1, "said": True})
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHORIZED")
        assert client.post("/fleet/answer", content=b"[", headers={"tmuxmcp-gateway": "["}).status_code == 400
        assert client.post("/fleet/nothing", json={"line": "a"}).status_code == 400
    real = ask("agent", "mkdir real", **{"tmuxmcp-fleet": proof(machine.secret, TOKENS["agent"])})
    assert real.json()["result"]["exit_code"] == 0
    assert real.headers["tmuxmcp-call"] == "forged"
    bad = ask("agent", "true", "for\nged", **{"tmuxmcp-fleet": proof(machine.secret, TOKENS["agent"])})
    assert bad.json()["error"]["code"] == "INVALID_ARGUMENT"
    service.result("destroy_session", session_id="posing", force=True)


async def test_a_call_that_is_given_up_is_given_up_at_its_machine(machine: Machine, state_dir: Path):
    waits = {"session_ids": ["given@n1"], "wait_for": "exit", "timeout_ms": 40_000}
    cancelled = 'tmuxmcp_errors_total{code="CANCELLED",operation="wait"}'
    before = machine.service.metric(cancelled)

    async def counts(name: str, number: float) -> bool:
        return await anyio.to_thread.run_sync(machine.service.metric, name) == number

    with a_gateway(machine, state_dir) as gateway:
        gateway.result("create_session", name="given", program="bash")
        async with (
            httpx2.AsyncClient(base_url=gateway.url, headers=bearer("agent"), timeout=60 * SLOW) as client,
            anyio.create_task_group() as tasks,
        ):
            body = {"jsonrpc": "2.0", "id": 1, "method": "wait", "params": waits}
            tasks.start_soon(partial(client.post, "/rpc", json=body))
            await eventually(lambda: counts("tmuxmcp_calls_running", 1))
            tasks.cancel_scope.cancel()
        await eventually(lambda: counts("tmuxmcp_calls_running", 0))
        assert machine.service.metric(cancelled) == before + 1
        gateway.result("destroy_session", session_id="given@n1", force=True)
