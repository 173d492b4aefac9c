"""Our asciicasts in programs of others: asciinema's player in a browser, and asciinema 2.

The player is that of asciinema 3, with its reader of both versions and its terminal. What it shows at the end of a cast
is compared with what tmux showed.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tests.kit import browser
from tests.kit.agent import an_agent
from tests.kit.clients import installed
from tests.kit.corpora import NAMES, Recording
from tests.kit.films import film_of
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.stream import Stream
from tmuxmcp.terminal.film import formats
from tmuxmcp.terminal.film.film import Film, FilmEvent, FilmOutput, FilmResize
from tmuxmcp.terminal.snapshot import Snapshot

BUNDLE = "node_modules/asciinema-player/dist/bundle"

OTHER_WIDTHS = {"emoji"}
"""Recordings with characters that the player draws wider than tmux: emoji of several characters."""

DRAWN = str.maketrans({"┃": " "})
"""Characters that the player draws as a picture: its text has a blank there."""

SHOWN = """(async () => {
    const place = document.getElementById("place");
    place.replaceChildren();
    const player = AsciinemaPlayer.create({data: CAST}, place, {fit: false, preload: true});
    await player.seek("100%");
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    const rows = [...place.querySelectorAll(".ap-line")].map(row => row.textContent.trimEnd());
    player.dispose();
    return rows;
})()"""


class Player:
    """asciinema's player in a page."""

    def __init__(self, page: browser.Page) -> None:
        self._page = page

    def last_screen(self, cast: str) -> list[str]:
        """The rows at the end of a cast, without trailing blanks."""
        rows: list[str] = self._page.value(SHOWN.replace("CAST", json.dumps(cast)))
        return rows


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    style, script = (installed(f"{BUNDLE}/asciinema-player{end}").read_text() for end in (".css", ".min.js"))
    if browser.CHROMIUM is None:
        pytest.skip("needs Chromium")
    file = tmp_path_factory.mktemp("player") / "player.html"
    head = f'<meta charset="utf-8"><style>{style}</style>'
    file.write_text(f'{head}<div id="place"></div><script>{script}</script>')
    with browser.page() as page:
        page.open(file)
        yield Player(page)


def recorded(recording: Recording, number: int) -> tuple[Film, Snapshot]:
    """A recording up to one of its looks, and what tmux showed then."""
    done, moments = 0, list[FilmEvent]()
    for at, event in enumerate(recording.events[: number + 1]):
        told = recording.told(event)
        moments.append(FilmOutput(at * 100, recording.raw[done : event["offset"]]))
        if event["kind"] == "resize":
            moments.append(FilmResize(at * 100, event["cols"], event["rows"], told))
        done = event["offset"]
    return film_of(moments, number * 100, recording.cols, recording.rows), told


@pytest.mark.parametrize("version", [2, 3])
def test_the_player_of_asciinema_shows_what_tmux_showed(player: Player, version: formats.Version) -> None:
    different = []
    for name in NAMES:
        recording = Recording(name)
        last = len(recording.events) - 1
        for number in {last, last // 2} if version == 3 else {last}:
            film, told = recorded(recording, number)
            shown = player.last_screen(b"".join(formats.written(film, version)).decode())
            if shown != [row.translate(DRAWN).rstrip() for row in told.text_rows()]:
                different.append(name)
    assert {*different} == OTHER_WIDTHS


@pytest.mark.parametrize("name", ["bash", "git", "htop", "less", "nano", "vim"])
def test_asciinema_2_prints_what_the_terminal_printed(name: str, tmp_path: Path) -> None:
    asciinema = installed("python/bin/asciinema")
    recording = Recording(name)
    last = next(
        (at - 1 for at, event in enumerate(recording.events) if event["kind"] == "resize"), len(recording.events) - 1
    )
    film, told = recorded(recording, last)  # version 2 has no sizes that such an asciinema would follow
    cast = tmp_path / "x.cast"
    cast.write_bytes(b"".join(formats.written(film, 2)))
    done = subprocess.run(
        [asciinema, "cat", cast],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60 * SLOW,
    )
    assert done.returncode == 0, done.stderr
    stream = Stream(Screen(recording.cols, recording.rows))
    stream.feed(done.stdout)
    assert stream.snapshot().text_rows() == told.text_rows()


def test_a_session_with_another_size_in_its_middle(player: Player, tmp_path: Path) -> None:
    """From the agent's call to the player: colours, wide characters, a resize that wraps anew, a program's screen."""
    with an_agent("bash", "--tools", "all") as agent:
        agent.run("printf '\\033[31mred\\033[0m 漢字 é\\n'; seq -s ' ' 60")
        agent.call("resize", rows=20, cols=50)
        agent.run("echo wide; seq -s ' ' 40")
        agent.call("wait", wait_for="ready")  # the prompt, too, is on the screen and in the recording
        seen = [agent.call("read", view="screen")["content"]]
        agent.call("export_recording", path=str(tmp_path / "0.cast"))
        agent.call("send", text="vim -u NONE -N /etc/passwd", enter=True)
        seen.append(agent.call("read", view="screen")["content"])
        agent.call("export_recording", path=str(tmp_path / "1.cast"), format="cast2")
    for number, content in enumerate(seen):
        shown = player.last_screen((tmp_path / f"{number}.cast").read_text())
        assert "\n".join(shown).rstrip().splitlines() == content.rstrip().splitlines()
    assert "root:x:0:0" in seen[1]
