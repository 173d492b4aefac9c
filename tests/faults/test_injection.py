"""Text that a shell or tmux would run, in every string of every operation, in titles, directories and names.

Driven by the input models: a new operation is covered as soon as it is in the table.
"""

from __future__ import annotations

import json
import os
import types
from collections.abc import Awaitable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import anyio
import pytest

from tests.conftest import eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.request import Operation
from tmuxmcp.contract.settings import BrokerSettings

CANARY = "canary"


def that_run(canary: Path) -> list[str]:
    """Strings that make `canary` where something runs them."""
    touch = f"touch {canary}"
    return [
        f"#({touch})",
        f"#{{E:#({touch})}}",
        f"$({touch})",
        f"`{touch}`",
        f"; {touch}",
        f"x; {touch} ;",
        f"'; {touch}; '",
        f'"; {touch}; "',
        f"' ; run-shell '{touch}' ; '",
        f'" ; run-shell "{touch}" ; "',
        f"x\n{touch}\n",
        f"x\r{touch}\r",
        f"x\nrun-shell '{touch}'\n",
        f"| {touch}",
        f"&& {touch}",
        f"}} {touch} {{",
        f"\x1b]0;#({touch})\x07",
        f"\xff\nrun-shell '{touch}'",
    ]


TAKEN_BY_TMUX = [
    "%H_#{session_name}_%s%n",
    "#[bg=red,blink]x",
    "x;",
    ";",
    "\\;",
    "\\",
    "-t",
    "--",
    "-rf",
    "=a",
    "bysta*",
    "byst",
    "bystander:",
    "bystander.0",
    "%0",
    "$0",
    "@0",
    "{last}",
    "!",
    "+",
    "~",
    ".",
    "..",
    "../bystander",
    "_tmuxmcp",
    "",
    " ",
    "\n",
    "\t",
    "\x01\x02\x03\x04\x1a\x1c",
    "\x7f\x80\x9f",
    "\u202ereversed\U000e0041",
    "\udcff\udc80",
    "日本語é",
    "%end 1 1 0",
    "x" * 20_000,
]
"""What tmux takes for something else than text, and what is hard to write."""


def corpus(canary: Path) -> list[str]:
    """All of them."""
    return [*that_run(canary), *TAKEN_BY_TMUX]


REFUSED = ["\0", "a\0b"]
"""What no argument of a program can hold: tried apart, as it would keep the others of a list from being tried."""

NOBODY_S = 0.05
"""How long a request for a person's input waits here, whom there is none of."""

TYPED = {("run", "command")}
"""What is run as it is: that is what it is for."""

ELSEWHERE = {(f"git_{name}", argument) for name in ("log", "diff") for argument in ("path", "ref")}
"""What means something in a repository alone: `tests/broker/test_machine_git_texts.py`."""

ALONE_IN_PYTHON = {"git_status", "export_recording"}
"""What starts a Python for each call, and no tmux: what tmux takes for something else is tried in part."""

GIVEN: dict[str, Any] = {
    "session_id": "target",
    "command": ":",
    "pattern": "x",
    "signal": "CONT",
    "action": "move",
    "argv": ["true"],
    "path": "file",
    "data": "x",
    "text": "x",
    "message": "x",
}
"""Something right for arguments that must be there; anything else of these types gets a guess."""

QUICK: dict[str, Any] = {"timeout_ms": 20, "timeout_s": 1, "grace_ms": 50, "ready_timeout_ms": 100, "idle_ms": 5}
QUICK |= {"wait_ready": False, "force": True}
ALONE: dict[tuple[str, str], dict[str, Any]] = {
    ("read", "pattern"): {"wait_for": "pattern"},
    ("send", "pattern"): {"wait_for": "pattern", "text": "x"},
    ("send", "prompt_pattern"): {"text": "x"},
    ("send", "session_id"): {"text": "x"},
    ("read", "prompt_pattern"): {"wait_for": "ready"},
    ("read", "screen_id"): {"view": "diff"},
    ("create_session", "args"): {"program": "true"},
    ("create_session", "env"): {"program": "true"},
    ("create_session", "cwd"): {"program": "true"},
    ("create_session", "name"): {"program": "true"},
}
"""What makes an argument count."""


