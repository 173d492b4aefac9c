"""What a fleet on Ray does before Ray is asked: the secret, what is started, frames; none of it needs Ray."""

from __future__ import annotations

import base64
import os
import stat
import sys
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from tests.conftest import SLOW, eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import (
    InvalidArgument,
    IoError,
    OutcomeUnknown,
    PermissionDenied,
    TmuxMcpError,
    Unsupported,
)
from tmuxmcp.faces.page.lookups import OwnDesk
from tmuxmcp.faces.page.routes import page_of
from tmuxmcp.nodes import fleetfile
from tmuxmcp.nodes import ray as room
from tmuxmcp.nodes.ray.child import FRAME_BODY_BYTES, frame, head_of
from tmuxmcp.nodes.ray.door import Visits
from tmuxmcp.nodes.ray.own import KeptFleet, start_argv, start_env


def test_a_secret_is_made_once_and_is_private(tmp_path: Path) -> None:
    file = tmp_path / "new" / "secret"
    made = fleetfile.make(file)
    assert len(made) >= fleetfile.MIN_SECRET_CHARS
    assert fleetfile.make(file) == fleetfile.read(file) == made
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
            fleetfile.read(file)
    with pytest.raises(IoError, match="no secret"):
        fleetfile.read(tmp_path / "none")


