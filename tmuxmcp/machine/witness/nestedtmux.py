"""Which pane the client of a tmux inside shows: that tmux is asked, by its own program and as its own user.

Nothing is asked for a client that is more confined than we are: it could have anything run for it outside. An answer
is used for a moment only, since a key may bring another pane to the front.
"""

from __future__ import annotations

import getopt
import math
import os
import subprocess
import time
from contextlib import suppress

import anyio
import anyio.abc

from tmuxmcp.contract.value import value
from tmuxmcp.machine import proc
from tmuxmcp.machine.witness.tty import path_of_terminal, pts_number

TMUX_CLIENT = "tmux: client"
"""What the kernel calls the client of a tmux."""

FRESH_S = 0.015
"""An answer is believed for so long: shorter than a terminal behind a relay has to rest until it counts as ready."""

OLD_S = 0.25
"""After so long, it is asked again also where the pane that it showed is at work."""

REFUSED_S = 2.0
"""After so long, one is asked again that gave no answer."""

INNER_ANSWER_S = 1.0
"""A tmux that does not answer within this time gives none."""

SERVER_RESTS_S = 0.008
"""So long a server is given to come to rest after an answer; two looks at it tell."""

SERVER_MOST_THREADS = 64
"""So many threads of a process are looked at."""

INNER_ANSWER_BYTES = 65536
"""An answer is not longer: some 50 bytes a client."""

TMUX_OPTIONS = "2c:CDdf:lL:NqS:T:uUvV"
"""What may stand before tmux's command (tmux(1))."""

CLIENT_FORM = "#{client_pid} #{pane_tty} #{pane_pid} #{pid} #{pane_in_mode} #{client_readonly} #{client_key_table}"


@value
class Client:
    """The client of a tmux inside, and how that is asked."""

    pid: int
    born_s: float
    program: str
    socket: str
    user: int
    group: int
    groups: tuple[int, ...]


@value
class ShownPane:
    """What a client shows."""

    tty: str = ""
    pane: int = 0
    """Process id of the leader of the pane's terminal; 0: not known, or what is typed does not come to it."""
    server: int = 0
    """Process id of that tmux's server."""
    why: str = "does not say what it shows"
    """Where the pane is 0: what the client does."""
    at: float = 0.0
    """When it was said, by `time.monotonic()`."""

    @property
    def age_s(self) -> float:
        """How long ago it was said."""
        return time.monotonic() - self.at


class Panes:
    """The tmuxes inside one session: their clients, and what these show."""

    def __init__(self) -> None:
        self._clients: dict[int, tuple[float, Client | None]] = {}
        self._shown: dict[Client, ShownPane] = {}

    def client(self, pid: int) -> Client | None:
        """The client of this process id; None: it may not be asked."""
        try:
            born_s = proc.stat(f"/proc/{pid}").born_s
        except OSError:
            return None
        known = self._clients.get(pid)
        if known is None or known[0] != born_s:
            self._clients = {pid: (born_s, _client(pid, born_s))}  # one is in front at a time, as a rule
            self._shown = {}
        return self._clients[pid][1]

    def shown_to(self, client: Client) -> ShownPane | None:
        """What it last said, if that may still hold; None: it has to be asked."""
        shown = self._shown.get(client)
        if shown is None or shown.age_s > (math.inf if shown.pane else REFUSED_S):
            return None
        return shown

    async def ask(self, client: Client) -> None:
        """Ask what it shows, for at most a second."""
        shown = ShownPane(at=time.monotonic())
        with suppress(OSError, ValueError, subprocess.SubprocessError):
            for row in (await _rows(client)).splitlines():
                words = row.split()
                if len(words) == 7 and words[0] == str(client.pid):
                    shown = _shown(client, *words[1:])
        await _at_rest(shown)
        self._shown[client] = shown


def wakes_at_rest(pid: int) -> int | None:
    """How often the threads of a process have gone to sleep; None: one of them does not sleep."""
    count = 0
    try:
        for thread in proc.threads(pid)[:SERVER_MOST_THREADS]:
            path = f"/proc/{pid}/task/{thread}"
            if proc.stat(path).state not in "SI":
                return None
            count += int(proc.status(path, "voluntary_ctxt_switches"))
    except (OSError, ValueError):
        return None
    return count


async def _at_rest(shown: ShownPane) -> None:
    """Let a tmux server see that who asked it has gone: until then it seems to pass something on."""
    before = None
    while shown.server and shown.age_s < SERVER_RESTS_S:
        now = wakes_at_rest(shown.server)
        if now is not None and now == before:
            break
        before = now
        await anyio.sleep(0.001)


