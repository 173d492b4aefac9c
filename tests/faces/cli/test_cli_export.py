"""`tmuxmcp export`: what a session did as a file, running or not."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.faces.cli.test_cli_log import begun
from tests.kit.cli import CommandLine
from tmuxmcp.faces.cli import record
from tmuxmcp.terminal.film import formats
from tmuxmcp.terminal.film.film import FilmOutput


def text_of(cast: bytes) -> bytes:
    moments = formats.read(cast.splitlines(keepends=True)).moments
    return b"".join(each.data for each in moments if isinstance(each, FilmOutput))


def test_a_session_is_written_as_each_format_and_nothing_is_overwritten(cli: CommandLine, tmp_path: Path) -> None:
    begun(cli, "x", r"printf 'a\n\033[31mred\033[0m <b>\n'")
    raw = cli("log", "x", "--raw").stdout
    made = tmp_path / "x.cast"
    told = cli("export", "x", "--path", str(made)).stdout.decode()
    assert told.startswith(f"{made}: {made.stat().st_size:,} bytes, ")
    assert text_of(made.read_bytes()) == raw
    assert made.stat().st_mode & 0o777 == 0o600
    assert "nothing is overwritten" in cli.error("export", "x", "--path", str(made), status=2)
    assert text_of(cli("export", "x", "--path", "-", "--format", "cast2").stdout) == raw
    assert cli("export", "x", "--path", "-", "--format", "txt").stdout == b"a\nred <b>\ndone\n"
    assert cli("export", "x", "--path", "-", "--format", "ansi").stdout == b"a\n\x1b[31mred\x1b[0m <b>\ndone\n"
    assert (
        b'<span style="color:#e05561">red</span> &lt;b&gt;'
        in cli("export", "x", "--path", "-", "--format", "html").stdout
    )
    svg = cli("export", "x", "--path", "-", "--format", "svg").stdout
    assert svg.startswith(b"<svg ")
    assert b"&lt;b&gt;" in svg
    assert b"<script" not in svg
    assert cli("export", "x", "--path", "-", "--format", "gif").stdout.startswith(b"GIF89a")
    lines = [json.loads(line) for line in cli("export", "x", "--path", "-", "--format", "jsonl").stdout.splitlines()]
    assert (lines[0]["event"], lines[-1]["event"]) == ("start", "end")
    assert lines[-2]["screen"][:3] == ["a", "red <b>", "done"]
    told_json = json.loads(cli("export", "x", "--json").stdout)
    assert Path(told_json["path"]).parent.name == "recordings"
    assert told_json["bytes"] == os.stat(told_json["path"]).st_size
    cli("kill", "x", "--force")
    assert cli("export", "x", "--path", "-", "--format", "txt").stdout == b"a\nred <b>\ndone\n"


def test_one_command_is_exported(cli: CommandLine, tmp_path: Path) -> None:
    cli("new", "--name", "x", "bash")
    cli("run", "-s", "x", "echo one")
    cli("run", "-s", "x", "seq 3; false", status=1)
    made = tmp_path / "seq.txt"
    cli("export", "x", "--command", "-1", "--path", str(made))
    assert made.read_text() == "1\n2\n3\n"
    cast = cli("export", "x", "--command", "-1", "--path", "-").stdout.splitlines(keepends=True)
    assert json.loads(cast[-1])[1:] == ["m", "seq 3; false: exit 1"]
    assert "no command 99" in cli.error("export", "x", "--command", "99", status=2)


def test_a_long_export_shows_how_far_it_is_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, told in (("isatty", lambda: True), ("fileno", lambda: 2)):
        monkeypatch.setattr(sys.stderr, name, told, raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((80, 24)))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(record, "NO_BAR_S", 0)
    bar = record.Bar()
    bar.show(3 << 20, 4 << 20)
    bar.erase()
    assert capsys.readouterr().err == "\r[######################        ]  75 %  3 of 4 MiB\x1b[K\r\x1b[K"
