"""Checks of what is around the broker: the HTTP service, its tokens, a container, and the clients that start us."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tmuxmcp.config import Settings
from tmuxmcp.contract.errors import TmuxMcpError, Unsupported
from tmuxmcp.contract.settings import SandboxWish, Secret
from tmuxmcp.contract.value import value
from tmuxmcp.faces.cli.clients import CLIENTS, URL_KEYS, McpClient, TrustFound, servers
from tmuxmcp.faces.tokens import OWN_TOKEN_FILE, TOKEN_VARIABLE, is_loopback, load_tokens, parse_address
from tmuxmcp.machine.locks import file_system_of
from tmuxmcp.machine.ownprocess import shown_above
from tmuxmcp.machine.sandbox import sandbox
from tmuxmcp.machine.usercommands import check_source
from tmuxmcp.tmux.leaseoptions import user_name

if TYPE_CHECKING:
    from tmuxmcp.nodes.transport import Machine

SERVICE_ANSWER_S = 2.0
"""A service that does not answer within this is no service of ours."""

CONTAINER_FILES = {"docker": ".dockerenv", "podman": "run/.containerenv"}
"""Files that an engine puts into a container; a mount over `/run` hides one of them."""

CONTAINER_GROUPS = {"docker": "docker", "libpod": "podman", "kubepods": "kubernetes", "containerd": "containerd",
                    "lxc": "lxc"}  # fmt: skip
"""Words in the control group of a container's first process, and the engine that is called so."""


def check_tokens(settings: Settings, environ: Mapping[str, str]) -> DoctorCheck:
    """What HTTP clients have to send."""
    given = environ.get(TOKEN_VARIABLE)
    try:
        tokens = load_tokens(settings.token_file, given)
    except TmuxMcpError as error:
        return DoctorCheck("token", False, error.message, error.hint or "Mend the file.")
    if tokens is None and settings.http == "off":
        return DoctorCheck("token", True, "none")
    if tokens is None and _only_here(settings.http):
        return _own_token(settings.state_dir)
    if tokens is None:
        fix = f"Write one into a file of mode 600 and set token_file, or set {TOKEN_VARIABLE}."
        return DoctorCheck("token", False, "there is none, and HTTP wants one", fix)
    if short := [token.name for token in tokens if token.short]:
        return DoctorCheck(
            "token", False, f"short enough to be guessed: {', '.join(short)}", "Use `openssl rand -hex 32`."
        )
    names = ", ".join(f"{token.name} ({'/'.join(sorted(token.scopes))})" for token in tokens)
    if any("write" in token.scopes and "admin" not in token.scopes for token in tokens) and not _keeps_files_apart(
        settings.sandbox
    ):
        names += "; without a sandbox that keeps files apart, who may write can do what admin can"
    return DoctorCheck("token", True, names)


def _only_here(http: str) -> bool:
    """Whether an address to listen on is reached from this machine alone."""
    try:
        host, port = parse_address(http)
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (TmuxMcpError, OSError):
        return False
    return all(is_loopback(str(each[4][0])) for each in found)


def _own_token(state_dir: Path) -> DoctorCheck:
    """The token that the service makes itself, as it is given none."""
    file = state_dir / OWN_TOKEN_FILE
    try:
        there = load_tokens(file, None) if file.exists() else None
    except TmuxMcpError as error:
        return DoctorCheck("token", False, error.message, error.hint or "Mend the file.")
    return DoctorCheck("token", True, f"its own, in {file}" if there else f"the service makes its own, in {file}")


def check_secrets(secrets: Mapping[str, Secret], env: Mapping[str, str]) -> DoctorCheck:
    """What `send` may type by name can be had: private files, and commands that are there. No value is read."""
    wrong = []
    for name, secret in secrets.items():
        try:
            check_source(name, secret, env)
        except TmuxMcpError as error:
            wrong.append(error.message)
    if wrong:
        return DoctorCheck(
            "secrets", False, " ".join(wrong), "Mend `source` of these in the setting secrets, or the files."
        )
    return DoctorCheck("secrets", True, ", ".join(secrets) or "none")