def kinds(annotation: Any) -> set[str]:
    """Which of text, list, dict an argument takes."""
    origin = get_origin(annotation)
    if annotation is str:
        return {"text"}
    if origin is Annotated:
        return kinds(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return set().union(*(kinds(each) for each in get_args(annotation)))
    if origin is Sequence:
        return {"list"} if kinds(get_args(annotation)[0]) == {"text"} else set()
    if origin is dict:
        return {"dict"}
    return set()


def strings_of(operation: Operation) -> list[tuple[str, str]]:
    """Arguments that take any text, and how."""
    fields = operation.arguments.items()
    return [(name, kind) for name, field in fields for kind in sorted(kinds(field.annotation))]


def test_every_string_is_seen() -> None:
    assert ("args", "list") in strings_of(OPERATIONS["create_session"])
    assert ("env", "dict") in strings_of(OPERATIONS["create_session"])
    assert {name for name, _ in strings_of(OPERATIONS["send"])} >= {"text", "key", "keys", "session_id", "pattern"}
    assert kinds(Literal["a"]) == set()


def base(operation: Operation) -> dict[str, Any]:
    """Arguments with which it does something small."""
    given = {}
    for name, field in operation.arguments.items():
        if name in QUICK:
            given[name] = QUICK[name]
        elif field.is_required() or name == "session_id":
            choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
            given[name] = GIVEN.get(name) or (choices[0] if choices else "x")
    return given


def filled(operation: Operation, name: str, kind: str, texts: list[str]) -> Iterator[dict[str, Any]]:
    """Calls in which one argument is made of these texts."""
    given = base(operation) | ALONE.get((operation.name, name), {})
    words = [text for text in texts if "\0" not in text]
    if kind == "text":
        yield from (given | {name: text} for text in texts)
        return
    starts_programs = operation.name in ("create_session", "run_process")
    for some in (words, *([text] for text in (REFUSED if starts_programs else texts))):
        if kind == "list":
            yield given | {name: [*given.get(name, []), *some]}
            yield given | {name: some}
        else:
            yield given | {name: {f"NAME{number}": text for number, text in enumerate(some)}}
            yield from (given | {name: {text: "x"}} for text in (some if len(some) == 1 else some[::9]))


@pytest.fixture
async def armed(state_dir: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A broker with a session to aim at, and one beside it."""
    where = tmp_path / "where"
    where.mkdir()
    monkeypatch.chdir(where)
    settings = BrokerSettings(
        state_dir=state_dir,
        program="cat",
        cwd=str(where),
        files_root=str(where),
        max_sessions=100,
        max_input_bytes=50_000,
    )
    async with Broker.open(settings) as broker:
        await broker.create_session(program="bash", name="bystander")
        yield broker


async def unharmed(broker: Broker, canary: Path, pid: int) -> None:
    """Nothing ran, nothing else was touched."""
    assert not os.path.exists(canary)  # noqa: ASYNC240 - as fast as anything
    assert broker.tmux.pid == pid
    bystander = await broker.run("echo $((6 * 7))", session_id="bystander")
    assert (bystander.output, bystander.exit_code) == ("42\n", 0)
    assert "canary" not in (await broker.read(session_id="bystander", view="scrollback")).content


async def outcome(call: Awaitable[object]) -> str:
    """The code of its error, which JSON can carry, or nothing."""
    try:
        await call
    except TmuxMcpError as error:
        json.dumps(error.as_dict())
        return error.code
    return ""


async def target(broker: Broker) -> None:
    """The session that is aimed at: it prints what it is given and runs nothing."""
    live = {row.session_id for row in (await broker.list_sessions(include_exited=False)).sessions}
    for extra in live - {"target", "bystander"}:
        await broker.destroy_session(extra, force=True)
    if "target" not in live:
        await broker.create_session(program="cat", name="target", wait_ready=False)


@pytest.mark.parametrize("name", OPERATIONS)
async def test_no_text_of_an_argument_is_run(armed: Broker, tmp_path: Path, name: str) -> None:
    operation, canary, pid = OPERATIONS[name], tmp_path / CANARY, armed.tmux.pid
    texts = [*that_run(canary), *TAKEN_BY_TMUX[::5]] if name in ALONE_IN_PYTHON else corpus(canary)
    for argument, kind in strings_of(operation):
        if (name, argument) in TYPED | ELSEWHERE:
            continue
        for number, arguments in enumerate(filled(operation, argument, kind, [*texts, *REFUSED])):
            if number % 10 == 0 or name == "destroy_session":
                await target(armed)
            with anyio.move_on_after(NOBODY_S if name == "request_user_input" else None):
                assert await outcome(armed.perform(operation, arguments, Call())) != "INTERNAL", (argument, arguments)
            assert not os.path.exists(canary), (argument, arguments)  # noqa: ASYNC240 - as above
    await target(armed)
    await unharmed(armed, canary, pid)


async def test_no_title_directory_or_name_of_a_program_is_run(armed: Broker, tmp_path: Path) -> None:
    """What a program chooses comes back to us through tmux and /proc, and from there into our own commands."""
    canary, pid = tmp_path / CANARY, armed.tmux.pid
    touch = f"cd {tmp_path}; touch {CANARY}".replace("/", "${HOME%%[!/]*}")
    for number, text in enumerate(
        (f"#({touch})", f"$({touch})", f"'; {touch}; '", "x;", "-t", "#[bg=red]%H", "a\nb|c")
    ):
        directory = tmp_path / "where" / text.replace("/", "_")
        directory.mkdir()
        program = directory / f"run {text}".replace("/", "_")
        program.symlink_to("/bin/cat")
        name = f"t{number}"
        await armed.create_session(program=str(program), name=name, cwd=str(directory), wait_ready=False)
        await armed.create_session(program="bash", name=f"{name}b", cwd=str(directory))
        said = 'X=$(pwd); printf "\\033]2;%s\\007\\033k%s\\033\\134\\033]7;file://%s\\007" "$X" "$X" "$X"'
        await armed.run(said, session_id=f"{name}b")
        facts = await armed.get_session(f"{name}b")
        assert facts.cwd == str(directory)
        for session_id in (name, f"{name}b"):
            await armed.read(session_id=session_id, view="screen")
            await armed.resize(rows=30, cols=100, session_id=session_id)
        again = await armed.create_session(program="cat", cwd=facts.cwd, wait_ready=False)
        assert again.cwd == str(directory)
    await armed.list_sessions()
    async with Broker.open(armed.settings) as other:  # adopts them all
        assert (await other.list_sessions()).count == (await armed.list_sessions()).count
    for row in (await armed.list_sessions()).sessions:
        if row.session_id != "bystander":
            await armed.destroy_session(row.session_id, force=True)
    await unharmed(armed, canary, pid)


async def test_the_canary_would_sing(armed: Broker, tmp_path: Path) -> None:
    """That the corpus works where somebody does run it."""
    canary = tmp_path / CANARY

    def sung() -> bool:
        armed.tmux.run("display-message", "-p", corpus(canary)[0])  # tmux does not wait for what it runs
        return canary.exists()

    await eventually(sung)
    canary.unlink()
    os.system(corpus(canary)[2])  # noqa: ASYNC221 - a shell that runs it
    assert canary.exists()
