"""What a session showed last, whatever became of it: `tmuxmcp view`, `list --all` and `read view=screen`."""

from __future__ import annotations

import pytest

from tests.conftest import end_server
from tests.kit.cli import a_command_line

REBUILT = b"rebuilt from its log"


@pytest.fixture(scope="module")
def cli():
    """Sessions that ended (`e`), were killed (`k.1`, `k`, `v` with vim) or are lost (`l`)."""
    with a_command_line() as cli:
        for name, text in (("e", "ended"), ("k", "first"), ("l", "lost")):
            cli("new", "--name", name, "bash", "--norc")
            cli("run", "-s", name, f"echo it is {text}")
        cli("send", "e", "exit 3", "--enter", "--wait", "exit")
        cli("kill", "k", "--force")
        cli("new", "--name", "k", "env", "sh", "-c", "echo second; echo; sleep 600")
        cli("read", "k", "--pattern", r"second\n", "--since", "0")
        cli("kill", "k", "--force")
        file = cli.work / "file"
        file.write_text("in the editor\n")
        cli("new", "--name", "v", "vim", "-u", "NONE", "-N", str(file))
        cli("send", "v", "--key", "Escape")
        cli("kill", "v", "--force")
        cli.listed = cli.out("list", "--all")
        cli.ended = cli("view", "e")
        end_server(cli.state)
        yield cli


def test_one_that_ended_shows_its_screen_as_it_is(cli):
    assert b"\nit is ended\n" in cli.ended.stdout
    assert cli.ended.stderr == b""


@pytest.mark.parametrize(
    ("name", "text"),
    [("l", "it is lost"), ("k", "second"), ("k.1", "it is first"), ("v", "in the editor"), ("e", "it is ended")],
)
def test_what_is_gone_shows_its_last_screen_and_says_so(cli, name, text):
    done = cli("view", name)
    assert text in done.stdout.decode().splitlines()
    assert REBUILT in done.stderr
    told = cli.json("view", name)
    assert (told["exited"], told["approximate"], told["view"]) == (True, False, "screen")


def test_the_list_has_why_how_and_the_last_line(cli):
    heading, *rows = cli.listed.splitlines()
    assert heading.endswith("LAST LINE")
    row = {line.split()[0]: line for line in rows}
    assert "exited 3 " in row["e"]
    assert row["e"].endswith("  exit")
    assert "(destroyed)" in row["k"]
    assert row["k"].endswith("  second")
    assert not row["l"].endswith("lost")  # it runs
    assert "LAST LINE" not in cli.out("list")
