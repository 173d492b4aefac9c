"""What is published: built, installed where nothing of this checkout is, and used from there."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import site
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import tmuxmcp
from tests.conftest import SLOW, end_server
from tests.faces.cli.test_completion import ZSH
from tests.kit.clients import NODE, program
from tmuxmcp.config import VARIABLE_PREFIX, Settings, load_settings
from tmuxmcp.faces.cli.arguments import VERBS

ROOT = Path(__file__).parents[1]
KINDS = {".py", ".sh", ".zsh", ".fish", ".html", ".css", ".js", ".svg"}
"""What the package consists of, besides `tmux.conf`, zsh's .zshenv and the mark of a typed package (PEP 561)."""

STRAYS = (
    *("tmuxmcp/x.orig", "tmuxmcp/x.rej", "tmuxmcp/x.py~", "tmuxmcp/.DS_Store", "tmuxmcp/#x.py#", "tmuxmcp/.#x.py"),
    *("tmuxmcp/broker/.x.py.swp", "tmuxmcp/broker/.x.py.swo", "tmuxmcp/notes"),
    "tmuxmcp/machine/launch/shell/zsh/..zshenv.swp",
    *("tmuxmcp/__pycache__/x.pyc", "tmuxmcp/core.123", "tests/.x.py.swp", "docs/index.md~", "scripts/test.orig"),
)
"""What editors, tools and people leave behind."""


@pytest.fixture(scope="module")
def scripts() -> dict[str, object]:
    return runpy.run_path(str(ROOT / "scripts" / "package.py"))


@pytest.fixture(scope="module")
def tracked() -> set[str]:
    """What git knows of this checkout, as it is now."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no git checkout")
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}


@pytest.fixture(scope="module")
def built(tracked: set[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel, the sdist and the bundle, by suffix; from a checkout where all sorts of things lie about."""
    checkout, directory = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("dist")
    for name in (*tracked, *STRAYS):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        if name in tracked:
            shutil.copy2(ROOT / name, checkout / name)
        else:
            (checkout / name).touch()
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    says_ready = 'source scripts/lib.sh && fingerprint >"$venv/.ready-run"'  # to run it, not to test it
    subprocess.run(["bash", "-c", says_ready], cwd=checkout, check=True)
    subprocess.run([checkout / "scripts" / "package", directory], check=True, capture_output=True)
    assert sorted(path.name for path in python.parent.parent.iterdir()) == [".ready-run", "bin"]
    return {path.suffix: path for path in directory.iterdir()}


