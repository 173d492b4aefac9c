from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.kit.agent import eventually
from tmuxmcp.config import Settings, load_settings
from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.contract.settings import Secret
from tmuxmcp.machine import usercommands
from tmuxmcp.machine.usercommands import SECRET_BYTES, value_of

ENV = {"PATH": os.environ["PATH"]}


async def read(source: str | list[str], **variables: str) -> bytes:
    async with value_of("db", Secret(source=source), ENV | variables) as value:
        kept, found = value, bytes(value)
    assert not any(kept)  # overwritten
    return found


def ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text()


def private(path: Path, data: bytes, mode: int = 0o600) -> str:
    path.write_bytes(data)
    path.chmod(mode)
    return f"file:{path}"


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"word", b"word"),
        (b"a word \n", b"a word "),
        (b"word\r\n", b"word"),
        ("ünïcode".encode(), "ünïcode".encode()),
        (b"\xff\xfe'\"$`\\;", b"\xff\xfe'\"$`\\;"),
        (b"x" * SECRET_BYTES + b"\r\n", b"x" * SECRET_BYTES),
    ],
)
async def test_a_value_is_one_line_of_a_private_file_or_a_command(tmp_path: Path, data: bytes, value: bytes):
    assert await read(private(tmp_path / "s", data)) == value
    assert await read(["cat", str(tmp_path / "s")]) == value
    assert await read(f"command:cat '{tmp_path}/s'") == value


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"one\ntwo\n", b"word\n\n", b"wo\x03rd", b"wo\0rd", b"wo\x7frd", b"\x1b[A", b"w" * (SECRET_BYTES + 1)],
)
async def test_what_is_no_line_of_text_is_no_value(tmp_path: Path, data: bytes):
    for source in (private(tmp_path / "s", data), ["cat", str(tmp_path / "s")]):
        with pytest.raises(TmuxMcpError) as refused:
            await read(source)
        assert refused.value.code == "INVALID_ARGUMENT"
        assert "word" not in str(refused.value)


async def test_a_file_is_the_users_alone_and_no_link_leads_to_it(tmp_path: Path):
    kept = tmp_path / "kept"
    for mode in (0o640, 0o604, 0o660):
        with pytest.raises(TmuxMcpError, match="PERMISSION_DENIED"):
            await read(private(kept, b"word", mode))
    private(kept, b"word")
    (tmp_path / "near").symlink_to("kept")
    assert await read(f"file:{tmp_path}/near") == b"word"
    (tmp_path / "far").symlink_to(kept)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name, code in (("far", "IO_ERROR"), ("pipe", "PERMISSION_DENIED"), ("none", "FILE_NOT_FOUND")):
        with pytest.raises(TmuxMcpError, match=code):
            await read(f"file:{tmp_path}/{name}")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
async def test_a_file_of_another_user_is_refused(tmp_path: Path):
    source = private(tmp_path / "s", b"word")
    os.chown(tmp_path / "s", 65534, 65534)
    with pytest.raises(TmuxMcpError, match="PERMISSION_DENIED"):
        await read(source)


async def test_a_command_runs_in_no_shell_and_what_it_says_of_errors_is_not_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    assert await read(["printf", "%s", "$HOME;`id`"]) == b"$HOME;`id`"
    with pytest.raises(TmuxMcpError) as failed:
        await read(["sh", "-c", "echo word; echo word >&2; exit 3"])
    assert failed.value.code == "IO_ERROR"
    assert "3" in str(failed.value)
    assert "word" not in str(failed.value) + "".join(capfd.readouterr())
    for argv in (["no-such-program-word"], ["/"], [str(tmp_path)]):
        with pytest.raises(TmuxMcpError, match="PROGRAM_NOT_FOUND"):
            await read(argv)


