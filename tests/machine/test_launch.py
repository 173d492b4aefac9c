"""What a pane is given to run: program, directory, environment."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmuxmcp.contract.errors import CwdNotFound, InvalidArgument, ProgramNotFound
from tmuxmcp.machine.environment import find_cwd, find_program, session_environment
from tmuxmcp.machine.launch import launch
from tmuxmcp.machine.launch.step import read_spec

# ---- environment -----------------------------------------------------------------------------------


def environment(own: dict[str, str], **named: object) -> dict[str, str]:
    arguments = {"allow": [], "settings_env": {}, "env": {}, "term": "tmux-256color", **named}
    return session_environment(own, **arguments)  # type: ignore[arg-type]


def test_what_is_allowed_passes_and_nothing_else() -> None:
    own = {"PATH": "/x", "LC_TIME": "de", "XDG_DATA_HOME": "/d", "VIRTUAL_ENV": "/v", "FOO": "1", "LD_PRELOAD": "x"}
    found = environment(own)
    assert {name: found.get(name) for name in own} == {**own, "FOO": None, "LD_PRELOAD": None}
    assert set(environment({})) == {"HOME", "USER", "LOGNAME", "PATH", "SHELL", "LANG", "TERM", "COLORTERM"}


@pytest.mark.parametrize(
    "name",
    [
        *("GITHUB_TOKEN", "XDG_SECRET", "LC_API_KEY", "CONDA_PASSWORD", "XDG_SESSION_KEY", "AWS_ACCESS_KEY_ID"),
        *(
            "LC_AUTHOR",
            "XDG_PRIVATE_KEY",
            "CONDA_CREDENTIALS",
            "TMUX",
            "TMUX_PANE",
            "TMUXMCP_STATE_DIR",
            "BASH_FUNC_x%%",
        ),
    ],
)
def test_what_looks_like_a_secret_never_passes_by_a_pattern(name: str) -> None:
    assert name not in environment({name: "s3cr3t"})
    assert name not in environment({name: "s3cr3t"}, allow=[name[:4] + "*", "*"])


def test_secret_passes_when_it_is_named_and_tmux_never() -> None:
    assert environment({"GITHUB_TOKEN": "s3cr3t"}, allow=["GITHUB_TOKEN"])["GITHUB_TOKEN"] == "s3cr3t"
    assert "TMUX" not in environment({"TMUX": "/x,1,2"}, allow=["TMUX"])


def test_callers_words_count_more_than_settings_and_those_more_than_ours() -> None:
    found = environment(
        {"LANG": "a", "TZ": "a", "PAGER": "a"}, settings_env={"TZ": "b", "PAGER": "b"}, env={"PAGER": "c"}
    )
    assert (found["LANG"], found["TZ"], found["PAGER"]) == ("a", "b", "c")


@pytest.mark.parametrize(("name", "value"), [("", "x"), ("A=B", "x"), ("A\0B", "x"), ("A", "x\0y")])
def test_name_that_no_environment_can_hold(name: str, value: str) -> None:
    with pytest.raises(InvalidArgument, match="environment variable"):
        environment({}, env={name: value})


# ---- program and directory -------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "tool"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_program_is_found_on_the_sessions_path_and_beside_its_directory(program: Path, tmp_path: Path) -> None:
    for name in ("tool", str(program)):
        assert find_program(name, str(program.parent), "/") == str(program)
    for name in ("./bin/tool", "bin/../bin/tool"):
        assert find_program(name, "/nowhere", str(tmp_path)) == str(program)


def test_program_in_the_home_directory(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_program("~/bin/tool", "", "/") == str(program)


@pytest.mark.parametrize("name", ["no-such-program", "/nowhere/x", "./x", "/etc", "/etc/passwd", "ls -l"])
def test_program_that_is_not_there(name: str) -> None:
    with pytest.raises(ProgramNotFound) as caught:
        find_program(name, "/usr/bin:/bin", "/")
    assert caught.value.details["program"] == name


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_name_of_no_program(name: str) -> None:
    with pytest.raises(InvalidArgument):
        find_program(name, "/bin", "/")


def test_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert find_cwd("") == find_cwd("~") == find_cwd(".") == str(tmp_path)
    for bad in ("/nowhere", "/etc/passwd", "a\0b"):
        with pytest.raises(CwdNotFound):
            find_cwd(bad)


# ---- the file for the launcher ---------------------------------------------------------------------

texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)


@given(st.lists(texts), st.dictionaries(texts.filter(lambda name: name and "=" not in name), texts), texts)
def test_spec_is_read_as_it_was_written(argv: list[str], env: dict[str, str], cwd: str) -> None:
    confine = [("limit", "7 64 64"), ("group", "/sys/a=b")]
    with TemporaryDirectory() as name:
        path = Path(name, "spec")
        launch.write_spec(path, executable="/x", argv=argv, env=env, cwd=cwd, umask=0o27, confine=confine)
        assert path.stat().st_mode & 0o777 == 0o600
        assert read_spec(str(path)) == (
            *(cwd, 0o27, "/x", [os.fsencode(word) for word in argv]),
            {os.fsencode(key): os.fsencode(value) for key, value in env.items()},
            confine,
        )
        assert not path.exists()


def test_argument_with_nul_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="NUL"):
        launch.write_spec(tmp_path / "spec", executable="/x", argv=["a\0b"], env={}, cwd="/", umask=0)
    assert list(tmp_path.iterdir()) == []


def test_scripts_are_posix_shell() -> None:
    """dash, where there is one, takes them."""
    shell = shutil.which("dash") or "/bin/sh"
    for name in ("launcher.sh", "sink.sh"):
        assert os.spawnv(os.P_WAIT, shell, [shell, "-n", str(launch.LAUNCH_ROOM / name)]) == 0
