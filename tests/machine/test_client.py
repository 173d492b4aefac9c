"""The words of ssh, and its control socket."""

from __future__ import annotations

import stat
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.programs import PATH, need
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.machine.ssh import client
from tmuxmcp.machine.ssh.client import Destination

BOX = Destination("box", "me", 2222)


def options(words: list[str]) -> dict[str, str]:
    pairs = [word for before, word in pairwise(words) if before == "-o"]
    return dict(pair.split("=", 1) for pair in pairs)


def test_nothing_is_forwarded_that_the_person_s_configuration_does_not_say():
    said = {"forwardagent": "no", "sessiontype": "default", "loglevel": "INFO"}
    words = client.terminal_argv(BOX, Path("/s/c"), said)
    assert words[-4:] == ["-p", "2222", "--", "me@box"]
    assert options(words) == {
        "EscapeChar": "none",
        "ControlMaster": "yes",
        "ControlPath": "/s/c",
        "ControlPersist": "no",
        "ForwardAgent": "no",
    }
    assert options(client.terminal_argv(BOX, Path("/s/c"), {"forwardagent": "yes"}))["ForwardAgent"] == "yes"


def test_what_would_keep_a_terminal_from_being_one_is_switched_off():
    said = {"forkafterauthentication": "yes", "sessiontype": "none", "loglevel": "quiet", "remotecommand": "htop"}
    found = options(client.terminal_argv(BOX, Path("/s/c"), said, ["true"]))
    assert (found["ForkAfterAuthentication"], found["SessionType"], found["LogLevel"]) == ("no", "default", "INFO")
    assert found["RemoteCommand"] == "none"
    assert "RemoteCommand" not in options(client.terminal_argv(BOX, Path("/s/c"), said))


def test_the_second_channel_reads_no_configuration_and_makes_no_connection():
    words = client.channel_argv("ssh", Path("/s/100%/c"), "echo 'it'")
    assert words[:5] == ["ssh", "-F", "none", "-S", "/s/100%%/c"]
    assert options(words)["ProxyCommand"] == "false"
    assert options(words)["BatchMode"] == "yes"
    assert words[-1] == "exec sh -c 'echo '\\''it'\\'"


WORDS = st.lists(st.text(alphabet="ab'\\\"$`!*~ \n;&|<>(){}[]#%^", max_size=12), max_size=4)


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh", "fish"])
def test_any_shell_reads_the_same_words(shell: str, tmp_path: Path):
    need(shell)
    cases = [["it's", "a\\b", "\\", "'", "''", "$HOME", "`id`", "!!", "two\nlines", "", "*", "\\'", "%self", "~"]]
    for words in cases:
        line = client.quoted(["printf", "<%s>", *words])
        env = {"PATH": PATH, "HOME": str(tmp_path)}
        done = subprocess.run([shell, "-c", line], capture_output=True, text=True, env=env, check=False)
        assert done.stdout == "".join(f"<{word}>" for word in words), (shell, done)


@given(WORDS)
def test_a_quoted_word_comes_back(words: list[str]):
    line = client.quoted(["printf", "<%s>", *words])
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.stdout == ("".join(f"<{word}>" for word in words) or "<>")


def test_each_control_socket_has_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    short = Path()
    paths = [client.make_control(short) for _ in range(3)]
    assert len({path.parent for path in paths}) == 3
    for path in paths:
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    paths[0].touch()
    paths[1].touch()
    client.sweep_controls(short, [paths[1]])
    assert [path.parent.exists() for path in paths] == [False, True, False]
    client.remove_control(paths[1])
    client.remove_control(paths[1])
    assert not list((short / "ssh").iterdir())


def test_a_path_that_no_socket_can_have_is_refused(tmp_path: Path):
    with pytest.raises(InvalidArgument) as refused:
        client.make_control(tmp_path / ("x" * 80))
    assert "state_dir" in refused.value.hint


@pytest.mark.parametrize(
    ("status", "said", "cut"),
    [
        (0, "logout\nConnection to box closed.\n", False),
        (255, "logout\nConnection to box closed.\n", False),
        (255, "$ \nConnection to box closed by remote host.\nConnection to box closed.\n", True),
        (255, "client_loop: send disconnect: Broken pipe\n", True),
        (255, "", True),
        (None, "", False),
    ],
)
def test_a_cut_connection_is_told_from_an_end_in_order(status: int | None, said: str, cut: bool):
    assert client.was_cut(status, said) is cut
