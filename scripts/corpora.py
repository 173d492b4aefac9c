"""Records tests/corpora: what real programs print in a real tmux, and what tmux shows of it.

Each program is started from a bash with a neutral prompt, in a home of its own. NAME.raw holds the bytes of the pane;
NAME.json holds its first size and, by offset, each look at it (what `terminal/emulator/seed.py` takes) and each
change of size with the look right after it. Nothing of this machine may get into them: that is checked, and ends the
script.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tmuxmcp.terminal.emulator.capture import SCREEN_STATE_FORMAT

CORPORA = Path(__file__).resolve().parent.parent / "tests" / "corpora"
HOME = Path("/home/user")
MAX_RAW = 128 * 1024
"""Bytes of one recording."""

SHELL = """tmux wait go; exec unshare --uts sh -c "hostname machine; exec env PS1='$ ' bash --norc --noprofile" """
"""mc and others print the name of the machine."""

SETTLED_S, DEADLINE_S = 0.6, 30.0

Step = Callable[["Recorder"], None]


class Recorder:
    """One pane whose bytes go to a file."""

    def __init__(self, directory: Path, cols: int, rows: int, term: str) -> None:
        self.raw = directory / "raw"
        self.raw.touch()
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(HOME), "SHELL": "/bin/bash"}
        settings = {**env, "HISTFILE": "", "PYTHON_HISTORY": "/dev/null", "LESSHISTFILE": "-"}
        self._argv = ["env", "-i", *(f"{k}={v}" for k, v in settings.items()), "tmux", "-f", "/dev/null"]
        self._argv += ["-S", str(directory / "s")]
        self.size = (cols, rows)
        self.events: list[dict[str, Any]] = []
        new = ["new-session", "-d", "-s", "x", "-x", str(cols), "-y", str(rows), "-c", str(HOME)]
        self.tmux("start-server", ";", "set", "-s", "exit-empty", "off", ";", "set", "-g", "default-terminal", term)
        self.tmux(*new, SHELL)
        self.tmux("select-pane", "-t", "x", "-T", "corpus", ";", "pipe-pane", "-t", "x", f"cat > {self.raw}")
        self.tmux("wait", "-S", "go")
        self.settle("$ ")

    def tmux(self, *args: str) -> str:
        return subprocess.run([*self._argv, *args], check=True, capture_output=True).stdout.decode()

    def settle(self, text: str = "") -> int:
        """Wait until the screen shows this text and nothing more comes; give the size of the log."""
        deadline = time.monotonic() + DEADLINE_S
        size, since = -1, time.monotonic()
        while time.monotonic() < deadline:
            if self.raw.stat().st_size != size:
                size, since = self.raw.stat().st_size, time.monotonic()
            settled = time.monotonic() - since > SETTLED_S
            if settled and text in self.tmux("capture-pane", "-p", "-N", "-t", "x"):
                return size
            time.sleep(0.05)
        raise SystemExit(f"{text!r} did not come: {self.tmux('capture-pane', '-p', '-t', 'x')}")

    def look(self, kind: str, *first: str, **more: Any) -> None:
        """Note what tmux shows at the log's present end."""
        for _ in range(20):
            offset = self.settle()
            capture = ["capture-pane", "-p", "-e", "-N", "-t", "x"]
            asked = [*first, "display-message", "-p", "-t", "x", SCREEN_STATE_FORMAT, ";", *capture]
            facts, *rows = self.tmux(*asked).split("\n")[:-1]
            under = self.tmux(*capture, "-a", "-q").split("\n")[:-1]
            if first or self.raw.stat().st_size == offset:
                event = {"kind": kind, "offset": offset, "facts": facts, "screen": rows, "under": under}
                self.events.append(event | more)
                return
        raise SystemExit("the screen never stood still")

    def close(self) -> None:
        self.tmux("kill-server")


def types(*keys: str, until: str = "") -> Step:
    """Press keys; `=text` types a text. Then wait for a text on the screen."""

    def step(recorder: Recorder) -> None:
        for key in keys:
            text = key[1:-1] + r"\;" if key.endswith(";") else key[1:]  # a last semicolon would end tmux's command
            literal = ["-l", "--", text] if key.startswith("=") and len(key) > 1 else [key]
            recorder.tmux("send-keys", "-t", "x", *literal)
            time.sleep(0.05)
        recorder.settle(until)

    return step


def look(recorder: Recorder) -> None:
    recorder.look("look")


def resize(cols: int, rows: int) -> Step:
    """Change the size and look at once, before the program has drawn anew; then again."""

    def step(recorder: Recorder) -> None:
        command = ["resize-window", "-t", "x", "-x", str(cols), "-y", str(rows), ";"]
        recorder.look("resize", *command, cols=cols, rows=rows)
        recorder.look("look")

    return step


