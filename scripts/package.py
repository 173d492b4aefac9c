"""Builds what is published: wheel and sdist, the MCPB bundle, and the descriptions that registries and clients read.

`descriptions()` gives the files of `packaging/`, which the tests compare with what is there; run as a program, it
writes them and builds everything into a directory.

Formats: server.json is the MCP registry's (schema 2025-12-11), manifest.json that of an MCP Bundle (manifest 0.4).
"""

from __future__ import annotations

import argparse
import json
import runpy
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import tmuxmcp
from tmuxmcp.config import VARIABLE_PREFIX, Settings

ROOT = Path(__file__).resolve().parent.parent
NAME = "io.github.tmuxmcp/tmuxmcp"
REPOSITORY = "https://github.com/tmuxmcp/tmuxmcp"
ASKED = ("program", "tools", "max_sessions", "state_dir", "log_level")
"""The settings that a person may want to give where a server is installed; the rest is for the settings file."""

SHARED = "packaging/share"
"""What a wheel puts beside the program: the manual page and the shells' completions."""

ASKED_BY_BUNDLE = ("program", "rows", "cols", "term", "scrollback_lines", "prompt_pattern", "max_sessions", "tools",
                   "log_level")  # fmt: skip
"""The settings that a client asks for when a person installs the bundle."""

BUNDLED = ("pyproject.toml", "README.md", "LICENSE", "tmux.conf")
"""What a bundle holds besides the package."""


def project() -> dict[str, Any]:
    """The `[project]` table."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def registry_description() -> dict[str, Any]:
    """What the MCP registry is told."""
    variables = [{"name": VARIABLE_PREFIX + name.upper(), "description": _says(name)} for name in ASKED]
    package = {
        "registryType": "pypi",
        "identifier": "tmuxmcp",
        "version": tmuxmcp.__version__,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "packageArguments": [{"type": "positional", "value": "serve"}],
        "environmentVariables": variables,
    }
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": NAME,
        "title": "tmuxmcp",
        "description": "Exact commands, live sessions and shared screens over tmux, for AI agents",
        "version": tmuxmcp.__version__,
        "repository": {"url": REPOSITORY, "source": "github"},
        "packages": [package],
    }


def bundle_manifest() -> dict[str, Any]:
    """What an MCP Bundle says of itself; uv installs it where it is unpacked."""
    asked = {name: _asked(name) for name in ASKED_BY_BUNDLE}
    asked["program"]["default"] = "bash"
    return {
        "manifest_version": "0.4",
        "name": "tmuxmcp",
        "display_name": "tmuxmcp",
        "version": tmuxmcp.__version__,
        "description": project()["description"],
        "author": {"name": "The tmuxmcp authors", "url": REPOSITORY},
        "repository": {"type": "git", "url": REPOSITORY},
        "license": project()["license"],
        "keywords": project()["keywords"],
        "server": {
            "type": "uv",
            "entry_point": "tmuxmcp/__main__.py",
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", "tmuxmcp", "serve"],
                "env": {VARIABLE_PREFIX + name.upper(): f"${{user_config.{name}}}" for name in asked},
            },
        },
        "tools_generated": True,
        "user_config": {name: entry | {"required": False} for name, entry in asked.items()},
        "compatibility": {
            "platforms": ["darwin", "linux"],
            "runtimes": {"python": project()["requires-python"]},
        },
    }


def _asked(name: str) -> dict[str, Any]:
    """A setting as a client asks a person for it. Each has a default: what is left out would reach us as its name."""
    default = Settings.model_fields[name].get_default(call_default_factory=True)
    default = ",".join(default) if isinstance(default, list | tuple) else default
    kind = "number" if isinstance(default, int) else "string"
    title = name.replace("_", " ").capitalize()
    return {"type": kind, "title": title, "description": _says(name), "default": default}


def _says(name: str) -> str:
    return Settings.model_fields[name].description or ""


def descriptions() -> dict[str, str]:
    """The files of `packaging/`, by name."""
    found = {"server.json": registry_description(), "manifest.json": bundle_manifest()}
    manual = runpy.run_path(str(ROOT / "scripts" / "manpage.py"))["page"]()
    texts = {name: json.dumps(value, indent=2) + "\n" for name, value in found.items()}
    return texts | {"share/man/man1/tmuxmcp.1": manual}


def build(directory: Path) -> list[Path]:
    """Build everything into `directory`; gives the files: wheel, sdist, bundle."""
    directory.mkdir(parents=True, exist_ok=True)
    before = set(directory.iterdir())
    # Without isolation: the build backend is pinned with the rest.
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=sys.stderr)
    bundle = directory / f"tmuxmcp-{tmuxmcp.__version__}.mcpb"
    write_bundle(bundle, directory / f"tmuxmcp-{tmuxmcp.__version__}-py3-none-any.whl")
    return [*sorted(set(directory.iterdir()) - before - {bundle}), bundle]


def write_bundle(path: Path, wheel: Path) -> None:
    """An MCP Bundle is a zip file with a manifest; its package is the wheel's."""
    with zipfile.ZipFile(wheel) as built:
        package = sorted(name for name in built.namelist() if (ROOT / name).is_file())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("manifest.json", descriptions()["manifest.json"])
        shared = sorted(str(each.relative_to(ROOT)) for each in (ROOT / SHARED).rglob("*") if each.is_file())
        for name in (*BUNDLED, *shared, *package):
            bundle.write(ROOT / name, name)


def main() -> None:
    """Write `packaging/` and build into `dist/`, or where it is told."""
    parser = argparse.ArgumentParser(description="Build wheel, sdist and bundle.")
    parser.add_argument("directory", nargs="?", type=Path, default=ROOT / "dist")
    for name, text in descriptions().items():
        (ROOT / "packaging" / name).write_text(text)
    for file in build(parser.parse_args().directory):
        print(file)


if __name__ == "__main__":
    main()
