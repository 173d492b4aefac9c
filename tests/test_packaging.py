"""What is published: built, installed where nothing of this checkout is, and used from there."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import site
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import tmuxmcp
from tests.conftest import SLOW, end_server
from tmuxmcp.config import PREFIX, Settings

ROOT = Path(__file__).parents[1]
DATA = ("tmux/tmux.conf", "tmux/launcher.sh", "tmux/sink.sh", "tmux/shell/bash.sh", "tmux/shell/zsh/.zshenv")


@pytest.fixture(scope="module")
def scripts() -> dict[str, object]:
    return runpy.run_path(str(ROOT / "scripts" / "package.py"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel, the sdist and the bundle, by suffix."""
    directory = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, ROOT / "scripts" / "package.py", directory], check=True, capture_output=True)
    return {path.suffix: path for path in directory.iterdir()}


def installed(wheel: Path, place: Path) -> Path:
    """The command in an environment that has the wheel, and of this one only what it depends on."""
    venv.create(place, symlinks=True)
    packages = next(place.glob("lib/python3*/site-packages"))
    # What a .pth file adds is no site directory: an editable install's own .pth has no effect there.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    installer = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install", "-q"]
    if uv := shutil.which("uv"):
        installer = [uv, "pip", "install", "-q", "--python", str(place / "bin" / "python")]
    subprocess.run([*installer, "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True)
    return place / "bin" / "tmuxmcp"


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="tm-", ignore_cleanup_errors=True) as state:
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        yield {**kept, "HOME": str(tmp_path), "LANG": "C.UTF-8", "TMUXMCP_STATE_DIR": state}
        end_server(Path(state))


def test_descriptions_are_what_the_code_says(scripts: dict) -> None:
    for name, text in scripts["descriptions"]().items():
        assert (ROOT / "packaging" / name).read_text() == text, "run scripts/package"


def test_descriptions_agree_with_the_readme_and_the_settings() -> None:
    described = json.loads((ROOT / "packaging" / "server.json").read_text())
    assert f"<!-- mcp-name: {described['name']} -->" in (ROOT / "README.md").read_text()
    assert f'io.modelcontextprotocol.server.name="{described["name"]}"' in (ROOT / "Dockerfile").read_text()
    assert described["version"] == described["packages"][0]["version"] == tmuxmcp.__version__
    assert len(described["description"]) <= 100  # the registry takes no more
    names = [variable["name"] for variable in described["packages"][0]["environmentVariables"]]
    assert {name.removeprefix(PREFIX).lower() for name in names} <= set(Settings.model_fields)


@pytest.mark.slow
def test_wheel_works_in_a_fresh_environment(
    built: dict[str, Path], tmp_path: Path, environment: dict[str, str]
) -> None:
    command = installed(built[".whl"], tmp_path / "venv")
    kwargs = {"env": environment, "cwd": tmp_path, "capture_output": True, "text": True, "timeout": 60 * SLOW}
    where = subprocess.run(
        [command.parent / "python", "-c", "import tmuxmcp; print(tmuxmcp.__file__)"], check=True, **kwargs
    )
    assert str(tmp_path) in where.stdout
    assert subprocess.run([command, "--version"], check=True, **kwargs).stdout == f"tmuxmcp {tmuxmcp.__version__}\n"
    ran = subprocess.run([command, "run", "--json", "cd /usr && pwd"], check=True, **kwargs)
    assert json.loads(ran.stdout)["output"] == "/usr\n"
    demo = subprocess.run([command, "demo", "--json"], check=False, **kwargs)
    assert demo.returncode == 0, demo.stderr


def test_archives_hold_the_same_and_what_it_runs_on(built: dict[str, Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(built[".whl"]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert {f"tmuxmcp/{name}" for name in DATA} <= names
    subprocess.run(["tar", "-xf", built[".gz"], "-C", tmp_path], check=True)
    (unpacked,) = tmp_path.iterdir()
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=unpacked, check=True)
    with zipfile.ZipFile(next((unpacked / "dist").iterdir())) as wheel:
        assert {name for name in wheel.namelist() if ".dist-info/" not in name} == names


def test_bundle_holds_a_project_that_uv_can_run(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built[".mcpb"]) as bundle:
        names = set(bundle.namelist())
        manifest = json.loads(bundle.read("manifest.json"))
    assert {"pyproject.toml", "tmux.conf", "README.md", manifest["server"]["entry_point"]} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith(("tests", ".git"))]


@pytest.mark.slow
def test_bundle_is_valid(built: dict[str, Path], tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if not npm:
        pytest.skip("needs npm")
    (tmp_path / "package.json").write_text("{}")
    tool = [npm, "exec", "--yes", "--package=@anthropic-ai/mcpb", "--", "mcpb"]
    env = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run([*tool, "unpack", built[".mcpb"], "b"], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([*tool, "validate", "b"], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_uvx_runs_the_wheel(built: dict[str, Path], tmp_path: Path, environment: dict[str, str]) -> None:
    uvx = shutil.which("uvx")
    if not uvx:
        pytest.skip("needs uv")
    command = [uvx, "--quiet", "--python", sys.executable, "--from", str(built[".whl"]), "tmuxmcp", "demo", "--json"]
    settings = {name: value for name, value in os.environ.items() if name.startswith(("UV_", "SSL_"))}
    env = environment | settings | {"UV_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300 * SLOW)
    assert done.returncode == 0, done.stderr