def run(command: str, until: str = "") -> list[Step]:
    return [types("=" + command, "Enter", until=until), look]


@dataclass(frozen=True)
class Scenario:
    """What is done in one recording."""

    steps: list[Step]
    cols: int = 80
    rows: int = 24
    term: str = "tmux-256color"
    files: dict[str, str] = field(default_factory=dict)


NOTES = "".join(f"Line {n}: the quick brown fox jumps over the lazy dog\n" for n in range(1, 61))
COLOURED = "".join(f"\x1b[3{n % 8}m{('red', 'green', 'blue')[n % 3]} {n}\x1b[0m plain\n" for n in range(60))
CODE = """#include <stdio.h>

/* Greets. */
static int greet(const char *name) {
    printf("Hello, %s: %d\\n", name);
    return undeclared + 1;
}

int main(void) {
    char *text = 42;
    greet("world")
    return 0;
}
"""
BAR = """import sys, time
for done in range(0, 101, 4):
    bar = "\\u2501" * (done // 4) + " " * (25 - done // 4)
    sys.stdout.write(f"\\r\\x1b[2KDownloading  \\x1b[32m{bar}\\x1b[0m {done:3}% 1.2 MB/s eta 0:00:0{done % 10}")
    sys.stdout.flush()
    time.sleep(0.01)
print("\\nInstalled.")
"""
LAYERS = """import sys, time
names = ["4f4fb700ef54", "a2abf6c4d29d", "c5c8d6a7e1b3", "e1caac4eb9d2"]
done = [0] * len(names)
print("\\n" * (len(names) - 1))
for step in range(40):
    number = step % len(names)
    done[number] = min(done[number] + 10, 100)
    up = len(names) - number
    state = "Pull complete" if done[number] == 100 else f"Downloading {done[number]:3}%"
    sys.stdout.write(f"\\x1b[{up}A\\r\\x1b[2K{names[number]}: {state}\\r\\x1b[{up}B")
    sys.stdout.flush()
    time.sleep(0.01)
"""
RICH = """import time
from rich.console import Console
from rich.progress import track
from rich.table import Table
console = Console(force_terminal=True, color_system="truecolor", width=78)
table = Table(title="Stars")
for name in ("Name", "Distance", "Class"):
    table.add_column(name, style="cyan")
table.add_row("Sirius", "8.6 ly", "[bold magenta]A1V")
table.add_row("Vega", "25 ly", "[italic]A0Va")
console.print(table)
for _ in track(range(20), description="Working", console=console):
    time.sleep(0.02)
console.print("[bold red]done[/] :sparkles:")
"""
EMOJI = "hello 日本語 | 👩‍💻 👍🏽 ❤️ 🇩🇪 👨‍👩‍👧 | é ñ | नमस्ते | ﬁ ½ ∑ │\nعربى עברית ภาษาไทย 한국어\n"
FZF = "seq 1 200 | sed 's/$/ apples and pears/' | fzf"
ASKS = "dialog --backtitle Corpus --menu 'Which one?' 15 50 5 a 'the first' b 'the second' c 'the third'"
COMMIT = "git -c user.name=User -c user.email=user@example.org commit -qam"
WHEN = "2024-05-06T07:08:09Z"
REPOSITORY = (
    "git init -q repo && cd repo && for n in 1 2 3 4 5 6 7 8 9; do seq $n > file; git add file; "
    f'GIT_AUTHOR_DATE={WHEN} GIT_COMMITTER_DATE={WHEN} {COMMIT} "Change number $n"; done; clear'
)

