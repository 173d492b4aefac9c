"""What a fleet on Ray does before Ray is asked: the secret, what is started, frames; none of it needs Ray."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tmuxmcp.errors import InvalidArgument, IoError, PermissionDenied, TmuxMcpError, Unsupported
from tmuxmcp.nodes import ray as room
from tmuxmcp.nodes import secret
from tmuxmcp.nodes.ray import frames, starting


def test_a_secret_is_made_once_and_is_private(tmp_path: Path) -> None:
    file = tmp_path / "new" / "secret"
    made = secret.make(file)
    assert len(made) >= secret.SHORTEST
    assert secret.make(file) == secret.read(file) == made
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["secret"]


def test_a_secret_that_is_none_is_refused(tmp_path: Path) -> None:
    table: list[tuple[str, int, type[TmuxMcpError]]] = [
        ("x" * 40, 0o644, PermissionDenied),
        ("short", 0o600, InvalidArgument),
    ]
    for text, mode, error in table:
        (file := tmp_path / error.__name__).write_text(text)
        file.chmod(mode)
        with pytest.raises(error):
            secret.read(file)
    with pytest.raises(IoError, match="no secret"):
        secret.read(tmp_path / "none")


def test_ray_is_started_with_the_secret_and_as_nice_as_others(tmp_path: Path) -> None:
    env = starting.start_env({"PATH": "/bin"}, tmp_path / "s")
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(tmp_path / "s")}
    assert env == {"PATH": "/bin", "RAY_worker_niceness": "0", **token}
    own = {"RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "5"}
    assert starting.start_env(own, tmp_path / "s") == own  # who says so knows better
    head = starting.start_argv("n1", {"region": "eu"})[1:]
    assert head[:4] == ["start", "--head", "--port=6379", "--include-dashboard=false"]
    assert "--labels=region=eu,tmuxmcp/node=n1" in head
    assert starting.start_argv("n2", {}, "h:1", ["--num-cpus=2"])[2::3][0] == "--address=h:1"


def test_a_frame_is_read_as_it_was_written() -> None:
    whole = frames.frame({"id": 7, "text": "\ud800\n"}, b"body\n")
    line, body = whole.split(b"\n", 1)
    assert frames.head_of(line) == {"id": 7, "text": "\ud800\n", "bytes": 5}
    assert body == b"body\n"
    for wrong in (b"[]", b"{}", b'{"bytes": -1}', b'{"bytes": %d}' % (frames.MOST_BODY + 1), b"no"):
        with pytest.raises(ValueError, match=r"not a frame|Expecting value"):
            frames.head_of(wrong)


def test_without_ray_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "find_spec", lambda _: None)
    with pytest.raises(Unsupported, match=r"tmuxmcp\[fleet\]"):
        room.need_ray()
    assert room.cluster_of("ray://h:6379/") == "h:6379"