def test_ray_is_started_with_the_secret_and_as_nice_as_others(tmp_path: Path) -> None:
    env = start_env({"PATH": "/bin"}, tmp_path / "s")
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(tmp_path / "s")}
    assert env == {"PATH": "/bin", "RAY_worker_niceness": "0", **token}
    own = {"RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "5"}
    assert start_env(own, tmp_path / "s") == own  # who says so knows better
    head = start_argv("n1", {"region": "eu"})[1:]
    assert head[:4] == ["start", "--head", "--port=6379", "--include-dashboard=false"]
    assert "--labels=region=eu,tmuxmcp/node=n1" in head
    assert start_argv("n2", {}, "h:1", ["--num-cpus=2"])[2::3][0] == "--address=h:1"


KEEPS_ONE = """
import os, sys, anyio
from tmuxmcp.nodes.ray.child import Child
anyio.run(Child("tmuxmcp.nodes.ray." + sys.argv[1], "h:1", {"PYTHONPATH": os.environ["PYTHONPATH"]}).run)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a child ends once Ray has answered")
@pytest.mark.parametrize("kind", ["bridge", "watcher"])
async def test_a_child_that_ray_holds_up_ends_with_a_killed_gateway(tmp_path: Path, kind: str) -> None:
    """In place of Ray, whose calls block while the cluster's head is away, one whose first call never ends."""
    (package := tmp_path / "ray").mkdir()
    (package / "exceptions.py").write_text("RayError = OSError")
    (package / "experimental.py").write_text("internal_kv = None")
    (package / "__init__.py").write_text(
        f"import os, time\ndef init(**given): os.mknod({str(tmp_path / 'called')!r}); time.sleep(1000)\n"
    )
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    gateway = await anyio.open_process([sys.executable, "-c", KEEPS_ONE, kind], env={"PYTHONPATH": path})
    await eventually((tmp_path / "called").exists, 20)
    [child] = psutil.Process(gateway.pid).children()
    gateway.kill()
    await gateway.aclose()
    await eventually(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_a_frame_is_read_as_it_was_written() -> None:
    whole = frame({"id": 7, "text": "\ud800\n"}, b"body\n")
    line, body = whole.split(b"\n", 1)
    assert head_of(line) == {"id": 7, "text": "\ud800\n", "bytes": 5}
    assert body == b"body\n"
    for wrong in (b"[]", b"{}", b'{"bytes": -1}', b'{"bytes": %d}' % (FRAME_BODY_BYTES + 1), b"no"):
        with pytest.raises(ValueError, match=r"not a frame|Expecting value"):
            head_of(wrong)


def test_without_ray_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "find_spec", lambda _: None)
    with pytest.raises(Unsupported, match=r"tmuxmcp\[fleet\]"):
        room.need_ray()
    assert room.cluster_of("ray://h:6379/") == "h:6379"


# ---- visits ------------------------------------------------------------------------------------


async def until(visits: Visits, told: dict[str, Any], word: bytes) -> None:
    """Read on in the visit `v` until this has come."""
    data = base64.b64decode(told["data"])
    with anyio.fail_after(20 * SLOW):
        while word not in data:
            assert told["more"]
            told = await visits.do(nothing, {"visit": "v"})
            data += base64.b64decode(told["data"])


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    """An application that is not asked."""
    raise AssertionError


async def test_a_page_is_read_on_with_calls(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    visits, desk = Visits(), OwnDesk(broker)
    async with desk.run():
        app = page_of(desk)
        told = await visits.do(app, {"visit": "v", "name": "stream", "asked": {"session": "a"}})
        assert (told["status"], told["kind"].partition(";")[0]) == (200, "application/x-ndjson")
        await until(visits, told, b'"session_id":"a"')
        await broker.run("echo seen", "a")
        await until(visits, told | {"data": ""}, b"seen")
        assert desk.listing.lookers == 1
        await visits.do(nothing, {"visit": "v", "end": True})
        await eventually(lambda: desk.listing.lookers == 0)
        with pytest.raises(OutcomeUnknown):
            await visits.do(nothing, {"visit": "v"})
        whole = await visits.do(app, {"visit": "w", "name": "commands", "asked": {"session": "a"}})
        assert (whole["status"], whole["more"], b"echo seen" in base64.b64decode(whole["data"])) == (200, False, True)
        refused = await visits.do(app, {"visit": "w", "name": "commands", "asked": {"session": "b"}})
        assert (refused["status"], refused["more"]) == (404, False)


async def test_an_answer_that_breaks_off_is_no_whole_one(caplog: pytest.LogCaptureFixture) -> None:
    async def breaks(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a part", "more_body": True})
        raise ValueError("it fails")

    visits = Visits()
    first = await visits.do(breaks, {"visit": "v", "name": "export", "asked": {}})
    assert (base64.b64decode(first["data"]), first["more"]) == (b"a part", True)
    with pytest.raises(OutcomeUnknown):
        await visits.do(breaks, {"visit": "v"})
    assert "/page/export failed" in caplog.text


def test_what_a_fleet_has_is_known_to_the_next_cluster(tmp_path: Path) -> None:
    claim = {"machine_id": "m2", "host": "h", "state_dir": "/s"}
    at = "2026-01-01T00:00:0"
    here = {"labels": {"gpu": "a"}, "alive": True, "hung": True}
    drained = {"drain:n1": {"at": f"{at}1"}, "drain:n2": {"at": f"{at}2"}, "machine:n2": claim}
    told = {"address": "h:1", "machines": {"n1": here, "n2": here, "n3": here}, "records": drained}
    known, lost = KeptFleet(tmp_path).merged(told)
    assert (sorted(known["machines"]), lost) == (["n1", "n2", "n3"], {})
    # n3 is given up, and n1 no longer drained, as another gateway says.
    records = drained | {"drain:n1": {"at": f"{at}3", "off": True}, "tomb:n3": {"machine_id": "", "at": f"{at}3"}}
    KeptFleet(tmp_path).merged({"address": "h:1", "machines": {"n1": here, "n2": here}, "records": records})
    # The head is another one.
    known, lost = KeptFleet(tmp_path).merged({"address": "h:1", "machines": {"n1": here}, "records": {}})
    assert lost == records
    assert (sorted(known["machines"]), sorted(known["tombs"])) == (["n1", "n2"], ["n3"])
    assert "drain" not in known["machines"]["n1"]
    away = known["machines"]["n2"]
    assert (away["alive"], away["drain"], away["machine"]) == (False, {"at": f"{at}2"}, claim)
    assert KeptFleet(tmp_path).all_away("other name:1")["machines"]["n2"]["alive"] is False
    # It is told; then n2 is given up, and who has its name is forgotten with it.
    records = lost | {"tomb:n2": {"machine_id": "m2", "at": f"{at}4"}}
    del records["machine:n2"]
    known, lost = KeptFleet(tmp_path).merged({"address": "h:1", "machines": {"n1": here}, "records": records})
    assert (lost, sorted(known["machines"])) == ({}, ["n1", "n2"])
    known, lost = KeptFleet(tmp_path).merged({"address": "h:1", "machines": {"n1": here}, "records": records})
    assert (lost, sorted(known["machines"])) == ({}, ["n1"])
    (tmp_path / "fleet.json").write_text("[")
    assert KeptFleet(tmp_path).merged(told)[1] == {}
    assert KeptFleet(None).merged(told)[1] == {}