@pytest.fixture(scope="module")
def command(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in an environment that has the wheel, and of this one only what it depends on."""
    place = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(place, symlinks=True)
    packages = next(place.glob("lib/python3*/site-packages"))
    # What a .pth file adds is no site directory: an editable install's own .pth has no effect there.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    installer = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install", "-q"]
    if uv := shutil.which("uv"):
        installer = [uv, "pip", "install", "-q", "--python", str(place / "bin" / "python")]
    subprocess.run([*installer, "--no-deps", "--no-index", str(built[".whl"])], check=True, capture_output=True)
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


def test_every_installation_can_draw_pictures() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name in ("pillow", "fontpkg-jetbrains-mono"):
        assert any(re.match(rf"{name}\b", each) for each in project["dependencies"])
        assert re.search(rf"^{name}==", (ROOT / "requirements" / "run.txt").read_text(), re.MULTILINE)
    assert project["optional-dependencies"]["images"] == []  # who asks for the extra still gets an installation


def test_pins_say_no_place_to_download_from() -> None:
    run, test = ((ROOT / "requirements" / name).read_text() for name in ("run.txt", "test.txt"))
    for text in (run, test):
        assert not re.search(r"^-|://| @ |file:", text, re.MULTILINE)
    pinned = [re.findall(r"^(\S+==\S+)", text, re.MULTILINE) for text in (run, test)]
    assert set(pinned[0]) < set(pinned[1])


def test_descriptions_agree_with_the_readme_and_the_settings() -> None:
    described = json.loads((ROOT / "packaging" / "server.json").read_text())
    assert f"<!-- mcp-name: {described['name']} -->" in (ROOT / "README.md").read_text()
    assert f'io.modelcontextprotocol.server.name="{described["name"]}"' in (ROOT / "Dockerfile").read_text()
    assert described["version"] == described["packages"][0]["version"] == tmuxmcp.__version__
    assert len(described["description"]) <= 100  # the registry takes no more
    names = [variable["name"] for variable in described["packages"][0]["environmentVariables"]]
    assert {name.removeprefix(VARIABLE_PREFIX).lower() for name in names} <= set(Settings.model_fields)


@pytest.mark.slow
def test_wheel_works_in_a_fresh_environment(command: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    kwargs = {"env": environment, "cwd": tmp_path, "capture_output": True, "text": True, "timeout": 60 * SLOW}
    where = subprocess.run(
        [command.parent / "python", "-c", "import tmuxmcp; print(tmuxmcp.__file__)"], check=True, **kwargs
    )
    assert where.stdout.startswith(str(command.parents[1]))
    assert subprocess.run([command, "--version"], check=True, **kwargs).stdout == f"tmuxmcp {tmuxmcp.__version__}\n"
    ran = subprocess.run([command, "run", "--json", "cd /usr && pwd"], check=False, **kwargs)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["output"] == "/usr\n"
    served = subprocess.run([command, "serve"], stdin=subprocess.DEVNULL, check=True, **kwargs)
    assert "ended cleanly" in served.stderr
    found = json.loads(subprocess.run([command, "doctor", "--json"], check=False, **kwargs).stdout)["checks"]
    shells = {each["name"]: each for each in found if each["name"] in ("bash", "zsh", "fish")}
    assert shells
    assert all(each["ok"] for each in shells.values()), shells  # their start-up files are there


def test_wheel_brings_the_manual_and_completions(command: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    share = command.parents[1] / "share"
    env = environment | {"PATH": f"{command.parent}:{environment['PATH']}", "MANWIDTH": "80", "TERM": "xterm"}

    def said(*argv: str) -> str:
        if not shutil.which(argv[0]):
            return ""
        kwargs = {"env": env, "cwd": tmp_path, "timeout": 60 * SLOW, "stdin": subprocess.DEVNULL}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, **kwargs)
        assert (done.returncode, done.stderr) == (0, ""), argv
        return done.stdout

    shown = said("man", "--warnings", "-l", str(share / "man/man1/tmuxmcp.1"))
    if shown:
        assert all(f"tmuxmcp {verb} [" in shown for verb in VERBS)
        assert max(map(len, shown.splitlines())) <= 80
    stub = share / "bash-completion/completions/tmuxmcp"
    assert said("bash", "--norc", "-c", f"source {stub}; complete -p tmuxmcp") == "complete -F _tmuxmcp tmuxmcp\n"
    stub = share / "fish/vendor_completions.d/tmuxmcp.fish"
    if shutil.which("fish"):
        assert "\nrecord\t" in said("fish", "--no-config", "-c", f"source {stub}; complete -C 'tmuxmcp re'")
    sourced, found = (
        "compinit -u -C -d ~/.zcompdump; source ${(q)script}",
        "fpath=(${(q)script} $fpath); compinit -u -D",
    )
    assert sourced in ZSH
    if shutil.which("zsh"):
        functions = str(share / "zsh/site-functions")
        env["SEPARATORS"] = " \t\n"
        seen = said("zsh", "-f", "-c", ZSH.replace(sourced, found), "zsh", functions, "tmuxmcp", "re")
        assert {"read", "record", "restore"} <= set(re.findall(r"<([^<>\r\n]+)>\r?\n", seen))


def test_bundle_asks_with_defaults_that_are_good(scripts: dict) -> None:
    manifest = json.loads(scripts["descriptions"]()["manifest.json"])
    asked = manifest["user_config"]
    environment = manifest["server"]["mcp_config"]["env"]
    for name, default in ((name, entry["default"]) for name, entry in asked.items()):
        assert environment[f"{VARIABLE_PREFIX}{name.upper()}"] == f"${{user_config.{name}}}"
        assert getattr(load_settings({name: str(default)}), name) == getattr(
            Settings(program="bash") if name == "program" else Settings(), name
        )


def test_package_consists_of_what_it_runs_on(tracked: set[str]) -> None:
    odd = [name for name in tracked if name.startswith("tmuxmcp/") and Path(name).suffix not in KINDS]
    assert set(odd) == {"tmuxmcp/py.typed", "tmuxmcp/machine/launch/shell/zsh/.zshenv"}


def test_archives_hold_what_git_tracks_and_nothing_else(built: dict[str, Path], tracked: set[str]) -> None:
    package = {name for name in tracked if name.startswith("tmuxmcp/")}
    shared = {name for name in tracked if name.startswith("packaging/share/")}
    data = f"tmuxmcp-{tmuxmcp.__version__}.data/data"
    with zipfile.ZipFile(built[".whl"]) as wheel:
        assert {name for name in wheel.namelist() if ".dist-info/" not in name} == package | {
            "tmuxmcp/tmux/tmux.conf",
            *(name.replace("packaging", data) for name in shared),
        }
    with zipfile.ZipFile(built[".mcpb"]) as bundle:
        assert set(bundle.namelist()) == package | shared | {
            *("manifest.json", "pyproject.toml", "README.md", "LICENSE", "tmux.conf")
        }
    with tarfile.open(built[".gz"]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    folders = ("tmuxmcp/", "tests/", "docs/", "scripts/", "requirements/")
    assert names == shared | {name for name in tracked if name.startswith(folders)} | {
        *("PKG-INFO", "pyproject.toml", "README.md", "LICENSE", "tmux.conf", ".gitignore")
    }


def test_wheel_of_the_sdist_holds_the_same(built: dict[str, Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(built[".whl"]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    subprocess.run(["tar", "-xf", built[".gz"], "-C", tmp_path], check=True)
    (unpacked,) = tmp_path.iterdir()
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=unpacked, check=True)
    with zipfile.ZipFile(next((unpacked / "dist").iterdir())) as wheel:
        assert {name for name in wheel.namelist() if ".dist-info/" not in name} == names


def test_bundle_holds_a_project_that_uv_can_run(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built[".mcpb"]) as bundle:
        manifest = json.loads(bundle.read("manifest.json"))
        assert manifest["server"]["entry_point"] in bundle.namelist()


@pytest.mark.slow
def test_bundle_is_valid(built: dict[str, Path], tmp_path: Path) -> None:
    mcpb = program("mcpb")
    for words in (["unpack", built[".mcpb"], "b"], ["validate", "b"]):
        done = subprocess.run(
            [NODE, mcpb, *words],
            env={**os.environ, "HOME": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "b" / "manifest.json").exists()


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


def test_container_check_without_an_engine_fails(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\nexit 1\n")
    docker.chmod(0o700)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path), "TMUXMCP_CONTAINER_DIR": str(tmp_path)}
    done = subprocess.run([ROOT / "scripts" / "container"], env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert "no container engine answers" in done.stderr