def check_fleet(settings: Settings) -> DoctorCheck:
    """The machines of the fleet answer, and have this version."""
    if settings.fleet == "off":
        return DoctorCheck("fleet", True, "off")
    import anyio

    try:
        machines = anyio.run(_machines, settings)
    except TmuxMcpError as error:
        return DoctorCheck("fleet", False, error.message, error.hint or "Mend the setting fleet.")
    wrong = [each for each in machines if not each.alive or each.note]
    said = "; ".join(f"{each.name}: {each.note or 'it does not answer'}" for each in wrong)
    fix = "Look there, or say what is to become of it: tmuxmcp fleet drain, tmuxmcp fleet forget."
    answer = f"{sum(each.alive for each in machines)} of {len(machines)} machines answer"
    return DoctorCheck("fleet", not wrong, f"{answer}; {said}" if said else answer, fix if wrong else None)


async def _machines(settings: Settings) -> list[Machine]:
    from tmuxmcp.app import open_fleet

    async with open_fleet("", settings) as fleet:
        return await fleet.machines()


def _keeps_files_apart(wish: SandboxWish) -> bool:
    try:
        return sandbox.meets(sandbox.choose(wish), "required")
    except Unsupported:  # there are no sessions
        return True


def check_http(settings: Settings) -> DoctorCheck:
    """Where the service listens, and who answers there."""
    if settings.http == "off":
        return DoctorCheck("http", True, "off")
    try:
        host, port = parse_address(settings.http)
    except TmuxMcpError as error:
        return DoctorCheck("http", False, error.message, error.hint)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        return DoctorCheck("http", False, f"{host} is no address of this machine: {error.strerror}", "Change http.")
    address = str(found[4][0])
    if not is_loopback(address) and not settings.allowed_hosts:
        fix = "Set allowed_hosts to the names that clients use, each with its port."
        return DoctorCheck("http", False, f"{settings.http} can be reached from elsewhere and answers to no name", fix)
    return _who_answers(settings.http, found[0], found[4])


def _who_answers(where: str, family: int, address: Any) -> DoctorCheck:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            free, why = False, str(error.strerror)
        else:
            return DoctorCheck("http", True, f"{where} is free: nothing is served there now")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address[0], address[0])
    connection = http.client.HTTPConnection(host, address[1], timeout=SERVICE_ANSWER_S)
    try:
        connection.request("GET", "/healthz")
        said = json.loads(connection.getresponse().read(10_000))
        return DoctorCheck("http", True, f"{where}: tmuxmcp {said['version']} answers")
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return DoctorCheck(
            "http", free, f"{where} cannot be had: {why}", "Another program is there: choose another port."
        )
    finally:
        connection.close()


