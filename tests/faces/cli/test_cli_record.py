"""`tmuxmcp record`, and `tmuxmcp new --record`: recordings that a person begins and ends."""

from __future__ import annotations

import json
from pathlib import Path

from tests.kit.cli import CommandLine
from tmuxmcp.terminal.film import formats
from tmuxmcp.terminal.film.film import FilmOutput


def test_a_person_records_a_session(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "x.cast"
    cli("new", "--name", "x", "bash")
    begun = cli("record", "x", "--path", str(path))
    assert begun.stdout.decode() == f"{path}\n"
    assert b"tmuxmcp record x --stop" in begun.stderr
    assert b"No server that stays" in begun.stderr
    assert "`tmuxmcp record ID --stop` ends that one" in cli.error("record", "x", status=1)
    assert cli.out("run", "x", "echo one") == "one\n"
    assert "--stop goes alone" in cli.error("record", "x", "--stop", "--input", status=2)
    told = json.loads(cli.out("record", "x", "--stop", "--json"))
    assert (told["path"], told["bytes"], told["times_known"]) == (str(path), path.stat().st_size, False)
    film = formats.read(path.read_bytes().splitlines(keepends=True))
    assert b"one\r\n" in b"".join(each.data for each in film.moments if isinstance(each, FilmOutput))
    assert cli.error("record", "x", "--stop", status=1).startswith("RECORDING_STATE: ")


def test_a_new_session_is_recorded_from_its_start(cli: CommandLine) -> None:
    cli("new", "--name", "x", "--record", "always", "bash")
    cli("run", "x", "echo one")
    told = json.loads(cli.out("kill", "x", "--json"))["recording"]
    assert told["state"] == "saved"
    assert b"one" in Path(told["path"]).read_bytes()
