"""What a model is shown for ten tasks: by our tools, as raw output, and as a full screen after every key.

Characters, and tokens of o200k_base where a file of its ranks is given: `npm pack js-tiktoken` makes one, without
installing anything. Run it by `scripts/bench tokens --ranks js-tiktoken-1.0.21.tgz`; the table goes to
docs/explanation/what-a-model-reads.md.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import regex

from benchmarks.budgets import serve, workshop
from benchmarks.wire import Wire

# ---- tokens --------------------------------------------------------------------------------------


def counter(ranks: Path) -> Callable[[str], int]:
    """A function that counts tokens, from the package of js-tiktoken or the rank file in it."""
    if ranks.suffix == ".tgz":
        with tarfile.open(ranks) as package:
            member = package.extractfile("package/dist/ranks/o200k_base.js")
            assert member
            source = member.read().decode()
    else:
        source = ranks.read_text()
    table = json.loads(source[source.index("{") : source.rindex("}") + 1])
    rank: dict[bytes, int] = {}
    for line in table["bpe_ranks"].split("\n"):
        _, first, *words = line.split(" ")
        rank.update({base64.b64decode(word): int(first) + at for at, word in enumerate(words)})
    words_of = regex.compile(table["pat_str"])

    @lru_cache(100_000)
    def size(word: bytes) -> int:
        parts = [word[at : at + 1] for at in range(len(word))]
        while len(parts) > 1:
            ranked = [(rank.get(parts[at] + parts[at + 1], 1 << 30), at) for at in range(len(parts) - 1)]
            best, at = min(ranked)
            if best == 1 << 30:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return len(parts)

    def pieces(word: str) -> Iterator[bytes]:
        data = word.encode("utf-8", "replace")
        for at in range(0, len(data), 512):  # a row of one character would take quadratic time
            yield data[at : at + 512]

    return lambda text: sum(size(part) for word in words_of.finditer(text) for part in pieces(word[0]))


# ---- tasks ---------------------------------------------------------------------------------------

BROKEN_C = "".join(f"int f{number}(void) {{ return missing{number}(x) }}\n" for number in range(12))
TESTS = "import unittest\nclass T(unittest.TestCase):\n" + "".join(
    f"    def test_{number}(self): self.assertEqual({number} % 19, {number})\n" for number in range(24)
)
LOG = "".join(
    f"2026-01-01T00:{n // 60 % 60:02}:{n % 60:02}Z INFO worker-{n % 7} request {n} took {n % 97} ms\n"
    for n in range(20_000)
)
BARS = r"""
import sys, time
for n in range(101):
    sys.stdout.write(f"\rDownloading [{'#' * (n // 2):<50}] {n}%"); sys.stdout.flush(); time.sleep(0.002)
print()
for n in range(101):
    up = "\x1b[3A" if n else ""
    rows = "".join(f"\x1b[2K\rlayer{i}: Pulling [{'=' * (n // 4):<25}] {n}%\n" for i in range(3))
    sys.stdout.write(up + rows); sys.stdout.flush(); time.sleep(0.002)
"""
APT = r"""
import sys, time
w = sys.stdout.write
for n in range(101):
    w(f"\rReading package lists... {n}%")
w("\rReading package lists... Done\nBuilding dependency tree... Done\nReading state information... Done\n")
names = [f"libexample{n}" for n in range(20)]
w("The following NEW packages will be installed:\n  " + " ".join(names) + "\n")
w("0 upgraded, 20 newly installed, 0 to remove and 0 not upgraded.\n\n\x1b7\x1b[0;23r\x1b8\x1b[1A")
for n, name in enumerate(names):
    for step in ("Preparing to unpack", "Unpacking", "Setting up"):
        w(f"{step} {name} (1.2-{n}) ...\n\x1b7\x1b[24;1f\x1b[42m\x1b[30mProgress: [{n * 5:3}%]\x1b[49m\x1b[39m ["
          + "#" * n + "." * (40 - n) + "]\x1b8"); sys.stdout.flush(); time.sleep(0.002)