def check_ssh(environ: Mapping[str, str]) -> DoctorCheck:
    """What sessions on other hosts go by: the person's ssh and agent. Without them there are local sessions only."""
    path = shutil.which("ssh", path=environ.get("PATH"))
    if path is None:
        return DoctorCheck("ssh", True, "not there: no sessions on other hosts")
    try:
        asked = subprocess.run(
            [path, "-V"], capture_output=True, stdin=subprocess.DEVNULL, timeout=SERVICE_ANSWER_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return DoctorCheck("ssh", False, f"{path} does not run: {error}", "Install OpenSSH's client again.")
    version = (asked.stderr or asked.stdout).decode(errors="replace").split(",")[0].strip()
    agent = environ.get("SSH_AUTH_SOCK")
    if agent and not os.path.exists(agent):
        fix = "Start the agent, and give SSH_AUTH_SOCK to whatever starts tmuxmcp."
        return DoctorCheck("ssh", False, f"{version}; the agent's socket {agent} is not there", fix)
    return DoctorCheck("ssh", True, f"{version}, {f'agent at {agent}' if agent else 'no agent in our environment'}")


def container_kind(environ: Mapping[str, str], root: Path = Path("/")) -> str:
    """The engine whose container this is, as far as there are signs of one; empty: there are none.

    Args:
        environ: our environment, in which engines name themselves.
        root: the root of the file system.
    """
    proc = root / "proc"
    first = _text(proc / "1" / "environ").split("\0")  # root alone may read it, and whoever runs as its user
    told = environ.get("container") or next((each[10:] for each in first if each.startswith("container=")), "")
    if told:
        return told
    if found := next((name for name, path in CONTAINER_FILES.items() if (root / path).exists()), ""):
        return found
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    groups = _text(proc / "1" / "cgroup") + _text(proc / "self" / "cgroup")
    if found := next((name for word, name in CONTAINER_GROUPS.items() if word in groups), ""):
        return found
    mounts = (line.split() for line in _text(proc / "self" / "mountinfo").splitlines())
    overlay = any(fields[4] == "/" and "overlay" in fields[fields.index("-") :] for fields in mounts if "-" in fields)
    return "probably a container (its root is an overlay)" if overlay else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def check_user() -> DoctorCheck:
    """Whose rights sessions have."""
    if os.geteuid():
        return DoctorCheck("user", True, f"sessions run as {user_name()}")
    said = "sessions run as root: what an agent runs may change this whole machine, but in a sandbox"
    return DoctorCheck("user", True, said)


def check_variables(wish: SandboxWish) -> DoctorCheck:
    """Whether sessions can read secrets that a process above us was started with."""
    shown = {} if _keeps_files_apart(wish) else shown_above()
    if not shown:
        return DoctorCheck("variables", True, "no process above this one shows a secret to sessions")
    told = ", ".join(f"{name} of process {pid} ({program})" for name, (pid, program) in shown.items())
    message = f"sessions can read, unless in a sandbox: {told}"
    if all(pid != 1 for pid, _ in shown.values()):
        return DoctorCheck("variables", True, message)
    fix = "Start the container without --init: tmuxmcp hides them from sessions. Or give it files of mode 600."
    return DoctorCheck("variables", False, message, fix)


def check_container(state_dir: Path) -> DoctorCheck:
    """Whether this is a container, and one that sessions can live in."""
    kind = container_kind(os.environ)
    if not kind:
        return DoctorCheck("container", True, "no sign of one")
    remarks = [kind]
    if os.getuid() == 0:
        remarks.append("its user is root, which --user changes")
    if not _has_own_mount(state_dir):
        remarks.append(f"logs are gone with it unless {state_dir} is a volume")
    if _orphans_are_collected():
        return DoctorCheck("container", True, "; ".join(remarks))
    fix = "Put tini into the image, which tmuxmcp then starts; or start the container with --init."
    return DoctorCheck("container", False, f"{kind}: what sessions leave behind stays as zombies", fix)


def _orphans_are_collected() -> bool:
    """Try it: an orphan ends, and whoever inherits it must collect it."""
    made = subprocess.run(
        ["sh", "-c", "sleep 0.05 & echo $!"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=10 * SERVICE_ANSWER_S,
    )
    orphan, deadline = Path("/proc", made.stdout.strip()), time.monotonic() + SERVICE_ANSWER_S
    while orphan.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not orphan.exists()


def _has_own_mount(path: Path) -> bool:
    """Whether a path, or the part of it that is there, lies on another file system than the root."""
    there = next(each for each in (path, *path.parents) if each.exists())
    return os.stat(there).st_dev != os.stat("/").st_dev


def check_file_system(state_dir: Path) -> DoctorCheck:
    """Whether the state directory is on a file system of this machine alone."""
    there = next(each for each in (state_dir, *state_dir.parents) if each.exists())
    found = file_system_of(there)
    if found.local:
        return DoctorCheck("file system", True, "local")
    message = f"{there} is on {found.kind}: it is not written down when sessions print what"
    return DoctorCheck("file system", False, message, "Choose a state_dir on a local file system.")


def check_clients(home: Path, environ: Mapping[str, str]) -> DoctorCheck:
    """The clients that start us, and whether what they start is there."""
    told, wrong, fixes = [], [], []
    for word, client, command, problem in _entries(home, environ):
        if not problem and (command is None or (command and shutil.which(command, path=environ.get("PATH")))):
            told.append(f"{client.title}{_trust(client, home, environ)}")
        else:
            wrong.append(f"{client.title}: {problem or f'{command!r} is not there'}")
            fixes.append(f"`tmuxmcp install {word} --scope user`.")
    if wrong:
        return DoctorCheck("clients", False, "; ".join(wrong), " ".join(fixes))
    return DoctorCheck(
        "clients", True, f"known to {', '.join(told)}" if told else "none knows us; see `tmuxmcp install`"
    )


def _trust(client: McpClient, home: Path, environ: Mapping[str, str]) -> str:
    """Whether a client that starts servers in trusted folders alone would do so here."""
    here = Path.cwd()
    found = client.trust_in(here, "user", home, environ)
    match found:
        case TrustFound(trust="yes"):
            return f" (it trusts {here})"
        case TrustFound(trust="no" | "unasked", by=by):
            return f" (not in {here}, which it does not trust: {by})"
        case TrustFound(trust="unknown", by=by):
            return f" (whether it trusts {here} is not known: {by})"
    return ""


def _entries(home: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, McpClient, str | None, str]]:
    """Our entries in the clients' files of the user: the client's word, itself, the command, what is wrong.

    The command is `None` where the client calls a server at a URL.
    """
    for word, client in CLIENTS.items():
        path = client.path("user", home, home, environ)
        try:
            found = servers(path.read_text(encoding="utf-8"), path, client.keys("user", home))
        except (OSError, UnicodeDecodeError):
            continue  # not installed, or not ours to judge
        except TmuxMcpError as error:
            yield word, client, "", error.message
            continue
        entry = found.get("tmuxmcp")
        if isinstance(entry, dict) and any(key in entry for key in URL_KEYS):
            yield word, client, None, ""
        elif isinstance(entry, dict):
            command = entry.get("command") or entry.get("cmd", "")
            yield word, client, str(command[0] if isinstance(command, list) and command else command), ""


# ---- What a check says -----------------------------------------------------------------------------------------------


@value
class DoctorCheck:
    """One thing that was looked at."""

    name: str
    ok: bool
    message: str
    fix: str | None = None
    """What to do about it; None when it holds."""


# ---- How Ray runs on this machine, where it has a door: what would slow sessions down or end them --------------------

DOOR = "ray::Door"
"""What Ray calls the process of a door."""

SUBREAPER = "RAY_kill_child_processes_on_worker_exit_with_raylet_subreaper"


def check_ray() -> DoctorCheck:
    """Doors and the tmux servers that they started are as nice as others, and Ray lets go of what doors start."""
    doors = [each for each in psutil.process_iter() if _is_door(each)]
    if not doors:
        return DoctorCheck("ray", True, "no door on this machine")
    wrong = sorted({problem for door in doors for problem in _problems(door)})
    if not wrong:
        return DoctorCheck("ray", True, f"{len(doors)} {'door' if len(doors) == 1 else 'doors'}")
    fix = f"Start Ray with RAY_worker_niceness=0 and without {SUBREAPER}, as `tmuxmcp fleet join` does."
    return DoctorCheck("ray", False, "; ".join(wrong), fix)


def _is_door(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return (process.cmdline() or [""])[0].startswith(DOOR)
    return False


def _problems(door: psutil.Process) -> Iterator[str]:
    with suppress(psutil.Error):
        if door.nice() > os.getpriority(os.PRIO_PROCESS, 0):
            yield f"the door runs at niceness {door.nice()}, and so will the sessions of a tmux that it starts"
        for parent in door.parents():
            if parent.name() == "raylet" and parent.environ().get(SUBREAPER, "").lower() in ("1", "true"):
                yield "Ray's subreaper is on: it ends what doors started when they end"