async def test_a_command_that_takes_too_long_or_prints_too_much_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(usercommands, "COMMAND_S", 0.2)
    with pytest.raises(TmuxMcpError, match="TIMEOUT"):
        await read(["sh", "-c", f"sleep 61 & echo $! > {tmp_path}/pid; echo word; wait"])
    monkeypatch.setattr(usercommands, "COMMAND_S", 10.0)
    child = int((tmp_path / "pid").read_text())
    eventually(lambda: ended(child))
    with pytest.raises(TmuxMcpError, match="INVALID_ARGUMENT"):
        await read(["yes"])


def is_tied(pid: int) -> bool:
    """Whether the kernel tells somebody what becomes of a file that a process has open."""
    flags = [int(each.read_text().split()[3], 8) for each in Path(f"/proc/{pid}/fdinfo").iterdir()]
    return any(each & os.O_ASYNC for each in flags)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing ends it")
async def test_a_command_ends_with_a_killed_broker(tmp_path: Path):
    code = (
        "import anyio, sys; from tests.machine.test_usercommands import read\n"
        "anyio.run(read, ['sh', '-c', 'sleep 61 & echo $! > $0.new; mv $0.new $0; wait', sys.argv[1]])"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "pid")]
    broker = await anyio.open_process(argv, cwd=Path(__file__).parents[2])
    eventually((tmp_path / "pid").exists, 20)
    child = int((tmp_path / "pid").read_text())
    eventually(lambda: is_tied(child))  # right after its start nothing ends it yet
    broker.kill()
    await broker.aclose()
    eventually(lambda: ended(child))


async def test_what_a_command_leaves_running_goes_on(tmp_path: Path):
    assert await read(["sh", "-c", f"sleep 61 >/dev/null & echo $! > {tmp_path}/pid; echo word"]) == b"word"
    child = int((tmp_path / "pid").read_text())
    assert not ended(child)
    os.kill(child, signal.SIGKILL)


# ---- the setting ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [
        *(
            {"source": each}
            for each in ("hunter", "hunter:x", "file:hunter", "env:hunter", "command:", "command:'hunter", [], [""])
        ),
        *(
            {"source": "file:/x"} | each
            for each in ({"for": ["hunter"]}, {"for": "hunter"}, {"hunter": 1}, {"ask": "hunter"})
        ),
        "hunter",
        {"for": ["/hunter"]},
    ],
)
def test_a_wrong_setting_is_refused_and_not_repeated(row: Any):
    """Somebody who writes the secret itself into the settings does not find it in a log."""
    with pytest.raises(TmuxMcpError) as refused:
        load_settings({"secrets": {"db": row}}, Path(os.devnull))
    assert refused.value.code == "INVALID_ARGUMENT"
    assert "secrets" in str(refused.value)
    assert "hunter" not in str(refused.value)


def test_secrets_come_from_files_flags_and_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "config.toml"
    file.write_text('[secrets.db]\nsource = "file:~/pw"\nfor = ["/usr/bin/sudo"]\nsession = "db-*"\nask = false\n')
    row = {"source": "file:~/pw", "for": ["/usr/bin/sudo"], "session": "db-*", "ask": False}
    found = load_settings({}, file)
    assert found.model_dump(mode="json")["secrets"] == {"db": row}
    assert found.secrets["db"].file == os.path.expanduser("~/pw")
    assert Path(found.secrets["db"].file) in found.own_files  # kept from sandboxes
    assert (found.secrets["db"].allows("db-1"), found.secrets["db"].allows("a-db-1")) == (True, False)
    monkeypatch.setenv("TMUXMCP_SECRETS", '{"a": {"source": ["pass", "a b"]}}')
    [name] = [*(given := load_settings({}, file).secrets)]
    assert (name, given[name].argv, given[name].programs, given[name].ask) == ("a", ["pass", "a b"], [], True)
    assert [*Settings(secrets='{"b": {"source": "command:op read"}}').secrets] == ["b"]  # type: ignore[arg-type]  # a flag
