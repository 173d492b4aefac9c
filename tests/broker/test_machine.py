"""Processes and files through a real client over stdio: names, defaults, codes."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import a_state_dir
from tests.kit.agent import Agent, an_agent, eventually, refused
from tests.kit.fixtures import of_file

agent = of_file(
    an_agent, "--tools", "core,process,files", "--max-wait-ms", "4000", EDITOR="ed", GITHUB_TOKEN="geheim", STRANGE="1"
)


# ---- processes ----------------------------------------------------------------------------------


def test_a_process_and_all_fields(agent: Agent):
    result = agent.call(
        "run_process", argv=["sh", "-c", "cat; echo oops >&2; exit 3"], stdin="hällo\n", timeout_ms=4000
    )
    usage, duration = result.pop("usage"), result.pop("duration_ms")
    assert usage["cpu_ms"] >= 0
    assert usage["max_rss_kb"] > 0
    assert duration >= 0
    assert result["cwd"] == agent.call("run_process", argv=["pwd", "-P"])["stdout"].rstrip("\n")
    assert result == {
        "rc": 3,
        "signal": None,
        "cwd": result["cwd"],
        "sandbox": "none",
        "timed_out": False,
        "truncated": False,
        "encoding": "utf-8",
        "stdout_bytes": 7,
        "stderr_bytes": 5,
        "effective_timeout_ms": None,
        "note": None,
        "stderr": "oops\n",
        "stdout": "hällo\n",
    }


def test_bytes_go_in_and_come_out_as_base64(agent: Agent):
    data = bytes(range(256))
    result = agent.call("run_process", argv=["cat"], stdin_base64=base64.b64encode(data).decode())
    assert result["encoding"] == "base64"
    assert base64.b64decode(result["stdout"]) == data


def test_environment_is_the_allow_list_and_what_is_named(agent: Agent):
    shown = agent.call("run_process", argv=["env"], env={"MINE": "x y"})["stdout"].splitlines()
    values = dict(line.split("=", 1) for line in shown)
    assert (values["EDITOR"], values["MINE"], values["TERM"]) == ("ed", "x y", "dumb")
    assert not {"GITHUB_TOKEN", "STRANGE", "COLORTERM"} & set(values)


def test_long_output_keeps_head_and_tail(agent: Agent):
    result = agent.call("run_process", argv=["seq", "100000"], max_output_bytes=500)
    assert (result["truncated"], result["stdout_bytes"]) == (True, 588_895)
    assert result["stdout"].startswith("1\n2\n")
    assert result["stdout"].endswith("\n100000\n")
    assert len(result["stdout"]) <= 500


def test_time_is_clamped_like_a_wait(agent: Agent):
    result = agent.call("run_process", argv=["sleep", "100"], timeout_ms=60_000)
    assert (result["timed_out"], result["signal"], result["rc"]) == (True, "TERM", None)
    assert result["effective_timeout_ms"] == 4000


def test_limits_bound_it(agent: Agent):
    result = agent.call("run_process", argv=["sleep", "100"], limits={"duration_s": 0.2, "cpu_percent": 50})
    assert (result["timed_out"], result["effective_timeout_ms"]) == (True, 200)
    assert result["note"] == "Not limited: cpu_percent."


def test_what_it_leaves_running_is_ended_and_told(agent: Agent):
    result = agent.call("run_process", argv=["sh", "-c", "sleep 1000 & echo $!"])
    assert "left running" in result["note"]
    assert not psutil.pid_exists(int(result["stdout"]))


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("INVALID_ARGUMENT", {"argv": []}),
        ("INVALID_ARGUMENT", {"argv": "ls -l"}),
        ("INVALID_ARGUMENT", {"argv": ["echo", "a\0b"]}),
        ("INVALID_ARGUMENT", {"argv": ["cat"], "stdin": "a", "stdin_base64": "YQ=="}),
        ("INVALID_ARGUMENT", {"argv": ["cat"], "stdin_base64": "not base64"}),
        ("INVALID_ARGUMENT", {"argv": ["cat"], "env": {"A=B": "1"}}),
        ("INVALID_ARGUMENT", {"argv": ["cat"], "limits": {"memory": 1}}),
        ("PROGRAM_NOT_FOUND", {"argv": ["no-such-program"]}),
        ("CWD_NOT_FOUND", {"argv": ["true"], "cwd": "/no/such/directory"}),
        ("RESOURCE_LIMIT", {"argv": ["cat"], "stdin": "x" * 1_100_000}),
    ],
)
def test_errors_of_processes(agent: Agent, code: str, arguments: dict[str, object]):
    refused(code, agent.call, "run_process", **arguments)


def test_text_is_cleaned_for_a_model_and_the_result_exact(agent: Agent):
    answer = agent.raw("run_process", argv=["printf", r"a\033[31m\xe2\x80\xaeb\n"])
    assert answer.structured_content["stdout"] == "a\033[31m\u202eb\n"
    text = answer.content[0].text
    assert text.startswith("a[31m<U+202E>b\n[rc=0 ")


def test_a_client_that_goes_takes_its_processes_with_it(tmp_path: Path):
    try:
        with an_agent("--tools", "process") as agent:
            pid_file = tmp_path / "pid"
            script = f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 1000"
            agent.portal.start_task_soon(agent.client.call_tool, "run_process", {"argv": ["sh", "-c", script]})
            eventually(pid_file.exists)
            os.kill(agent.server.pid, 9)
            eventually(lambda: not psutil.pid_exists(int(pid_file.read_text())))
    except* Exception:  # the client finds its server gone
        pass
    assert not psutil.pid_exists(int(pid_file.read_text()))


# ---- files --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rooted() -> Iterator[Agent]:
    """A client whose files lie beneath a root."""
    with a_state_dir() as directory:
        root = directory / "root"
        root.mkdir()
        with Agent(directory, "--tools", "files", "--files-root", str(root)) as opened:
            yield opened


def test_files_are_not_offered_unless_asked_for(tmp_path: Path):
    from tmuxmcp.faces.mcp import select

    assert not {"read_file", "write_file", "list_directory"} & set(select(["core", "process", "human"]))


def test_write_read_and_list(rooted: Agent):
    assert rooted.call("write_file", path="a/b.txt", data="grün\nrot\n", create_dirs=True, mode="0640") == {"bytes": 10}
    assert rooted.call("read_file", path="a/b.txt") == {
        "size": 10,
        "offset": 0,
        "next_offset": 10,
        "truncated": False,
        "encoding": "utf-8",
        "data": "grün\nrot\n",
    }
    piece = rooted.call("read_file", path="a/b.txt", max_bytes=3)
    assert (piece["data"], piece["truncated"], piece["next_offset"]) == ("gr", True, 2)
    assert rooted.call("read_file", path="a/b.txt", start_line=2, end_line=2)["data"] == "rot\n"
    listing = rooted.call("list_directory", path="a")
    entry = listing["entries"][0]
    assert entry.pop("mtime").endswith("Z")
    assert entry == {"name": "b.txt", "type": "file", "mode": "0640", "size": 10}
    assert (listing["count"], listing["truncated"]) == (1, False)


def test_bytes_are_base64_both_ways(rooted: Agent):
    data = base64.b64encode(bytes(range(256))).decode()
    assert rooted.call("write_file", path="bin", data=data, encoding="base64", mode=0o600) == {"bytes": 256}
    result = rooted.call("read_file", path="bin")
    assert (result["encoding"], result["data"]) == ("base64", data)


def test_names_that_are_not_utf8_are_listed(rooted: Agent):
    root = rooted.state_dir / "root"
    os.mkdir(root / "odd")
    open(os.path.join(os.fsencode(root), b"odd", b"\xff"), "w").close()
    assert [entry["name"] for entry in rooted.call("list_directory", path="odd")["entries"]] == ["\\udcff"]


@pytest.mark.parametrize(
    ("code", "tool", "arguments"),
    [
        ("PATH_OUTSIDE_ROOT", "read_file", {"path": "/etc/passwd"}),
        ("PATH_OUTSIDE_ROOT", "write_file", {"path": "../x", "data": ""}),
        ("PATH_OUTSIDE_ROOT", "list_directory", {"path": ".."}),
        ("FILE_NOT_FOUND", "read_file", {"path": "missing"}),
        ("FILE_NOT_FOUND", "write_file", {"path": "missing/x", "data": ""}),
        ("FILE_NOT_FOUND", "list_directory", {"path": "missing"}),
        ("INVALID_ARGUMENT", "read_file", {"path": "."}),
        ("INVALID_ARGUMENT", "read_file", {"path": "a", "offset": 1, "start_line": 2}),
        ("INVALID_ARGUMENT", "read_file", {"path": "a", "start_line": 3, "end_line": 2}),
        ("INVALID_ARGUMENT", "write_file", {"path": "a", "data": "!", "encoding": "base64"}),
        ("INVALID_ARGUMENT", "write_file", {"path": "x", "data": "", "mode": 644}),
        ("INVALID_ARGUMENT", "write_file", {"path": "x", "data": "", "mode": "rw"}),
        ("RESOURCE_LIMIT", "write_file", {"path": "x", "data": "x" * 1_100_000}),
    ],
)
def test_errors_of_files(rooted: Agent, code: str, tool: str, arguments: dict[str, object]):
    refused(code, rooted.call, tool, **arguments)


@pytest.mark.parametrize("path", ["a\0b", "", "x" * 5000])
def test_what_is_no_path_is_told(rooted: Agent, path: str):
    for tool, more in (("read_file", {}), ("write_file", {"data": "x"}), ("list_directory", {})):
        refused("INVALID_ARGUMENT", rooted.call, tool, path=path, **more)
    assert rooted.call("list_directory", path=".", limit=1)["count"] >= 0


def test_policy_judges_a_relative_path_where_it_is_opened():
    with a_state_dir() as directory:
        root = directory / "root"
        root.mkdir()
        (root / "secret").write_text("x")
        config = directory / "config.toml"
        config.write_text(
            f'tools = ["files"]\nfiles_root = "{root}"\n[[policy]]\naction = "deny"\npath = "{root}/secret"\n'
        )
        with Agent(directory, "--config", str(config)) as agent:
            refused("POLICY_DENIED", agent.call, "read_file", path="secret")
            refused("INVALID_ARGUMENT", agent.call, "read_file", path="a\0b")
