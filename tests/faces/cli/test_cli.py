"""The command line as a person has it: a process of its own, real tmux, its own home."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import re
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import tmuxmcp
import tmuxmcp.faces.cli
from tests.conftest import SLOW, TMUX, end_server, until_exists
from tests.kit import forks
from tests.kit.cli import COMMAND, ROOT, CommandLine, CommandTerminal, a_command_line
from tests.kit.terminal import SOON_S
from tmuxmcp.config import Settings
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.faces.cli import run
from tmuxmcp.faces.cli.arguments import VERBS, parse, verb_of


@pytest.fixture(scope="module")
def shared():
    """A command line with a bash session `a`, for tests that leave it as it was."""
    with a_command_line() as command_line:
        command_line("new", "--name", "a")
        yield command_line


# ---- without a session -------------------------------------------------------------------------


def test_alone_it_prints_help(cli):
    text = cli.out()
    assert text == cli.out("--help")
    for verb in VERBS:
        assert re.search(rf"^  {verb}\b", text, re.MULTILINE), verb
    assert not cli.state.exists()


def test_version(cli):
    assert cli.out("--version") == f"tmuxmcp {tmuxmcp.__version__}\n"


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["run", "--help"], ["list", "--help"]], ids=str)
def test_help_imports_nothing_heavy(cli, words):
    code = f"import sys, tmuxmcp.faces.cli\ntry: tmuxmcp.faces.cli.main({words!r})\nfinally: print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], env=cli.env, capture_output=True, text=True, check=True)
    modules = done.stdout.splitlines()[-1]
    for heavy in ("pydantic", "mcp", "anyio", "asyncio"):
        assert f"'{heavy}'" not in modules


def test_session_verbs_do_not_import_the_sdk(cli):
    code = "import sys, tmuxmcp.faces.cli\ntmuxmcp.faces.cli.main(['list'])\nprint(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], env=cli.env, capture_output=True, text=True, check=True)
    assert "'mcp'" not in done.stdout


@pytest.mark.parametrize("verb", ["serve", "demo", "config"])
def test_every_setting_is_a_flag(cli, verb):
    text = cli.out(verb, "--help-all")
    short = cli.out(verb, "--help")
    assert f"`tmuxmcp {verb} --help-all` lists them" in " ".join(short.split()) if verb != "serve" else short == text
    for name in Settings.model_fields:
        if (verb, name) != ("demo", "state_dir"):  # it always has one of its own
            assert f"--{name.replace('_', '-')} " in text


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_says_something_in_every_line(verb, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    with suppress(SystemExit):
        tmuxmcp.faces.cli.main([*verb.split(), "--help"])
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"  the same$|==", text, re.MULTILINE)
    assert len(text.splitlines()) <= 60 or verb == "serve"
    # What is the verb's own comes first.
    assert "\n  --json" not in text.partition("\noptions of every command:\n")[0]
    for option in re.findall(r"^  -\S*.*$", text, re.MULTILINE):
        assert re.search(r"  \S", option[2:]) or f"{option}\n{' ' * 24}" in text, option


def test_what_must_be_given_is_told_right(cli):
    said = cli.error("install", status=2)
    assert said.startswith("INVALID_ARGUMENT: The following arguments are required: CLIENT. Hint: CLIENT is one of ")
    assert said.endswith(", zed. See `tmuxmcp install --help`.\n")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["frob"], 2),
        (["new", "--rows", "many"], 2),
        (["read", "--view", "sideways"], 2),
        (["list", "--al"], 2),  # nothing is abbreviated
        (["config", "--env", "novalue"], 2),
        (["read", "a", "-s", "b"], 2),
        (["send", "one", "two", "three"], 2),
        (["run"], 125),
        (["run", "--"], 125),
        (["run", "--timeout", "soon", "true"], 125),
        (["kill"], 2),
        (["list", "--log-level", "loud"], 2),
    ],
    ids=str,
)
def test_wrong_usage_is_one_line(cli, words, status):
    assert cli.error(*words, status=status).startswith("INVALID_ARGUMENT: ")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("runn true", "run"),
        ("lst", "list"),
        ("list --al", "--all"),
        ("serve --max-session=3", "--max-sessions"),
        ("new --workdir /tmp bash", "--cwd"),
        ("new --title a bash", "--name"),
        ("read --timeout-s 5", "--timeout"),
        ("read --query x", "--pattern"),
        ("serve --session-timeout=60", "--idle-timeout-s"),
    ],
)
def test_a_misspelt_word_is_told_what_it_should_be(words, meant):
    with pytest.raises(InvalidArgument) as caught:
        parse(words.split())
    assert caught.value.hint.startswith(f"Did you mean `{meant}`? See `tmuxmcp")
    assert len(caught.value.message) < 60  # it names none but that one


@pytest.mark.parametrize("words", [["install"], ["install", "claude-codee"]])
def test_install_names_the_clients(words):
    with pytest.raises(InvalidArgument) as caught:
        parse(words)
    said = str(caught.value)
    assert "claude-code, " in said or "Did you mean `claude-code`?" in said


def test_what_is_like_no_word_is_taken_for_none():
    with pytest.raises(InvalidArgument) as caught:
        parse(["frobnicate"])
    assert caught.value.hint == "See `tmuxmcp --help`."


def test_errors_name_verbs_and_json_names_operations(cli):
    said = cli.error("kill", status=2)
    assert said == "INVALID_ARGUMENT: `tmuxmcp kill` needs an ID. Hint: `tmuxmcp list` gives them.\n"
    assert "Make one with `tmuxmcp new`." in cli.error("view", "nobody", status=3)
    error = json.loads(cli("kill", "--json", status=2).stdout)["error"]
    assert (error["message"], error["hint"]) == ("destroy_session needs a session_id.", "list_sessions gives them.")


def test_a_full_disk_is_told_in_one_line(monkeypatch, capsys):
    def full(words):
        raise ExceptionGroup("tasks", [OSError(errno.ENOSPC, "No space left on device")])

    monkeypatch.setattr(tmuxmcp.faces.cli, "parse", full)
    assert tmuxmcp.faces.cli.main(["list"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("tmuxmcp: IO_ERROR: The disk is full.")
    assert said.count("\n") == 1


def test_config_names_each_origin(cli):
    file = cli.home / ".config" / "tmuxmcp" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('rows = 30\ncols = 90\nterm = "xterm"\n')
    cli.env |= {"TMUXMCP_COLS": "100", "TMUXMCP_TERM": "screen"}
    found = cli.json("config", "--term", "tmux", "--env", "A=1", "--env", "B=x=y", "--tools", "core,files")
    assert list(found) == list(Settings.model_fields)
    assert all(set(each) == {"value", "origin", "default", "description"} for each in found.values())
    assert (found["rows"]["value"], found["rows"]["origin"]) == (30, str(file))
    assert (found["cols"]["value"], found["cols"]["origin"], found["cols"]["default"]) == (100, "TMUXMCP_COLS", 80)
    assert (found["term"]["value"], found["term"]["origin"]) == ("tmux", "flag")
    assert found["env"]["value"] == {"A": "1", "B": "x=y"}
    assert found["tools"]["value"] == ["core", "files"]
    assert found["max_bytes"] == {
        "value": 8192,
        "origin": "default",
        "default": 8192,
        "description": Settings.model_fields["max_bytes"].description,
    }
    assert re.search(r"^cols +100 +TMUXMCP_COLS$", cli.out("config"), re.MULTILINE)
    other = cli.home / "other.toml"
    other.write_text("cols = 77\n")
    del cli.env["TMUXMCP_COLS"]
    assert cli.json("config", "--config", str(other))["cols"]["value"] == 77


def test_the_settings_file_may_stand_before_the_command():
    assert parse(["--config", "a.toml", "config"]).config == "a.toml"
    assert parse(["--config=a.toml", "new", "bash", "--config", "mine"]).config == "a.toml"
    assert parse(["--config", "run", "list", "--config", "b.toml"]).config == "b.toml"
    assert parse(["list"]).config is None
    assert [verb_of(words) for words in (["--config", "run", "list"], ["--config=x", "run"], [])] == ["list", "run", ""]
    # The settings table is there for the verb behind it, too.
    assert parse(["--config", "a.toml", "serve", "--cols", "90"]).set_cols == "90"


def test_state_dir_may_be_relative(cli):
    assert cli.json("config", "--state-dir", "s")["state_dir"]["value"] == str(cli.work / "s")
    assert cli.json("config", "--state-dir", "~/s")["state_dir"]["value"] == str(cli.state)
    del cli.env["TMUXMCP_STATE_DIR"]
    assert cli.out("new", "--state-dir", "../s", "--name", "a") == "a\n"
    assert cli.out("run", "--state-dir", str(cli.state), "a", "pwd") == f"{cli.work}\n"


def test_missing_settings_file_is_an_error(cli):
    assert cli.error("list", "--config", "nowhere.toml", status=1).startswith("IO_ERROR: ")


def test_log_is_quiet_unless_told(cli):
    assert cli("list").stderr == b""
    end_server(cli.state)
    assert b"INFO" in cli("list", "--log-level", "info").stderr


# ---- new, list, kill ---------------------------------------------------------------------------


def test_new_prints_the_id_and_nothing_else(cli):
    done = cli("new")
    assert re.fullmatch(rb"sess_[0-9a-f]{8}\n", done.stdout)
    assert done.stderr == b""


@pytest.mark.parametrize(
    "words",
    [
        ["--name", "x", "--rows", "30", "--cols", "100", "cat", "-u", "--name=y"],
        ["--name", "x", "--rows", "30", "--cols", "100", "--", "cat", "-u", "--name=y"],
        ["cat", "--name", "x", "--rows", "30", "--cols", "100", "--", "-u", "--name=y"],
        ["cat", "--name=x", "--rows=30", "--cols=100", "-u", "--name=y"],
    ],
    ids=str,
)
def test_new_tells_its_options_from_the_programs(cli, words):
    made = cli.json("new", *words)
    assert (made["session_id"], made["program"], made["args"]) == ("x", "cat", ["-u", "--name=y"])
    assert (made["rows"], made["cols"]) == (30, 100)
    assert made["attach_command"] == f"tmux -S {cli.state}/tmux.sock attach -r -t '=x'"


def test_new_sets_cwd_and_environment(cli):
    (cli.work / "sub").mkdir()
    cli("new", "--name", "x", "--cwd", "sub", "--env", "A=1 2", "--env", "B=")
    assert cli.out("run", "x", 'echo "$PWD $A ${B-unset}"') == f"{cli.work}/sub 1 2 \n"


def test_new_limits_what_it_starts_and_puts_it_into_a_sandbox(cli):
    cli("new", "--name", "x", "--limit", "open_files=77", "--limit", "file_mb=5", "--sandbox", "auto")
    assert (
        cli.out("run", "x", "ulimit -n; ulimit -f; grep NoNewPrivs /proc/self/status") == "77\n5120\nNoNewPrivs:\t1\n"
    )
    done = cli("new", "--limit", "memory=5", status=2)
    assert b"memory_mb" in done.stderr


def test_settings_and_tokens_are_no_project_of_a_sandbox(cli):
    for name in ("one", "two", "three"):
        (cli.work / name).mkdir()
    (cli.work / "one" / "settings.toml").write_text("")
    cli.env["TMUXMCP_TOKEN_FILE"] = f"{cli.work}/two/tokens"
    words = ("new", "--config", "one/settings.toml", "--sandbox", "auto")
    for name, file in (("one", "settings.toml"), ("two", "tokens")):
        said = cli.error(*words, "--cwd", name, status=4)
        assert said.startswith("POLICY_DENIED: ")
        assert f"{name}/{file}" in said
    made = cli.json(*words, "--cwd", "three")
    assert (made["cwd"], made["note"]) == (f"{cli.work}/three", None)


def test_new_says_what_is_wrong(cli):
    cli("new", "--name", "x")
    assert cli.error("new", "--name", "x", status=1).startswith("SESSION_EXISTS: ")
    assert cli.error("new", "--name", "-x-", status=2).startswith("INVALID_ARGUMENT: ")
    assert cli.error("new", "/no/such/program", status=3).startswith("PROGRAM_NOT_FOUND: ")
    assert cli.error("new", "nosuchname", "bash", status=3).endswith("`tmuxmcp new --name nosuchname bash`.\n")
    assert cli.error("new", "--cwd", "nowhere", status=3).startswith("CWD_NOT_FOUND: ")


def test_state_dir_that_is_open_to_others_is_denied(cli):
    cli.state.mkdir(mode=0o755)
    assert cli.error("new", status=4).startswith("PERMISSION_DENIED: ")


def test_session_survives_the_command_whatever_on_exit_says(cli):
    cli.env["TMUXMCP_ON_EXIT"] = "destroy"
    cli("new", "--name", "x")
    assert cli.json("list")["count"] == 1


def test_history_lists_commands_with_exit_codes(cli):
    cli("new", "--name", "h", "bash")
    cli("run", "h", "echo one\ntrue")
    cli("run", "h", "sh -c 'exit 3'", status=3)
    heading, first, second = cli.out("history", "h").splitlines()
    assert heading.split() == ["NUMBER", "EXIT", "STARTED", "TOOK", "BY", "COMMAND"]
    assert re.fullmatch(r"1 +0 +20\S+Z  \d+ ms +agent  \"echo one\\ntrue\"", first)
    assert re.fullmatch(r"2 +3 +20\S+Z  \d+ ms +agent  sh -c 'exit 3'", second)
    (command,) = cli.json("history", "h", "--failed")["commands"]
    assert (command["number"], command["exit_code"], command["text"]) == (2, 3, "sh -c 'exit 3'")
    assert cli.json("history", "h", "--before", "2")["commands"][-1]["number"] == 1
    assert cli.json("history", "h", "-n", "1")["count"] == 1
    assert cli("kill", "h").stdout == b""


def test_list_shows_the_living_and_with_all_the_dead(cli):
    cli("new", "--name", "x", "--cols", "100")
    cli("new", "--name", "y", "true")
    cli.eventually(lambda: cli.json("list")["count"] == 1, "y does not end")
    heading, line = cli.out("list").splitlines()
    assert heading.split() == ["ID", "MODE", "NEEDS", "COMMAND", "PROGRAM", "PID", "SIZE", "AGE", "CWD"]
    assert re.fullmatch(rf"x +shell_prompt  - +- +\S+bash +\d+  100x24  \d+s  +{cli.work}", line)
    assert re.search(r"^y +exited 0 +- +- +true ", cli.out("ls", "--all"), re.MULTILINE)
    assert [each["session_id"] for each in cli.json("list", "--all")["sessions"]] == ["x", "y"]


def test_list_shows_what_runs_also_in_a_narrow_terminal(cli):
    cli("new", "--name", "busy", "--cols", "100", "sh", "-c", "sleep 600; :")
    cli.eventually(lambda: "sleep 600" in cli.out("list"), "the command is not shown")
    with CommandTerminal(cli, "list", size=(40, 24)) as terminal:
        heading, line = terminal.to_the_end().splitlines()
    assert heading.startswith("\x1b[1mID ")
    assert line.startswith("\x1b[32mbusy ")
    plain = [re.sub(r"\x1b\[\d*m", "", each) for each in (heading, line)]
    assert "sleep 600" in plain[1]
    assert max(map(len, plain)) <= 40
    assert {"MODE", "COMMAND"} <= set(plain[0].split()) <= {"ID", "MODE", "COMMAND", "NEEDS", "AGE", "CWD"}


def test_list_shows_no_escape_sequences(cli):
    odd = cli.work / "a\x1b[31m b"
    odd.mkdir()
    cli("new", "--name", "x", "--cwd", str(odd))
    assert "\x1b" not in cli.out("list")


@pytest.mark.parametrize("words", [["x"], ["-s", "x"], ["--session", "x"], ["--session-id", "x"]], ids=str)
def test_kill_ends_it(cli, words):
    cli("new", "--name", "x", "sleep", "600")
    assert cli("kill", *words, "--grace-ms", "5000").stdout == b""
    assert cli.json("list")["count"] == 0
    (row,) = cli.json("list", "--all")["sessions"]
    assert row["ended"]["reason"] == "destroyed"
    assert cli.error("kill", "never", status=3).startswith("SESSION_NOT_FOUND: ")


def test_kill_by_force_and_by_signal(cli):
    cli("new", "--name", "x", "sh", "-c", "trap '' TERM; sleep 600")
    result = cli.json("kill", "x", "--force")
    assert (result["destroyed"], result["survivors"]) == (True, [])
    cli("new", "--name", "y", "sleep", "600")
    assert cli.json("kill", "y", "--signal", "USR1")["exit_signal"] == "USR1"


def test_deleted_socket_comes_back_with_its_sessions(cli):
    cli("new", "--name", "x")
    (cli.state / "tmux.sock").unlink()
    assert [each["session_id"] for each in cli.json("list")["sessions"]] == ["x"]


# ---- run ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-s", "a", "--", "echo", "a  b"], "a  b\n"),
        (["-s", "a", "echo", "a  b"], "a  b\n"),
        (["-s", "a", "echo $((6*7)) | tr 4 5"], "52\n"),
        (["--session", "a", "echo", "$HOME"], "$HOME\n"),
        (["--session-id=a", "--", "echo $((6*7))"], "42\n"),
        (["-sa", "echo", "-n", "--json"], "--json"),
        (["a", "echo", "a  b"], "a  b\n"),
        (["a", "echo $((6*7))"], "42\n"),
        (["a", "--", "echo", "--timeout", "5"], "--timeout 5\n"),
        (["a", "--timeout", "5", "echo", "x"], "x\n"),
        (["--timeout-ms", "5000", "a", "echo", "it's"], "it's\n"),
        (["echo", "a"], "a\n"),  # in the default session: no session is called echo
        (["echo $TMUXMCP_SESSION | cut -c1-5"], "sess_\n"),
        (["--", "a", "echo", "hi"], None),
    ],
    ids=str,
)
def test_every_spelling_of_run(shared, words, expected):
    if expected is None:  # behind -- there is no session: the program a does not exist
        assert "a: command not found" in shared.out("run", *words, status=127)
    else:
        assert shared.out("run", *words) == expected


@pytest.mark.parametrize("words", [["-s", "a", "--json", "echo", "hi"], ["a", "echo hi; true", "--json"]], ids=str)
def test_run_as_json(shared, words):
    result = json.loads(shared.out("run", *words))
    assert (result["session_id"], result["output"], result["exit_code"]) == ("a", "hi\n", 0)
    assert (result["completed"], result["outcome"], result["evidence"]) == (True, "ready", "marks")
    assert (result["truncated"], result["omitted_bytes"], result["effective_timeout_ms"]) == (False, 0, None)
    assert list(result)[-1] == "output"


def test_run_exits_with_the_commands_status(shared):
    for status in (0, 1, 2, 77, 124, 125, 255):
        assert shared("run", "-s", "a", f"(exit {status})", status=status).stderr == b""


def test_run_keeps_directory_and_variables(cli):
    cli("new", "--name", "x")
    assert cli.out("run", "x", "cd / && export A='1 2'") == ""
    assert cli.out("run", "x", 'echo "$PWD $A"') == "/ 1 2\n"


def test_run_uses_one_default_session(cli):
    cli("run", "A=kept")
    assert cli.out("run", "echo $A") == "kept\n"
    assert cli.json("list")["count"] == 1


def test_run_prints_bytes_as_they_are(shared):
    shared.env["LC_ALL"] = "C"
    try:
        assert (
            shared("run", "a", "printf 'gr\\303\\274n \\342\\234\\223 no newline  '").stdout
            == "grün ✓ no newline  ".encode()
        )
        assert shared("run", "a", r"printf '\033[31mred\033[0m\tend\n\n'").stdout == b"red\tend\n\n"
    finally:
        del shared.env["LC_ALL"]


@pytest.mark.parametrize("lines", [200_000, pytest.param(1_100_000, marks=pytest.mark.slow)])
def test_run_omits_nothing(shared, lines):
    """Also where the output is longer than one piece of it."""
    expected = hashlib.sha256("".join(f"{n}\n" for n in range(1, lines + 1)).encode())
    done = shared("run", "-s", "a", f"seq {lines}", timeout=120 * SLOW)
    assert done.stderr == b""
    assert hashlib.sha256(done.stdout).hexdigest() == expected.hexdigest()


async def test_run_cuts_pieces_where_a_line_ends(broker, monkeypatch):
    monkeypatch.setattr(run, "OUTPUT_PIECE_BYTES", 1000)
    line = "äöü✓" * 999  # longer than a piece, and no piece ends where a character does
    command = f"cat <<'END'\n{line}\nshort\n{line}\nEND"
    ran = await broker.run(command)
    pieces = [each async for each in run._pieces(broker, ran.session_id, ran.start_offset, ran.end_offset)]
    assert "".join(pieces) == f"{line}\nshort\n{line}\n"
    assert len(pieces) > 15


def test_run_that_times_out_goes_on(cli):
    cli("new", "--name", "x")
    timeout = str(SLOW)  # in which it has to begin
    done = cli("run", "-s", "x", "--timeout", timeout, "echo begun; sleep 600", status=124)
    assert done.stdout == b"begun\n"
    assert b"goes on in session x" in done.stderr
    assert cli.error("run", "x", "true", status=125).startswith("SESSION_BUSY: ")
    again = cli("run", "--json", "--timeout-ms", "1", "x", "true", status=125)
    assert json.loads(again.stdout)["error"]["code"] == "SESSION_BUSY"
    assert json.loads(again.stdout)["error"]["retryable"] is True
    cli("send", "x", "--key", "C-c")
    assert cli.out("run", "x", "echo $?") == "130\n"


def test_run_errors_are_125(cli):
    assert cli.error("run", "-s", "nope", "true", status=125).startswith("SESSION_NOT_FOUND: ")
    cli("new", "--name", "x", "cat")
    cli("read", "x", "--wait", "ready")  # until then it may be busy
    assert cli.error("run", "x", "true", status=125).startswith("NOT_A_SHELL: ")
    cli("new", "--name", "y")
    assert cli.error("run", "y", "echo 'open", status=125).startswith("INCOMPLETE_COMMAND: ")


def test_a_misspelt_session_is_told_and_runs_nothing(cli):
    cli("new", "--name", "first")
    cli("new", "--name", "gone")
    cli("kill", "gone")
    for words in (["frist", "ls"], ["frist", "echo $((6*7))"], ["frist"], ["--timeout", "5", "frist", "ls"]):
        said = cli.error("run", *words, status=125)
        assert said == (
            "SESSION_NOT_FOUND: There is no session 'frist'. Hint: Did you mean `tmuxmcp run first ...`? "
            "`tmuxmcp run -- frist ...` runs it as a command.\n"
        )
    assert "'first' is a session; there is no COMMAND. Hint: " in cli.error("run", "first", status=125)
    assert "no command of that name" in cli.error("run", "nosuchword", "ls", status=125)
    assert "no command of that name" in cli.error("run", "gon", "ls", status=125)  # it is over
    assert "Did you mean 'first'? " in cli.error("view", "frist", status=3)
    assert [each["session_id"] for each in cli.json("list")["sessions"]] == ["first"]
    # Where a default session is there, its shell knows what it knows.
    cli("run", 'nosuchword() { echo "of the shell: $*"; }')
    assert cli.out("run", "nosuchword", "a  b") == "of the shell: a  b\n"


def test_a_session_named_as_a_command_is_never_taken_for_it(cli):
    cli("new", "--name", "env")
    cli("run", "-s", "env", "WHERE=there")
    said = cli.error("run", "env", "echo", "taken", status=125)
    assert said.startswith("INVALID_ARGUMENT: 'env' is a session and a command. Hint: `tmuxmcp run -s env ...`")
    assert cli.out("run", "-s", "env", "echo", "taken $WHERE") == "taken $WHERE\n"
    assert cli.out("run", "--", "env", "echo", "in the default session") == "in the default session\n"
    assert "PATH=" in cli.out("run", "env")


def test_run_of_an_exit_has_the_shells_status(cli):
    cli("new", "--name", "x")
    cli("run", "x", "exit 7", status=7)
    assert cli.error("run", "x", "true", status=125).startswith("SESSION_EXITED: ")


def test_reader_that_goes_away_is_no_noise(shared):
    command = f"{forks.command(shared.home)} run a 'seq 500000' | head -n 1"
    done = subprocess.run(
        ["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"], env=shared.env, capture_output=True, timeout=SOON_S
    )
    assert done.stdout == b"1\n141\n"
    assert done.stderr == b""


@pytest.mark.parametrize("closed", ["full", "closed"])
@pytest.mark.parametrize(
    ("verb", "status"), [("run a true", 0), ("run a 'seq 9'", 125), ("run a 'seq 99999'", 125), ("list", 1)]
)
def test_output_that_cannot_be_written_is_told_as_that(shared, verb: str, status: int, closed: str):
    """Whoever is told that the disk is full, and to try again, runs the command twice."""
    into = {"full": ">/dev/full", "closed": ">&-"}[closed]
    ours = f"{sys.executable} -m tmuxmcp" if closed == "closed" else forks.command(shared.home)
    command = f"{ours} {verb} {into}"
    done = subprocess.run(["bash", "-c", command], env=shared.env, capture_output=True, timeout=SOON_S)
    assert done.returncode == status, done.stderr
    if status:
        [line] = done.stderr.decode().splitlines()
        assert line.startswith("tmuxmcp: IO_ERROR: What is to be printed cannot be written: "), line
        assert "state_dir" not in line


def test_what_is_for_a_closed_stderr_is_not_printed(shared):
    command = f"{sys.executable} -m tmuxmcp read nope 2>&-"
    done = subprocess.run(["bash", "-c", command], env=shared.env, capture_output=True, timeout=SOON_S)
    assert (done.returncode, done.stdout) == (3, b"")


def sleeps(pid: int) -> bool:
    """Whether a program below this one has become `sleep`."""
    with suppress(psutil.Error):
        return any(each.name() == "sleep" for each in psutil.Process(pid).children(recursive=True))
    return False


def has_open(pid: int, name: str) -> bool:
    """Whether a process has a file of this name open."""
    return any(Path(each.path).name == name for each in psutil.Process(pid).open_files())


def test_interrupt_goes_to_the_command(cli):
    cli("new", "--name", "x")
    running = cli.start("run", "x", "(trap 'echo caught; exit 9' INT; echo begun; sleep 600; echo never)")
    pid = cli.json("list")["sessions"][0]["pid"]
    # Between fork and exec a child handles the signal as its shell does, which drops it.
    cli.eventually(lambda: sleeps(pid), "it does not begin")
    running.send_signal(signal.SIGINT)
    output, errors = running.communicate(timeout=SOON_S)
    assert (running.returncode, errors) == (9, b"")
    assert output == b"begun\ncaught\n"


def test_interrupt_goes_to_the_command_that_was_asked_for_before(cli):
    """It runs in another session than the default one, which works on something else."""
    command = "(trap 'echo caught; exit 9' INT; sleep 600; echo never)"
    cli("new", "--name", "x")
    cli("run", "--timeout", "0.5", "(trap 'echo wrong; exit 1' INT; sleep 600)", status=124)
    first = cli.start("run", "--session", "x", "--request-id", "interrupted", command)
    pid = next(each["pid"] for each in cli.json("list")["sessions"] if each["session_id"] == "x")
    cli.eventually(lambda: sleeps(pid), "it does not begin")
    first.kill()
    first.communicate(SOON_S)
    again = cli.start("run", "--request-id", "interrupted", command)
    cli.eventually(lambda: has_open(again.pid, "interrupted"), "it does not ask")
    again.send_signal(signal.SIGINT)
    output, errors = again.communicate(timeout=SOON_S)
    assert (again.returncode, output) == (9, b"caught\n"), errors
    others = [each["mode"] for each in cli.json("list")["sessions"] if each["session_id"] != "x"]
    assert others == ["running"], "the other command goes on"


def test_second_interrupt_leaves_the_command_alone(cli):
    cli("new", "--name", "x")
    running = cli.start("run", "x", "(trap '' INT; echo begun; sleep 600)")
    cli.eventually(lambda: "begun\n" in cli.out("read", "x", "--since", "0"), "it does not begin")
    for _ in range(10):  # two are enough, where nobody is slow
        running.send_signal(signal.SIGINT)
        if select.select([running.stderr], [], [], 0.3)[0]:
            break
    _, errors = running.communicate(timeout=SOON_S)
    assert (running.returncode, errors.count(b"\n")) == (130, 1)
    assert b"left running in session x" in errors
    assert cli.json("list")["sessions"][0]["mode"] == "running"


# ---- send, read, view --------------------------------------------------------------------------


def test_send_prints_what_came_back(shared):
    assert "49\n" in shared.out("send", "a", "echo $((7*7))", "--enter")
    assert "64\n" in shared.out("send", "--enter", "-s", "a", "echo $((8*8))")
    assert "81\n" in shared.out("send", "a", "--enter", "echo $((9*9))")
    assert "100\n" in shared.out("send", "a", "--key", "Enter", "--", "-; echo $((10*10))")
    result = shared.json("send", "a", "echo $((4*4))", "--key", "Enter")
    assert (result["session_id"], result["sent_bytes"]) == ("a", 14)
    assert "16\n" in result["result"]["content"]


def test_send_of_keys_alone(shared):
    shared("send", "a", "echo un", "--wait", "idle", "--idle-ms", "50")
    assert "unsent" not in shared.out("send", "a", "--key", "C-e", "--key", "C-u", "echo sent", "--enter")


def test_send_goes_to_the_default_session_when_the_word_is_no_name(cli):
    assert "36\n" in cli.out("send", "echo $((6*6))", "--enter")
    assert cli.error("send", "typo", "--enter", status=3).startswith("SESSION_NOT_FOUND: ")
    assert "25\n" in cli.out("send", "-s", "", "echo $((5*5))", "--enter")


def test_send_errors(shared):
    assert shared.error("send", "a", "--key", "NoSuchKey", status=2).startswith("INVALID_KEY: ")
    assert shared.error("send", "a", status=2).startswith("NO_INPUT: ")


def test_wait_for_a_pattern(cli):
    cli("new", "--name", "x")
    text = cli.out(
        "send", "x", "sleep 0.3; echo done-$((1+1))", "--enter", "--wait", "pattern", "--pattern", "done-[0-9]"
    )
    assert "done-2" in text
    cli("send", "x", "sleep 0.3; echo over-$((1+1))", "--enter", "--wait", "none")
    assert cli.json("read", "x", "--pattern", "over-[0-9]")["matched"] == "over-2"
    assert cli.error("read", "x", "--pattern", "(", status=2).startswith("INVALID_PATTERN: ")


def test_wait_that_times_out_is_124(cli):
    cli("new", "--name", "x", "sleep", "600")
    done = cli("read", "x", "--wait", "exit", "--timeout-ms", "50", status=124)
    assert re.fullmatch(rb"tmuxmcp: timed out after \d+ ms; the program goes on\n", done.stderr)
    assert cli.json("read", "x", "--wait", "ready", "--timeout", "0.05", status=124)["outcome"] == "timeout"
    cli("send", "x", "text", "--timeout-ms", "50")  # no wait was asked for


def test_wait_for_the_end(cli):
    cli("new", "--name", "x", "sh", "-c", "echo last; exit 4")
    result = cli.json("read", "x", "--wait", "exit")
    assert (result["outcome"], result["exited"], result["exit_code"]) == ("exited", True, 4)
    assert result["content"] == "last\n"


def test_wait_for_a_command_tells_its_exit_code(cli):
    cli("new", "--name", "x")
    command = f"{until_exists(cli.work / 'go')}; (exit 5)"
    cli("run", "-s", "x", "--timeout-ms", "50", command, status=124)
    (cli.work / "go").touch()
    done = cli("read", "x", "--wait", "command")
    assert done.stderr.decode() == f"tmuxmcp: command 1 ended with exit code 5: {command}\n"


def test_read_goes_on_where_it_stopped(cli):
    cli("new", "--name", "x", "cat")
    assert cli.out("send", "x", "one", "--enter", "--wait", "pattern", "--pattern", r"^one\n") == "one\none\n"
    cli("send", "x", "two", "--enter", "--wait", "none")
    assert cli.out("read", "-s", "x", "--wait", "pattern", "--pattern", r"^two\n") == "two\ntwo\n"
    assert cli.out("read", "x") == ""
    assert cli.out("read", "x", "--since", "0").startswith("one\n")
    done = cli("read", "x", "--since", "0", "--max-bytes", "4")
    assert done.stdout == b"one\n"
    assert re.search(rb"\d+ bytes more: read --since 5\n", done.stderr)


def test_read_cuts_nothing_that_a_model_would_not_get(cli):
    cli("new", "--name", "x", "sh", "-c", "seq 9999; sleep 600")
    text = cli.out("read", "x", "--wait", "pattern", "--pattern", r"^9999\n")
    assert text == "".join(f"{number}\n" for number in range(1, 10_000))


def test_read_scrollback_by_lines(cli):
    cli("new", "--name", "x", "--rows", "5", "sh", "-c", "seq 99; sleep 600")
    cli("read", "x", "--wait", "pattern", "--pattern", "^99$")
    assert cli.out("read", "x", "--view", "scrollback", "--offset", "10", "--limit", "2").split() == ["11", "12"]


def test_read_raw_gives_the_bytes(cli):
    cli("new", "--name", "x", "sh", "-c", r"printf 'a\033[1mb\377\n'; sleep 600")
    cli.eventually(lambda: cli("read", "x", "--view", "raw", "--since", "0").stdout == b"a\x1b[1mb\xff\r\n", "no bytes")
    result = cli.json("read", "x", "--view", "raw", "--since", "1")
    assert (result["encoding"], base64.b64decode(result["content"])) == ("base64", b"\x1b[1mb\xff\r\n")


def test_view_prints_the_screen(cli):
    cli("new", "--name", "x", "--rows", "5", "sh", "-c", r"seq 9; printf '\033[31mred\033[0m'; sleep 600")
    cli.eventually(lambda: cli.out("view", "x") == "6\n7\n8\n9\nred\n", "another screen")
    assert cli.out("read", "x", "--view", "screen") == "6\n7\n8\n9\nred"
    assert "\x1b[31mred" in cli.out("read", "x", "--view", "screen", "--format", "ansi")
    assert cli.json("view", "-s", "x")["rows"] == 5


def test_colours_are_for_terminals_that_want_them(cli):
    cli("new", "--name", "x", "sh", "-c", r"printf '\033[31mred\033[0m'; sleep 600")
    cli.eventually(lambda: cli.out("view", "x") == "red\n", "no text")
    with CommandTerminal(cli, "view", "x") as terminal:
        assert "\x1b[31mred" in terminal.to_the_end()
    with CommandTerminal(cli, "list") as terminal:
        assert terminal.to_the_end().startswith("\x1b[1mID ")
    cli.env["NO_COLOR"] = "1"
    with CommandTerminal(cli, "view", "x") as terminal:
        assert terminal.to_the_end() == "red\r\n"
    with CommandTerminal(cli, "list") as terminal:
        assert "\x1b" not in terminal.to_the_end()


@pytest.mark.parametrize(
    "words", [["read", "no"], ["view", "no"], ["attach", "no"], ["kill", "no"], ["send", "no"]], ids=str
)
def test_session_that_is_not_there_is_status_3(shared, words):
    assert shared.error(*words, status=3).startswith("SESSION_NOT_FOUND: There is no session 'no'. Hint: ")
    done = shared(*words, "--json", status=3)
    error = json.loads(done.stdout)["error"]
    assert set(error) == {"code", "message", "retryable", "hint", "details"}
    assert (error["code"], error["details"]) == ("SESSION_NOT_FOUND", {"session_id": "no"})
    assert done.stderr.startswith(b"tmuxmcp: SESSION_NOT_FOUND: ")


# ---- attach ------------------------------------------------------------------------------------


def test_attach_shows_the_screen_and_types_nothing(cli):
    cli("new", "--name", "x", "cat")
    cli("send", "x", "from the agent", "--enter", "--wait", "idle")
    with CommandTerminal(cli, "attach", "x") as terminal:
        terminal.until("from the agent")
        terminal.type("from the person\r")
        cli("send", "x", "again", "--enter", "--wait", "idle")
        terminal.until("again")
        terminal.type("\x02d")
        terminal.to_the_end()
        assert terminal.process.wait(SOON_S) == 0
    assert "from the person" not in cli.out("read", "x", "--since", "0")


@pytest.mark.parametrize("term", ["xterm-ghostty", "xterm-kitty", "foot", "wezterm", "contour", "of-nobody"])
def test_attach_works_on_a_terminal_whose_type_has_no_entry_here(cli, term):
    cli("new", "--name", "x", "cat")
    cli("send", "x", "from the agent", "--enter", "--wait", "idle")
    there = subprocess.run(["infocmp", term], capture_output=True).returncode == 0
    # tmux flushes a terminal that it takes over (tcflush(3)): what was printed just before may be lost.
    said = (attached_and_left(cli, term) for _ in range(3))
    assert any(f"does not know the terminal type {term}; xterm-256color is" in each for each in said) == (not there)


def attached_and_left(cli: CommandLine, term: str) -> str:
    """What a terminal of that type shows of an attach to the session."""
    with CommandTerminal(cli, "attach", "x", term=term) as terminal:
        terminal.until("from the agent")
        terminal.type("\x02d")
        terminal.to_the_end()
        assert terminal.process.wait(SOON_S) == 0
        return terminal.seen


def test_attach_takes_no_type_for_a_terminal_that_tells_none(cli):
    cli("new", "--name", "x", "cat")
    with CommandTerminal(cli, "attach", "x", term="") as terminal:
        assert terminal.to_the_end().startswith("open terminal failed")
        assert terminal.process.wait(SOON_S) == 1


def test_attach_take_types(cli):
    cli("new", "--name", "x", "cat")
    with CommandTerminal(cli, "attach", "-s", "x", "--take") as terminal:
        terminal.until("x")  # the status line
        terminal.type("from the person\r")
        cli.eventually(lambda: cli.out("read", "x", "--since", "0") == "from the person\n" * 2, "it was not typed")


def test_attach_as_json_only_says_how(shared):
    told = shared.json("attach", "a")
    assert told == {
        "session_id": "a",
        "argv": [TMUX, "-S", f"{shared.state}/tmux.sock", "attach", "-r", "-t", "=a"],
    }
    assert "-r" not in shared.json("attach", "a", "--take")["argv"]


def test_run_connects_a_person_to_a_command_that_asks(cli):
    cli("new", "--name", "x")
    command = 'read -p "name? " n; read -sp "secret? " s; echo; echo "$n ${#s}"; (exit 7)'
    with CommandTerminal(cli, "run", "x", command) as terminal:
        terminal.until("Connect to it? [Y/n] ")
        terminal.type("\r")
        cli.eventually(lambda: cli.json("answer")["count"], "nobody holds it")
        terminal.type("Ann\r")
        cli.eventually(lambda: cli.json("list")["sessions"][0]["mode"] == "password", "no secret is asked")
        terminal.type("hidden\r")
        shown = terminal.to_the_end()
        assert terminal.process.wait(SOON_S) == 7
    assert shown.replace("\r", "").endswith("Ann\nsecret? \nAnn 6\n")
    assert "hidden" not in shown
    assert cli.json("answer")["count"] == 0
    # The session's exit code is not always the command's.
    for last, status in (("exit 3", 3), ("trap 'exit 4' HUP; kill -HUP $$; echo no", 125)):
        cli("new", "--name", "y")
        with CommandTerminal(cli, "run", "y", f"read -p 'name? ' n; {last}") as terminal:
            terminal.until("Connect to it? [Y/n] ")
            terminal.type("\r")
            cli.eventually(lambda: cli.json("answer")["count"], "nobody holds it")
            terminal.type("Ann\r")
            shown = terminal.to_the_end()
            assert terminal.process.wait(SOON_S) == status, shown
        cli("kill", "y")
    # Who leaves, or does not want to, is told where it goes on.
    with CommandTerminal(cli, "run", "x", "read -p 'more? ' n") as terminal:
        terminal.until("Connect to it? [Y/n] ")
        terminal.type("y\r")
        cli.eventually(lambda: cli.json("answer")["count"], "nobody holds it")
        terminal.type("\x02d")
        assert "it goes on in session x" in terminal.to_the_end()
        assert terminal.process.wait(SOON_S) == 125
    cli("send", "x", "--enter")
    with CommandTerminal(cli, "run", "x", "read -p 'again? ' n") as terminal:
        terminal.until("Connect to it? [Y/n] ")
        terminal.type("n\r")
        assert "Not finished." in terminal.to_the_end()
        assert terminal.process.wait(SOON_S) == 125
    cli("send", "x", "--enter")
    with CommandTerminal(cli, "run", "x", "read -p 'again? ' n") as terminal:
        terminal.until("Connect to it? [Y/n] ")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(SOON_S) == 130
    cli("send", "x", "--enter")
    asked = cli("run", "x", "read -p 'again? ' n", status=125)  # in a pipe nobody is asked
    assert b"Connect" not in asked.stderr


def test_new_tells_a_person_how_to_watch(cli):
    with CommandTerminal(cli, "new", "--name", "x", "cat") as terminal:
        assert terminal.to_the_end().replace("\r", "") == (
            f"x\ntmuxmcp: watch it with: tmux -S {cli.state}/tmux.sock attach -r -t '=x'\n"
        )


# ---- serve -------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["cat", "-u"], ["--", "cat", "-u"], ["cat", "--cols", "100", "--", "-u"]], ids=str)
def test_serve_takes_the_program_of_the_default_session(cli, words):
    server = cli.start("serve", *words, stdin=True)
    call = {"name": "get_session", "arguments": {}}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    for message in (
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ):
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    server.stdin.flush()
    server.stdout.readline()
    facts = json.loads(server.stdout.readline())["result"]["structuredContent"]
    server.communicate(timeout=SOON_S)
    assert (facts["program"], facts["args"]) == ("cat", ["-u"])
    assert facts["cols"] == (100 if "--cols" in words else 80)


def test_serve_says_at_once_that_its_program_is_not_there(cli):
    said = cli.error("serve", "nosuchprogram", "-x", status=3)
    assert said.startswith("PROGRAM_NOT_FOUND: There is no program 'nosuchprogram' to run. Hint: ")
    assert cli.error("serve", "--cwd", "/nowhere", "cat", status=3).startswith("CWD_NOT_FOUND: ")
    said = cli("serve", "cat").stderr.decode()  # stdin is at its end
    assert ("WARNING" in said and "sessions run as root" in said) == (os.geteuid() == 0)


# ---- the tutorial ------------------------------------------------------------------------------

NUMBERS = re.compile(r"\d+(?= ms)|\b\d{3,}\b|\d+[smh]\b")
"""Times, process ids and ages."""


@pytest.mark.slow
def test_tutorial_holds(cli):
    cli.env["PATH"] = f"{forks.command(cli.home).parent}:{cli.env['PATH']}"
    text = (ROOT / "docs/tutorial/first-session.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$(?:\n*[^`]*?^```$\n(.*?)^```$)?", text, re.MULTILINE | re.DOTALL)
    ran = 0
    for command, expected in blocks:
        if "attach" in command or command.startswith("claude"):
            continue  # for a person; tested above
        done = subprocess.run(
            ["bash", "-c", command], env=cli.env, cwd=cli.work, text=True, timeout=SOON_S, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        ran += 1
        assert done.returncode == (124 if "--timeout" in command else 0), (command, done.stdout)
        lines = expected.replace("bash$", "").splitlines()
        if not lines or lines[0] == "first":  # what `new` says besides is for terminals
            continue
        if "tmuxmcp list" in command:
            assert [line.split() for line in NUMBERS.sub("N", done.stdout).splitlines()] == [
                line.split() for line in NUMBERS.sub("N", expected).splitlines()
            ]
            continue
        for line in lines:
            assert NUMBERS.sub("N", line) in NUMBERS.sub("N", done.stdout), command
    assert ran >= 8


def test_attach_finds_a_session_that_was_renamed(cli):
    cli("new", "--name", "x", "sleep", "600")
    assert cli.json("attach", "x")["argv"][-1] == "=x"
    assert cli.tmux("rename-session", "-t", "=x", "theirs").returncode == 0
    assert cli.json("attach", "x")["argv"][-1] == "=theirs"


def test_directory_that_was_removed(cli):
    """A new session says so, as it would begin there; what needs no directory works."""
    gone = cli.home / "gone"

    def there(*words: str) -> subprocess.CompletedProcess[str]:
        gone.mkdir()
        argv = ["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(gone), *COMMAND, *words]
        return subprocess.run(argv, env=cli.env, capture_output=True, text=True, check=False, timeout=SOON_S)

    refused = there("new", "--name", "a", "bash")
    assert "Our own working directory was removed. Hint: Give an absolute path as --cwd." in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert there("new", "--name", "a", "--cwd", str(cli.home), "bash").returncode == 0
    assert there("run", "a", "echo here").stdout == "here\n"
    assert "INTERNAL" not in there("doctor").stderr
