"""The documentation holds: the reference is the code's, links lead somewhere, and marked blocks do what they say."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import SLOW, end_server
from tests.kit import forks
from tests.kit.service import a_service
from tmuxmcp.broker.broker import Broker
from tmuxmcp.config import Settings
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import all_errors
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.value import asdict, fields
from tmuxmcp.faces.cli.arguments import VERBS
from tmuxmcp.faces.cli.clients import CLIENTS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
REFERENCE = ROOT / "docs" / "reference"

BLOCK = re.compile(r"^<!-- (?P<mark>run|call: \w+) -->\n```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
SECTION_S = 60


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


# ---- the reference -----------------------------------------------------------------------------


def test_reference_is_what_the_code_says():
    generated = runpy.run_path(str(ROOT / "scripts" / "reference.py"))["pages"]()
    assert {name: (REFERENCE / name).read_text() for name in generated} == generated, "run scripts/reference"


@pytest.mark.parametrize(
    ("page", "entries"),
    [
        ("tools.md", [f"\n## {name}\n" for name in OPERATIONS]),
        ("tools.md", [f"\n| `{name}` | " for row in OPERATIONS.values() for name in row.arguments]),
        ("tools.md", [f"\n| `{name}` | " for row in OPERATIONS.values() for name in fields(row.result)]),
        ("settings.md", [f"\n| `{name}` | " for name in Settings.model_fields]),
        ("settings.md", [f"| `TMUXMCP_{name.upper()}` | " for name in Settings.model_fields]),
        ("errors.md", [f"\n## {error.code}\n" for error in all_errors()]),
        ("cli.md", [f"\n## tmuxmcp {name}\n" for name in VERBS]),
    ],
)
def test_each_has_its_entry(page: str, entries: list[str]):
    text = (REFERENCE / page).read_text()
    assert [entry for entry in entries if entry not in text] == []


def test_no_field_or_value_stays_unexplained():
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \|  \|$", (REFERENCE / "tools.md").read_text(), re.MULTILINE)
    assert rows == [], "give the field a docstring"


# ---- pages, links, scripts ---------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path):
    for link in LINK.findall(FENCED.sub("", page.read_text())):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_in_the_index():
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / link).resolve() for link in LINK.findall(index.read_text())}
    assert {page for page in PAGES if page.is_relative_to(index.parent)} - linked == {index}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_scripts_that_pages_name_exist(page: Path):
    for name in re.findall(r"(?<![\w.-])scripts/\w+", page.read_text()):
        assert os.access(ROOT / name, os.X_OK), name


def test_what_clients_ask_first_is_in_the_howto():
    page = (ROOT / "docs" / "howto" / "connect-a-client.md").read_text()
    rows = {row.split("`")[1]: row for row in page.splitlines() if row.startswith("| `")}  # the last table
    for name, client in CLIENTS.items():
        for sentence in client.asks.values():
            assert f"| {sentence.format(name='tmuxmcp')} |" in rows[name], name


def test_readme_is_found_by_registries():
    assert "<!-- mcp-name: io.github.tmuxmcp/tmuxmcp -->" in (ROOT / "README.md").read_text()


# ---- the film ----------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells that vim waits for keys")
def test_film_can_be_made(tmp_path: Path):
    parts = runpy.run_path(str(ROOT / "scripts" / "film.py"))
    with parts["project"](tmp_path / "shop"), a_service() as service:
        command = forks.command(tmp_path)
        made = parts["film"](service, tmp_path / "shop", tmp_path / "film.gif", pace=0, command=command)
    assert made["bytes"] == (tmp_path / "film.gif").stat().st_size
    assert parts["FILM"].stat().st_size < parts["MOST_BYTES"]


# ---- blocks that run ---------------------------------------------------------------------------


class Reader:
    """Does what a page says: a home, a working directory and a tmux server of its own."""

    def __init__(self, directory: Path) -> None:
        (directory / "home").mkdir()
        (directory / "work").mkdir()
        (directory / "bin").mkdir()
        self.cwd, self.state_dir = directory / "work", directory / "s"
        outer = {name: own for name, own in forks.environment().items() if not name.startswith(("TMUX", "XDG_"))}
        path = f"{forks.command(directory / 'bin').parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {"HOME": str(directory / "home"), "TMUXMCP_STATE_DIR": str(self.state_dir), "TMUXMCP_PROGRAM": "bash"}
        self.env = outer | own | {"PATH": path, "LANG": "C.UTF-8"}

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv, env=self.env, cwd=self.cwd, text=True, timeout=SECTION_S * SLOW, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def do(self, kind: str, body: str) -> None:
        if kind == "console":
            for command, expected in exchanges(body):
                assert self.run("bash", "-c", command).stdout == expected, command
            return
        if kind == "python":
            ran = forks.run([body], self.env, self.cwd, SECTION_S * SLOW, module="tests.kit.program")
            assert ran.returncode == 0, ran.stdout + ran.stderr
            return
        done = self.run("bash", "-euo", "pipefail", "-c", body)
        assert done.returncode == 0, done.stdout


def exchanges(body: str) -> Iterator[tuple[str, str]]:
    """Each `$ command` with the lines below it."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        yield command, expected


@pytest.fixture
def reader() -> Iterator[Reader]:
    with tempfile.TemporaryDirectory(prefix="tm-", ignore_cleanup_errors=True) as directory:
        reader = Reader(Path(directory))
        try:
            yield reader
        finally:
            for state_dir in (reader.state_dir, reader.cwd / "state"):
                end_server(state_dir)


def marked(page: Path, mark: str) -> list[re.Match[str]]:
    return [block for block in BLOCK.finditer(page.read_text()) if block["mark"].startswith(mark)]


@pytest.mark.parametrize("page", [page for page in PAGES if marked(page, "run")], ids=name_of)
def test_marked_blocks_do_what_they_say(page: Path, reader: Reader):
    for block in marked(page, "run"):
        reader.do(block["kind"], block["body"])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_mark_has_its_block(page: Path):
    text = FENCED.sub(lambda block: block[0].split("\n")[0], page.read_text())
    marks = re.findall(r"^<!-- (?:run|call: \w+) -->$", text, re.MULTILINE)
    assert len(marks) == len(marked(page, ""))


@pytest.mark.parametrize("page", [page for page in PAGES if marked(page, "call")], ids=name_of)
async def test_calls_are_answered_as_shown(page: Path, broker: Broker):
    for block in marked(page, "call"):
        answer = re.search(r"^```json\n(.*?)^```$", block.string[block.end() :], re.MULTILINE | re.DOTALL)
        assert answer
        row = OPERATIONS[block["mark"].removeprefix("call: ")]
        result = asdict(await broker.perform(row, json.loads(block["body"]), Call()))
        wanted = json.loads(answer[1])
        assert {name: result[name] for name in wanted} == wanted


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_json_and_toml_blocks_are_well_formed(page: Path):
    import tomllib

    for kind, body in re.findall(r"^```(json|toml)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        {"json": json.loads, "toml": tomllib.loads}[kind](body)