def _client(pid: int, born_s: float) -> Client | None:
    """How to ask it; None: we may not, or it cannot be told."""
    try:
        user = os.stat(f"/proc/{pid}").st_uid
        if more_than_we(pid) or os.geteuid() not in (0, user):
            return None
        path = f"/proc/{pid}"
        group = int(proc.status(path, "Gid").split()[1])
        groups = tuple(map(int, proc.status(path, "Groups").split()))
        return Client(pid, born_s, os.readlink(f"{path}/exe"), _socket(pid, user), user, group, groups)
    except (OSError, ValueError, getopt.GetoptError):
        return None


def _socket(pid: int, user: int) -> str:
    """The socket of its server, as tmux finds it: by -S, -L, TMUX or the user."""
    options = dict(getopt.getopt(proc.argv_text(pid)[1:], TMUX_OPTIONS)[0])
    pairs = (os.fsdecode(each).partition("=") for each in proc.environment(pid))
    variables = {name: value for name, _, value in pairs}
    if "-S" in options:
        return os.path.join(os.readlink(f"/proc/{pid}/cwd"), options["-S"])
    if "-L" not in options and variables.get("TMUX"):
        return variables["TMUX"].split(",")[0]
    return f"{variables.get('TMUX_TMPDIR') or '/tmp'}/tmux-{user}/{options.get('-L', 'default')}"


async def _rows(client: Client) -> str:
    """What that tmux says of its clients."""
    other = {"user": client.user, "group": client.group, "extra_groups": client.groups}
    process = await anyio.open_process(
        [client.program, "-S", client.socket, "list-clients", "-F", CLIENT_FORM],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.defpath, "LANG": "C.UTF-8"},
        cwd="/",
        **(other if client.user != os.geteuid() else {}),  # type: ignore[arg-type]  # of each the name says the type
    )
    said, ended = b"", False
    async with process:
        try:
            with anyio.move_on_after(INNER_ANSWER_S), suppress(anyio.EndOfStream, anyio.ClosedResourceError):
                assert process.stdout
                while len(said) < INNER_ANSWER_BYTES:
                    said += await process.stdout.receive()
            with anyio.move_on_after(INNER_ANSWER_S):
                ended = await process.wait() is not None
        finally:
            if not ended:
                process.kill()
    return said.decode("utf-8", "replace")


def _shown(client: Client, tty: str, pane: str, server: str, in_mode: str, readonly: str, keys: str) -> ShownPane:
    now = time.monotonic()
    if in_mode != "0" or keys != "root":
        return ShownPane(why="keeps what is typed for itself", at=now)
    if readonly != "0":
        return ShownPane(why="passes nothing on", at=now)
    device = pts_number(int(tty.removeprefix("/dev/pts/")))
    leader = proc.stat(f"/proc/{int(pane)}")
    theirs = leader.session == int(pane) and leader.terminal == device
    if not theirs or leader.parent != int(server) or os.stat(f"/proc/{int(server)}").st_uid != client.user:
        return ShownPane(at=now)
    path = path_of_terminal(int(server), int(pane), proc.Device(0, device))
    return ShownPane(path, int(pane), int(server), "", now) if path else ShownPane(at=now)


# ---- Whether a process is confined more than we are: then nothing of its choice is run for it outside ----------------

NAMESPACE_FILES = ("mnt", "user", "pid", "net", "ipc", "uts", "cgroup")

SANDBOX_FLAGS = ("NoNewPrivs", "Seccomp", "Seccomp_filters")
"""Of `status`: what a sandbox that leaves no other trace has set.

Of Landlock itself nothing is to be seen; ours comes with a filter. A kernel before 5.9 does not count filters: there
nobody is known to be as free as we are.
"""


def more_than_we(pid: int) -> bool:
    """Whether a process lacks something that we have, or that cannot be told.

    Its user is not compared: who runs something for a process does that as its user.
    """
    it, we = f"/proc/{pid}", "/proc/self"
    try:
        if any(os.readlink(f"{it}/ns/{each}") != os.readlink(f"{we}/ns/{each}") for each in NAMESPACE_FILES):
            return True
        if os.readlink(f"{it}/root") != os.readlink(f"{we}/root"):
            return True
        if any(int(proc.status(it, each)) > int(proc.status(we, each)) for each in SANDBOX_FLAGS):
            return True
        same_user = os.stat(it).st_uid == os.geteuid()
        for each in ("CapBnd", "CapEff", "CapPrm")[: 3 if same_user else 1]:
            if int(proc.status(we, each), 16) & ~int(proc.status(it, each), 16):
                return True
    except (OSError, ValueError):
        return True
    return False
