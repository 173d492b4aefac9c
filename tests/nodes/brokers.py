"""Three brokers over HTTP, each with a state directory of its own, and the file that names them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from tests.conftest import a_state_dir
from tests.kit.service import TOKENS, Service

NODES = ("n1", "n2", "n3")


class Brokers:
    """The three, and the file."""

    def __init__(self, directory: Path, services: dict[str, Service], variables: dict[str, str]) -> None:
        self.directory, self.services, self.variables = directory, services, variables
        self.file = directory / "brokers.toml"
        for file, token in (("token", "agent"), ("person", "gateway")):
            (directory / file).touch(mode=0o600)
            (directory / file).write_text(TOKENS[token] + "\n")
        self.write()

    def write(self) -> None:
        """The file as it is to begin with, without marks."""
        self.file.write_text(
            "".join(
                f'[[brokers]]\nname = "{name}"\nurl = "{each.url}"\ntoken_file = "token"\n'
                f'person_token_file = "person"\n'
                f'labels = {{ kind = "test", zone = "{"a" if name == "n1" else "b"}" }}\n\n'
                for name, each in self.services.items()
            )
        )
        self.file.chmod(0o600)

    def process(self, name: str) -> psutil.Process:
        """The broker's process."""
        return psutil.Process(self.services[name].process.pid)

    def kill(self, name: str) -> None:
        """End a broker as nobody can prevent; its sessions go on."""
        self.services[name].stop(signal.SIGKILL)

    def start_again(self, name: str) -> None:
        """Start it on its old port."""
        old = self.services[name]
        self.services[name] = Service(
            old.state_dir,
            *("--http", f"127.0.0.1:{old.port}", "--max-sessions", "8", "--tools", "all"),
            **self.variables,
        )


@contextmanager
def three_brokers(directory: Path, **variables: str) -> Iterator[Brokers]:
    """All of it, with variables for the brokers; afterwards nothing is left."""
    with ExitStack() as stack:
        places = {name: stack.enter_context(a_state_dir()) for name in NODES}
        services: dict[str, Service] = {}
        try:
            for name, place in places.items():
                services[name] = Service(place, "--max-sessions", "8", "--tools", "all", **variables)
            yield Brokers(directory, services, variables)
        finally:
            for each in services.values():
                if each.process.poll() is None:
                    each.process.send_signal(signal.SIGCONT)
                each.stop()