w("\x1b7\x1b[0;24r\x1b8\x1b[1A\x1b[J")
"""


@dataclass(frozen=True)
class Task:
    """Commands that are run, then keys that are pressed, each list at once."""

    name: str
    runs: tuple[str, ...] = ()
    keys: tuple[tuple[str, ...], ...] = ()
    """A key, or text behind `=`."""


VIM = (("=vim -u NONE notes.txt", "Enter"), ("=/needle", "Enter"), ("=cwthread", "Escape"), ("=:wq", "Enter"))
HTOP = (("=htop", "Enter"), ("F6",), ("Escape",), ("q",))
REPL = (
    ("=python3 -q", "Enter"),
    ("=import math", "Enter"),
    ("=[math.factorial(n) for n in range(9)]", "Enter"),
    ("=exit()", "Enter"),
)
MENU = (
    ("=dialog --menu Pick 15 40 8 a Apple b Banana c Cherry d Date 2>picked", "Enter"),
    ("Down", "Down"),
    ("Enter",),
)
TASKS = [
    Task("build with errors", ("make",)),
    Task("test run", ("python3 -m unittest -v tests.py",)),
    Task("git log", ("git --no-pager log --stat",)),
    Task("edit in vim", keys=VIM),
    Task("look at htop", keys=HTOP),
    Task("Python REPL", keys=REPL),
    Task("apt install", ("python3 apt.py",)),
    Task("long log", ("cat long.log",)),
    Task("dialog menu", keys=MENU),
    Task("progress bars", ("python3 bars.py",)),
]


def prepare(directory: Path) -> None:
    """The files that the tasks work on."""
    directory.mkdir()
    files = {"broken.c": BROKEN_C, "Makefile": "all:\n\tgcc -c broken.c\n", "tests.py": TESTS, "long.log": LOG}
    files |= {"bars.py": BARS, "apt.py": APT, "notes.txt": "line\n" * 30 + "a needle here\n" + "line\n" * 30}
    for name, text in files.items():
        (directory / name).write_text(text)
    git = ["git", "-C", str(directory), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    for number in range(15):
        (directory / f"file{number}").write_text("text\n" * number)
        subprocess.run([*git, "add", f"file{number}"], check=True)
        subprocess.run([*git, "commit", "-qm", f"Change number {number} for a good reason"], check=True)


# ---- three ways ----------------------------------------------------------------------------------


def text_of(answer: dict[str, object]) -> str:
    """What a model is shown of an answer."""
    return "".join(block["text"] for block in answer["content"])  # type: ignore[attr-defined]


def typed(key: str) -> dict[str, object]:
    return {"text": key[1:]} if key.startswith("=") else {"key": key}


def ours(wire: Wire, task: Task, session: str) -> str:
    """All that our tools answer."""
    shown = [text_of(wire.call("run", command=command, session_id=session)) for command in task.runs]
    for keys in task.keys:
        text = "".join(key[1:] for key in keys if key.startswith("="))
        names = [key for key in keys if not key.startswith("=")]
        shown.append(text_of(wire.call("send", text=text, keys=names, session_id=session)))
    return "".join(shown)


def screens(wire: Wire, task: Task, session: str) -> str:
    """The whole screen after each command and each key."""
    shown = []
    for key in [part for command in task.runs for part in (f"={command}", "Enter")] + [
        k for ks in task.keys for k in ks
    ]:
        wire.call("send", session_id=session, wait_for="ready", timeout_ms=20_000, **typed(key))
        answer = wire.call("read", view="screen", session_id=session)["structuredContent"]
        rows = answer["content"].split("\n")
        shown.append("\n".join(rows + [""] * (24 - len(rows))))
    return "".join(shown)


def raw(wire: Wire, task: Task, session: str) -> str:
    """All that the terminal was sent."""
    start = wire.call("get_session", session_id=session)["structuredContent"]["output_bytes"]
    ours(wire, task, session)
    answer = wire.call("read", view="raw", since=start, max_bytes=16 << 20, session_id=session)["structuredContent"]
    return base64.b64decode(answer["content"]).decode("utf-8", "replace")


def measure(task: Task) -> tuple[str, str, str]:
    """The task's three texts, each from a session of its own."""
    found = []
    with workshop() as (state, env):
        directory = state.parent / "work"
        prepare(directory)
        wire = serve(env)
        for way in (ours, raw, screens):
            name = f"{way.__name__}-1"
            wire.call("create_session", program="bash", name=name, cwd=str(directory))
            subprocess.run(["git", "-C", str(directory), "checkout", "-q", "."], check=True)
            (directory / "notes.txt").write_text("line\n" * 30 + "a needle here\n" + "line\n" * 30)
            found.append(way(wire, task, name))
        wire.close()
    return found[0], found[1], found[2]


def main() -> int:
    parser = argparse.ArgumentParser("scripts/bench tokens", description="Count what a model is shown.")
    parser.add_argument("--ranks", type=Path, metavar="FILE", help="js-tiktoken's package, or its o200k_base.js")
    parser.add_argument("--only", metavar="REGEX", default="", help="tasks whose names match")
    options = parser.parse_args()
    if options.ranks is None:
        print("no --ranks FILE: characters only, no tokens", file=sys.stderr)
    count = counter(options.ranks) if options.ranks else None
    unit = "tokens" if count else "characters"
    heads = [f"{way}, {what}" for what in ("characters", unit) for way in ("ours", "raw", "screens")]
    print(f"| task | {' | '.join(heads)} |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    sums = [0] * 6
    for task in TASKS:
        if not re.search(options.only, task.name):
            continue
        texts = measure(task)
        row = [*map(len, texts), *map(count or len, texts)]
        sums = [a + b for a, b in zip(sums, row, strict=True)]
        print(f"| {task.name} | " + " | ".join(f"{number:,}" for number in row) + " |", flush=True)
    print("| all | " + " | ".join(f"{number:,}" for number in sums) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
