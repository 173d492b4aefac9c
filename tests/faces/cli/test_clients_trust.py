"""Whether the user of a client trusts a folder, by files as the clients write them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tmuxmcp.faces.cli.clients import CLIENTS, Trust

OFF = {"security": {"folderTrust": {"enabled": False}}}
ON = {"security": {"folderTrust": {"enabled": True}}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work" / "project"
    folder.mkdir(parents=True)
    return folder


def trust(client: str, folder: Path, **environ: str) -> Trust | None:
    found = CLIENTS[client].trust_in(folder, "project", folder.parent.parent, environ)
    return found and found.trust


def put(folder: Path, name: str, text: Any) -> Path:
    path = folder.parent.parent / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return path


RULES: list[tuple[dict[str, str], Trust]] = [
    ({}, "unasked"),
    ({"{work}/project": "TRUST_FOLDER"}, "yes"),
    ({"{work}": "TRUST_FOLDER"}, "yes"),
    ({"{work}/project/": "TRUST_FOLDER"}, "yes"),
    ({"{work}/pro": "TRUST_FOLDER"}, "unasked"),
    ({"{work}/project/below": "TRUST_FOLDER"}, "unasked"),
    ({"{work}/other": "TRUST_PARENT"}, "yes"),
    ({"{work}/project": "DO_NOT_TRUST"}, "no"),
    ({"{work}": "TRUST_FOLDER", "{work}/project": "DO_NOT_TRUST"}, "no"),
    ({"{work}": "DO_NOT_TRUST", "{work}/project": "TRUST_FOLDER"}, "yes"),
    ({"{work}": "YES"}, "unknown"),
]


@pytest.mark.parametrize(("rules", "expected"), RULES)
def test_closest_rule_counts(folder: Path, rules: dict[str, str], expected: Trust) -> None:
    written = {name.format(work=folder.parent): level for name, level in rules.items()}
    put(folder, ".gemini/trustedFolders.json", "// mine\n" + json.dumps(written))
    assert trust("gemini", folder) == expected
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert trust("gemini", link) == expected


@pytest.mark.parametrize(("client", "unset"), [("gemini", "unasked"), ("qwen-code", "off")])
def test_setting_says_whether_trust_is_asked_for(folder: Path, client: str, unset: Trust) -> None:
    settings = f".{client.partition('-')[0]}/settings.json"
    assert trust(client, folder) == unset
    for said in ("", "{}", {"security": {}}, {"security": 1}, {"security": {"folderTrust": {"enabled": "no"}}}):
        put(folder, settings, said)
        assert trust(client, folder) == unset
    put(folder, settings, OFF)
    assert trust(client, folder) == "off"
    put(folder, settings, ON)
    assert trust(client, folder) == "unasked"


def test_variables_stand_above_the_file(folder: Path) -> None:
    elsewhere = put(folder, "elsewhere.json", {str(folder): "TRUST_FOLDER"})
    assert trust("gemini", folder, GEMINI_CLI_TRUSTED_FOLDERS_PATH=str(elsewhere)) == "yes"
    for said, expected in (("true", "yes"), ("false", "no"), ("1", "unasked")):
        assert trust("gemini", folder, GEMINI_CLI_TRUST_WORKSPACE=said) == expected


@pytest.mark.parametrize("text", ["{", "[]", "\udcff"])
@pytest.mark.parametrize("name", [".gemini/settings.json", ".gemini/trustedFolders.json"])
def test_what_cannot_be_read_is_not_known(folder: Path, name: str, text: str) -> None:
    path = put(folder, name, "")
    path.write_bytes(text.encode(errors="surrogateescape"))
    found = CLIENTS["gemini"].trust_in(folder, "user", folder.parent.parent, {})
    assert found
    assert found.trust == "unknown"
    assert found.by.startswith(f"{path} cannot be read: ")


def test_pipe_in_place_of_a_file_is_not_waited_for(folder: Path) -> None:
    put(folder, ".gemini/settings.json", "{}")
    os.mkfifo(folder.parent.parent / ".gemini" / "trustedFolders.json")
    assert trust("gemini", folder) == "unknown"
    (folder.parent.parent / ".codex").mkdir()
    os.mkfifo(folder.parent.parent / ".codex" / "config.toml")
    assert trust("codex", folder) == "unknown"


PROJECTS: list[tuple[dict[str, str], bool, Trust]] = [
    ({}, False, "unasked"),
    ({"work/project": "trusted"}, False, "yes"),
    ({"work/project": "untrusted"}, False, "no"),
    ({"work": "trusted"}, False, "unasked"),
    ({"work": "trusted"}, True, "yes"),
    ({"work": "trusted", "work/project": "untrusted"}, True, "no"),
]
"""Codex: levels by folder, whether `work` is a repository, what comes of it. Tried with Codex itself."""


@pytest.mark.parametrize(("levels", "repository", "expected"), PROJECTS)
def test_project_or_its_repository_is_trusted(
    folder: Path, levels: dict[str, str], repository: bool, expected: Trust
) -> None:
    home = folder.parent.parent
    lines = [f'[projects."{home / name}"]\ntrust_level = "{level}"\n' for name, level in levels.items()]
    put(folder, ".codex/config.toml", "".join(lines))
    if repository:
        (folder.parent / ".git").mkdir()
    assert trust("codex", folder) == expected
    assert trust("codex", folder, CODEX_HOME=str(home / "moved")) == "unasked"
    assert CLIENTS["codex"].trust_in(folder, "user", home, {}) is None


@pytest.mark.parametrize("text", ["[", "projects = 3", '[projects]\n"{}" = 1'])
def test_odd_configuration_of_codex_trusts_nothing(folder: Path, text: str) -> None:
    put(folder, ".codex/config.toml", text.format(folder))
    assert trust("codex", folder) in ("unknown", "unasked")


@pytest.mark.parametrize("client", ["claude-code", "claude-desktop", "cursor", "goose", "opencode", "vscode", "zed"])
def test_others_are_not_judged(folder: Path, client: str) -> None:
    assert trust(client, folder) is None