SCENARIOS: dict[str, Scenario] = {
    "bash": Scenario(
        [
            *run("printf '\\e[31mred\\e[0m %s\\n' \"$(seq -s ' ' 1 60)\""),
            types("=echo a long line that is edited in the middle of it and goes on past the edge of the screen"),
            types("C-a", "M-f", "M-f", "=INSERTED ", "C-e", "BSpace", "BSpace"),
            look,
            types("C-u", "=ls /no/such; clear", "Enter"),
            *run("for n in 1 2 3; do tput setaf $n; echo $n; done; tput sgr0"),
            resize(50, 15),
            *run("seq 40"),
        ]
    ),
    "vim": Scenario(
        [
            *run("vim -u NONE -i NONE -n notes.txt", "Line 1"),
            types("10j", "=dd", "p", "=:set number hlsearch", "Enter", "=/fox", "Enter", until="fox"),
            look,
            types("=ggVG", "Escape", "=:split", "Enter", "C-d", "=i日本 insert ", "Escape"),
            look,
            resize(60, 16),
            types("=:syntax on", "Enter", "=:e! hello.c", "Enter", until="stdio"),
            look,
            types("=:qa!", "Enter", until="$ "),
            look,
        ],
        files={"notes.txt": NOTES, "hello.c": CODE},
    ),
    "vim-xterm": Scenario(
        [
            *run("vim -u NONE -i NONE -n hello.c", "stdio"),
            types("=:syntax on", "Enter", "=:set termguicolors bg=dark list", "Enter", "=G", "=O/* more */", "Escape"),
            look,
            types("=:q!", "Enter", until="$ "),
            look,
        ],
        term="xterm-256color",
        files={"hello.c": CODE},
    ),
    "vim-vt100": Scenario(
        [
            *run("vim -u NONE -i NONE -n notes.txt", "Line 1"),
            types("C-f", "=3dd", "=P", "=:10,12d", "Enter", "=Otyped here", "Escape"),
            look,
            types("=:q!", "Enter", until="$ "),
            look,
        ],
        term="vt100",
        files={"notes.txt": NOTES},
    ),
    "less-screen": Scenario(
        [
            *run("less -R coloured.txt", "red"),
            types("Space", "b", "=/blue", "Enter"),
            look,
            types("q", until="$ "),
            look,
        ],
        term="screen-256color",
        files={"coloured.txt": COLOURED},
    ),
    "watch": Scenario(
        [*run("watch -t -d -n 600 'seq 5; echo; ls -l notes.txt | cut -c1-10'", "rw"), types("C-c", until="$ "), look],
        files={"notes.txt": NOTES},
    ),
    "sqlite": Scenario(
        [
            *run("sqlite3 -box", "sqlite>"),
            types("=create table t(a, b);", "Enter", "=insert into t values (1, 'one'), (2, NULL);", "Enter"),
            *run("select * from t;"),
            types("Up", "Up", "C-a", "=-- "),
            look,
            types("Enter", "=.quit", "Enter", until="$ "),
            look,
        ]
    ),
    "less": Scenario(
        [
            *run("less -i notes.txt", "Line 1:"),
            types("Space", "k", "=/line 4", "Enter", "n", "n"),
            look,
            types("=-N", "Enter", "=G", "=b"),
            look,
            resize(70, 20),
            types("q", until="$ "),
            look,
        ],
        files={"notes.txt": NOTES},
    ),
    "htop": Scenario(
        [
            *run("htop -d 100 -p $$", "F10"),
            types("F2", until="Categories"),
            look,
            types("Escape", "F6"),
            look,
            types("Escape", "q", until="$ "),
            look,
        ]
    ),
    "top": Scenario([*run("top -d 60 -p $$", "PID"), types("z", "x", "1"), look, types("q", until="$ "), look]),
    "mc": Scenario(
        [
            *run("mc -u --nocolor -X notes", "Quit"),
            types("F9", "Right", "Down", "Down"),
            look,
            types("Escape", "Escape", "F10"),
            look,
            types("Enter", until="$ "),
            look,
        ],
        files={"notes.txt": NOTES, ".config/mc/ini": "[Midnight-Commander]\nxterm_title=0\n"},
    ),
    "mc-colour": Scenario(
        [
            *run("mc -u", "Quit"),
            types("Down", "Down", "F3"),
            look,
            types("F10", "F10", "Enter", until="$ "),
            look,
        ],
        files={"notes.txt": NOTES, "b/c.txt": NOTES, "hello.c": CODE},
    ),
    "nano": Scenario(
        [
            *run("nano notes.txt", "Exit"),
            types("C-v", "=typed words ", "C-k", "C-w", "=dog", "Enter"),
            look,
            resize(66, 18),
            types("C-x", "n", until="$ "),
            look,
        ],
        files={"notes.txt": NOTES},
    ),
    "dialog": Scenario(
        [
            *run(ASKS, "Which"),
            types("Down", "Tab"),
            look,
            types("Enter", until="$ "),
            look,
            *run("for n in 10 50 90; do echo $n; sleep .1; done | dialog --gauge Working 8 40"),
        ]
    ),
    "dialog-xterm": Scenario([*run(ASKS, "Which"), types("Down", "Enter", until="$ "), look], term="xterm-256color"),
    "fzf": Scenario(
        [
            *run(FZF, "200/200"),
            types("=19"),
            look,
            types("Up", "Up", "Enter", until="$ "),
            look,
            *run(f"{FZF} --height 10", "200/200"),
            types("=7", "Up"),
            look,
            types("Enter", until="$ "),
            look,
        ]
    ),
    "man": Scenario(
        [*run("man ls", "LS(1)"), types("Space", "=/sort", "Enter"), look, types("q", until="$ "), look], rows=30
    ),
    "git": Scenario(
        [
            types("=" + REPOSITORY, "Enter", until="$ "),
            *run("git log --graph --color=always", "Change number 9"),
            types("Space", "b"),
            look,
            types("q", until="$ "),
            *run("git --no-pager diff --color=always HEAD~2 HEAD"),
        ]
    ),
    "ls": Scenario(
        [
            types("=mkdir -p dir 'a b'; ln -sf dir link; ln -sf nothing broken; chmod +x run.sh; mkfifo pipe; clear"),
            types("Enter"),
            *run("ls --color=always -F"),
            *run("ls --color=always"),
        ],
        cols=60,
        files={"run.sh": "#!/bin/sh\n", "notes.txt": NOTES, "archive.tar.gz": "", "picture.png": "", "hello.c": CODE},
    ),
    "gcc": Scenario([*run("gcc -fdiagnostics-color=always -Wall hello.c", "$ ")], files={"hello.c": CODE}, rows=40),
    "python": Scenario(
        [
            *run("python3 -q", ">>> "),
            *run("[n ** 2 for n in range(30)]"),
            types("=for n in range(3):", "Enter", "=    print('x' * n)", "Enter", "Enter"),
            look,
            *run("1/0"),
            types("C-d", until="$ "),
            look,
        ]
    ),
    "bar": Scenario([*run("python3 bar.py", "Installed")], files={"bar.py": BAR}),
    "bar-narrow": Scenario([*run("python3 bar.py", "Installed")], files={"bar.py": BAR}, cols=40),
    "layers": Scenario([*run("python3 layers.py", "$ ")], files={"layers.py": LAYERS}),
    "rich": Scenario([*run("./python rich_demo.py", "done")], files={"rich_demo.py": RICH}),
    "emoji": Scenario([*run("cat emoji.txt", "hello"), *run("cat emoji.txt")], files={"emoji.txt": EMOJI}, cols=40),
    "tmux": Scenario(
        [
            *run("TMUX= tmux -f nested.conf -S ./nested", "[nested]"),
            types("=seq 40", "Enter"),
            types("C-b", "=%", until="│"),
            types("=seq 30", "Enter"),
            types("C-b", '="'),
            types("=ls -l /no/such", "Enter"),
            look,
            types("C-b", "Up", "C-b", "["),
            types("PageUp"),
            look,
            types("q", "C-b", "=:", "=kill-server", "Enter", until="server exited"),
            look,
        ],
        files={
            "nested.conf": "set -g status-left '[nested]'\nset -g status-right ''\nset -g window-status-format ''\n"
            "set -g window-status-current-format '#I'\nset -g default-command 'exec bash --norc'\n"
        },
    ),
}


