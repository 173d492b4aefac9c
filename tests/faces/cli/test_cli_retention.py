"""`tmuxmcp pin` and what else keeps or removes the files of sessions, at the command line."""

from __future__ import annotations

import json
import os
import time

from tests.conftest import end_server


def test_pinned_sessions_are_shown(cli):
    cli("new", "--name", "x", "cat")
    assert cli.json("pin", "x") == {"session_id": "x", "pinned": True}
    (row,) = cli.json("list")["sessions"]
    assert row["pinned"]
    assert ", pinned " in cli.out("list")
    cli("kill", "x", "--force")
    assert "exited KILL (destroyed), pinned " in cli.out("list", "--all")
    cli("pin", "x", "--remove")
    assert "pinned" not in cli.out("list", "--all")


def test_an_earlier_session_is_pinned_without_a_server(cli):
    for _ in range(2):
        cli("new", "--name", "x", "true")
        cli("read", "x", "--wait", "exit")
    end_server(cli.state)
    cli("pin", "x.1")
    assert [(cli.state / "sessions" / name / "pinned").exists() for name in ("x", "x.1")] == [False, True]
    assert cli.tmux("list-sessions").returncode != 0
    assert "There are: x, x.1." in cli.error("pin", "y", status=3)
    cli.error("pin", "../sessions/x", status=3)


# ---- prune ---------------------------------------------------------------------------------------


def over(cli, *names):
    for name in names:
        cli("new", "--name", name, "true")
        cli("read", name, "--wait", "exit")
        cli("kill", name)


def test_prune_removes_what_is_named_and_says_so(cli):
    over(cli, "x", "y")
    cli("new", "--name", "z", "cat")
    told = cli.json("prune", "x", "--dry-run")
    assert told["dry_run"]
    assert (cli.state / "sessions" / "x").exists()
    (row,) = told["removed"]
    assert (row["session_id"], row["why"], row["bytes"] > 0) == ("x", "it was named", True)
    assert cli.json("prune", "x")["removed"] == [row]
    assert sorted(path.name for path in (cli.state / "sessions").iterdir()) == ["y", "z"]
    assert "tmuxmcp kill z" in cli.error("prune", "y", "z", status=2)
    assert (cli.state / "sessions" / "y").exists()
    (line,) = audited(cli)
    assert (line["tool"], line["session_id"], line["outcome"], line["client"]) == ("prune", "x", "ok", "cli")
    assert (line["removed_bytes"], line["why"]) == (row["bytes"], "it was named")


def test_prune_does_what_the_settings_say_and_starts_no_server(cli):
    over(cli, "x", "y", "z")
    cli("pin", "z")
    end_server(cli.state)
    for name in ("x", "z"):
        age(cli, name, days=8)
    assert cli.out("prune", "--dry-run").splitlines()[1].split()[0] == "x"
    heading, line = cli.out("prune").splitlines()
    assert heading.split() == ["ID", "BYTES", "LAST", "WHY"]
    assert line.endswith("it is older than retention_days (7)")
    assert sorted(path.name for path in (cli.state / "sessions").iterdir()) == ["y", "z"]
    assert b"nothing to remove" in cli("prune").stderr
    assert cli.tmux("list-sessions").returncode != 0


def test_prune_by_age(cli):
    over(cli, "x", "y")
    age(cli, "x", days=2)
    assert [each["session_id"] for each in cli.json("prune", "--older-than", "1d")["removed"]] == ["x"]
    cli.error("prune", "--older-than", "1", status=2)
    cli.error("prune", "y", "--older-than", "1d", status=2)


def test_nothing_is_removed_without_a_strict_audit(cli):
    over(cli, "x")
    (cli.state / "audit.jsonl").mkdir()
    cli.env["TMUXMCP_AUDIT"] = "strict"
    assert "nothing is removed" in cli.error("prune", "x", status=1)
    assert (cli.state / "sessions" / "x").exists()


def audited(cli):
    file = cli.state / "audit.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def age(cli, name, days):
    """Let nothing have happened in a session for so long."""
    then = time.time() - days * 86_400
    for path in (cli.state / "sessions" / name).iterdir():
        os.utime(path, (then, then))
