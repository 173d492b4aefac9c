"""What is typed while echo is off, by name or by a person, is found nowhere: files, processes, tmux, answers."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import pytest

from tests.conftest import a_state_dir
from tests.kit import canaries
from tests.kit.agent import Agent, eventually
from tests.kit.canaries import Canaries, person_at, watched_processes
from tests.kit.programs import missing

TOLD = "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.readline().rstrip(b'\\n')).hexdigest())"
ASKS = {
    "bash": ("bash", "-c", f'IFS= read -rsp Password: x; echo; printf %s "$x" | python3 -c "{TOLD}"'),
    "zsh": ("zsh", "-c", f'IFS= read -rs "x?Password:"; echo; printf %s "$x" | python3 -c "{TOLD}"'),
    "fish": ("fish", "-c", f'read -s -P Password: x; printf %s "$x" | python3 -c "{TOLD}"'),
    "getpass": (
        "python3",
        "-c",
        "import getpass, hashlib; print(hashlib.sha256(getpass.getpass().encode()).hexdigest())",
    ),
    "stty": ("sh", "-c", f'printf Password:; stty -echo; python3 -c "{TOLD}"; stty echo'),
}
"""Programs that ask for a secret, each in its way, and tell a hash of what they got."""

BY_NAME = [name for name in ASKS if name != "fish"]
"""fish reads single keys and shows a dot for each: the kernel does not say that it asks for a secret."""


@dataclass
class Searched:
    """An agent, secrets, and where they must not be."""

    agent: Agent
    secrets: Canaries
    value: Path
    """The file in which a secret lies on purpose."""
    sessions: list[str] = field(default_factory=list)

    @property
    def directory(self) -> Path:
        return self.agent.state_dir

    def name_secret(self, name: str) -> str:
        """Put a new secret into the file; its text."""
        text = self.secrets.awkward(name)
        self.value.write_text(text + "\n")
        return text

    def asks(self, name: str) -> str:
        """A new session in which a program asks."""
        program, *args = ASKS[name]
        session = self.agent.call("create_session", program=program, args=args)["session_id"]
        mode = "line_input editor password shell_prompt running" if name == "fish" else "password"
        eventually(lambda: "assword" in self.agent.call("read", session_id=session, view="screen")["content"])
        eventually(lambda: self.agent.call("get_session", session_id=session)["mode"] in mode.split())
        self.sessions.append(session)
        return str(session)

    def got(self, session: str, text: str) -> bool:
        """Whether the program got it whole."""
        self.agent.call("read", session_id=session, wait_for="exit")
        seen = self.agent.call("read", session_id=session, since=0)["content"]
        return hashlib.sha256(text.encode()).hexdigest() in "".join(seen.split())

    def there(self, names: Iterable[str]) -> list[str]:
        """Those of the programs that are installed."""
        return [name for name in names if not missing(ASKS[name][:1])]

    def on_disk(self) -> dict[str, list[str]]:
        """Below state directory, home and temporary directory, which are all in one."""
        return self.secrets.found(canaries.files(self.directory, but=[self.value]))

    def everywhere(self) -> dict[str, list[str]]:
        """Where the secrets are found now."""
        found = self.on_disk() | self.secrets.found(canaries.kept_by_tmux(self.directory))
        for session in self.sessions[:-1]:
            found |= self.secrets.found(canaries.answers(self.agent, canaries.texts(session)))
        session = self.sessions[-1]
        size = self.agent.call("get_session", session_id=session)["output_bytes"]
        found |= self.secrets.found(canaries.answers(self.agent, canaries.calls(session, (size // 2, size))))
        return found | self.on_disk()  # with what was exported


@pytest.fixture(scope="module")
def searched() -> Iterator[Searched]:
    with a_state_dir() as directory:
        value = directory / "home" / "keep" / "value"
        value.parent.mkdir(parents=True)
        value.touch(mode=0o600)
        (directory / "tmp").mkdir(mode=0o700)
        everybody = [path for name in ("bash", "zsh", "sh", "python3") if (path := shutil.which(name))]
        rows = {"file": {"source": f"file:{value}", "for": everybody}, "command": {"source": ["cat", str(value)]}}
        words = ("--secrets", json.dumps(rows), "--tools", "all", "--log-level", "trace", "--audit", "strict", "bash")
        place = {"TMPDIR": str(directory / "tmp")}
        with Agent(directory, *words, person=lambda _: "accept", errors=directory / "stderr", **place) as agent:
            yield Searched(agent, Canaries(), value)


@pytest.fixture
def fresh(searched: Searched) -> Iterator[Searched]:
    """With no session of other tests."""
    yield searched
    for session in searched.sessions:
        searched.agent.call("destroy_session", session_id=session, force=True)
    searched.sessions.clear()


def test_the_search_finds_what_lies_open(fresh: Searched):
    """In a file, a buffer, arguments, an environment, answers, on a screen: else it would prove nothing."""
    word = fresh.secrets["open"]
    shown = fresh.agent.call("create_session", program="sh", args=["-c", "IFS= read -r x"])["session_id"]
    fresh.sessions.append(shown)
    with watched_processes(fresh.secrets) as seen, person_at(fresh.directory, shown) as person:
        canaries.tmux(fresh.directory, "set-buffer", "-b", "b", word)
        fresh.agent.call("send", text=f"X={word} sleep 600 # {word}", enter=True, read="none")
        fresh.agent.call("create_session", name="words", program="sh", args=["-c", "sleep 600; :", word])
        eventually(lambda: {each.split()[0] for each in seen} >= {"cmdline", "environ"})
        fresh.agent.call("destroy_session", session_id="words", force=True)
        fresh.agent.call("send", key="C-c", read="none")
        person.type(word)
        fresh.agent.call("read", session_id=shown, wait_for="exit")
    (fresh.directory / "tmp" / "b").write_text(word.encode().hex())
    where = fresh.everywhere()
    assert {f"{fresh.directory}/tmp/b", "buffer b", f"{fresh.directory}/sessions/{shown}/out.raw"} <= where.keys()
    assert {each.split()[0] for each in where if each.endswith("}")} >= {"read", "search", "screenshot"}
    assert fresh.secrets.found_in(bytes(person.seen)) == ["open"]
    canaries.tmux(fresh.directory, "delete-buffer", "-b", "b")
    fresh.secrets.forget("open")


def test_secrets_that_are_typed_by_name_are_found_nowhere(fresh: Searched):
    for name, source in zip(fresh.there(BY_NAME), cycle(("file", "command"))):
        session = fresh.asks(name)
        text = fresh.name_secret(f"{name} by {source}")
        # A script that has tmux keep messages for it does not get it.
        canaries.tmux(fresh.directory, "set-option", "-s", "message-limit", "1000")
        with watched_processes(fresh.secrets) as seen:
            sent = fresh.agent.raw("send", session_id=session, secret=source)
        assert not sent.is_error, (name, sent)
        assert fresh.got(session, text), name
        assert seen == {}
        assert fresh.secrets.found_in(sent.model_dump_json()) == []
    assert fresh.everywhere() == {}


def test_what_a_person_types_unseen_is_found_nowhere(fresh: Searched):
    for name in fresh.there(ASKS):
        session = fresh.asks(name)
        text = fresh.secrets.awkward(f"{name} by a person")
        with watched_processes(fresh.secrets) as seen, person_at(fresh.directory, session) as person:
            person.type(text)
            assert fresh.got(session, text), name
        assert seen == {}
        assert fresh.secrets.found_in(bytes(person.seen)) == []
    assert fresh.everywhere() == {}


def test_nothing_is_typed_into_what_echoes(fresh: Searched):
    """A printed question is not believed."""
    fresh.name_secret("echoed")
    for program in (["cat"], ["sh", "-c", "printf Password:; read x"], ["bash", "--norc", "-i"]):
        session = fresh.agent.call("create_session", program=program[0], args=program[1:])["session_id"]
        fresh.sessions.append(session)
        for source in ("file", "command"):
            answer = fresh.agent.raw("send", session_id=session, secret=source, read="none")
            assert answer.meta["tmuxmcp/error"]["code"] == "WRONG_MODE"
            assert fresh.secrets.found_in(answer.model_dump_json()) == []
    assert fresh.on_disk() | fresh.secrets.found(canaries.kept_by_tmux(fresh.directory)) == {}


def test_an_ended_server_leaves_nothing_of_it(fresh: Searched):
    """What it writes at its end, too; and its tmux server, whose memory no file has."""
    fresh.asks("bash")
    with suppress(Exception):
        fresh.agent.call("destroy_session", session_id=fresh.sessions.pop())
    assert fresh.on_disk() == {}