def record(name: str, scenario: Scenario) -> None:
    for path, text in scenario.files.items():
        file = HOME / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        os.utime(file, (1_700_000_000, 1_700_000_000))
    if "rich" in name:
        wrapper = HOME / "python"  # what is typed must not tell where rich is installed
        wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        wrapper.chmod(0o755)
    with tempfile.TemporaryDirectory(prefix="tm-") as directory:
        recorder = Recorder(Path(directory), scenario.cols, scenario.rows, scenario.term)
        try:
            for step in scenario.steps:
                step(recorder)
        finally:
            recorder.close()
        raw = recorder.raw.read_bytes()
    data = {"cols": scenario.cols, "rows": scenario.rows, "events": recorder.events}
    text = json.dumps(data, ensure_ascii=False, indent=0)
    if len(raw) > MAX_RAW:
        raise SystemExit(f"{name}: {len(raw)} bytes are too many")
    told = text + raw.decode("utf-8", "replace")
    words = [rf"\b{re.escape(socket.gethostname())}\b", re.escape(str(CORPORA.parent.parent)), re.escape(sys.prefix)]
    tells = [word for word in words if re.search(word, told)]
    if tells:
        raise SystemExit(f"{name}: tells {tells}")
    (CORPORA / f"{name}.raw").write_bytes(raw)
    (CORPORA / f"{name}.json").write_text(text + "\n")
    print(f"{name}: {len(raw)} bytes, {len(recorder.events)} looks", flush=True)


def main() -> int:
    CORPORA.mkdir(exist_ok=True)
    for name in sys.argv[1:] or SCENARIOS:
        if HOME.exists():
            raise SystemExit(f"{HOME} is somebody's: this needs a machine where it may be made and removed")
        HOME.mkdir()
        try:
            record(name, SCENARIOS[name])
        finally:
            shutil.rmtree(HOME)
    return 0


if __name__ == "__main__":
    sys.exit(main())
