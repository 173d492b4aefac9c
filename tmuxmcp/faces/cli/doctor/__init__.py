"""`tmuxmcp doctor`: what sessions need of this machine, looked at one thing after the other, with a fix for each.

It looks and asks; on the real socket it starts no server, and in the real state directory it writes nothing. Whether
shells send their marks is tried in a state directory of its own, which is gone afterwards.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import resource
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio

from tmuxmcp import __version__
from tmuxmcp.app import broker_settings
from tmuxmcp.broker.admission import FREE_BYTES
from tmuxmcp.broker.broker import Broker
from tmuxmcp.config import VARIABLE_PREFIX, Settings, default_config_file, home, load_with_origins
from tmuxmcp.contract.errors import (
    InvalidArgument,
    PermissionDenied,
    TmuxFailed,
    TmuxMcpError,
    TmuxUnavailable,
    Unsupported,
)
from tmuxmcp.contract.settings import BrokerSettings, SandboxWish
from tmuxmcp.contract.value import replace
from tmuxmcp.faces.cli.doctor import surroundings
from tmuxmcp.faces.cli.doctor.surroundings import DoctorCheck
from tmuxmcp.machine import cgroup, proc
from tmuxmcp.machine.environment import find_program, leave_removed_directory, session_environment, user_shell
from tmuxmcp.machine.launch.shells import SHELLS
from tmuxmcp.machine.sandbox import sandbox
from tmuxmcp.machine.sandbox.project import directories_to_hide
from tmuxmcp.record.directory import sessions_dir
from tmuxmcp.sessions.retention import disk_use
from tmuxmcp.tmux.server import SEARCH_PATH, SOCKET_PATH_LIMIT, Tmux, check_private_directory, find_tmux

CHECK_S = 5.0
"""Longest time of one check."""

SCRIPT_PROGRAMS = ("sh", "cat", "date", "dd", "grep", "ls", "mv", "rm", "sleep", "stty", "tail", "wc")
"""Programs that `launcher.sh` and `sink.sh` need."""

OWN_VARIABLES = ("SESSION", "KEY", "NONCE_FILE", "HISTFILE", "BASH", "RC", "FIRST_PROMPT", "ZDOTDIR", "NORCS", "TOKEN")
"""Variables with our prefix that are no settings: sessions have them."""


def diagnose(flags: Mapping[str, object] | None = None, file: Path | None = None) -> list[DoctorCheck]:
    """Look at everything.

    Args:
        flags: settings given on the command line.
        file: the settings file; None: the default one.
    """
    leave_removed_directory()
    settings_check, settings = check_settings(dict(flags or {}), file)
    tmux = Tmux(settings.state_dir)
    with suppress(TmuxUnavailable):
        tmux.binary, tmux.version = find_tmux()
    looks: list[tuple[str, Callable[[], DoctorCheck]]] = [
        ("tmux", check_tmux),
        ("state directory", lambda: check_state_dir(settings.state_dir)),
        ("disk", lambda: check_disk(settings.state_dir)),
        ("file system", lambda: surroundings.check_file_system(settings.state_dir)),
        ("logs", lambda: check_logs(settings)),
        ("socket", lambda: check_socket(tmux)),
        ("server", lambda: check_server(tmux)),
        ("locale", lambda: check_locale(settings)),
        ("tools", check_tools),
        ("program", lambda: check_program(settings)),
        ("ssh", lambda: surroundings.check_ssh(os.environ)),
        ("kernel", check_kernel),
        ("descriptors", lambda: check_descriptors(settings.max_sessions)),
        ("inotify", check_inotify),
        ("cgroup", check_cgroup),
        ("sandbox", lambda: check_sandbox(settings.sandbox, settings.own_files)),
        ("http", lambda: surroundings.check_http(settings)),
        ("token", lambda: surroundings.check_tokens(settings, os.environ)),
        ("secrets", lambda: surroundings.check_secrets(settings.secrets, _environment(settings))),
        ("fleet", lambda: surroundings.check_fleet(settings)),
        ("ray", surroundings.check_ray),
        ("user", surroundings.check_user),
        ("variables", lambda: surroundings.check_variables(settings.sandbox)),
        ("container", lambda: surroundings.check_container(settings.state_dir)),
        ("clients", lambda: surroundings.check_clients(home(), os.environ)),
    ]
    return [check_python(), settings_check, *_bounded(looks), *probe_shells(broker_settings(settings), tmux)]


def _bounded(looks: Sequence[tuple[str, Callable[[], DoctorCheck]]]) -> list[DoctorCheck]:
    """All checks at once; one that hangs (a dead network file system) holds up nobody."""
    done: dict[str, DoctorCheck] = {}

    def look(name: str, function: Callable[[], DoctorCheck]) -> None:
        try:
            done[name] = function()
        except Exception as error:
            done[name] = DoctorCheck(name, False, f"cannot be told: {error}", "See the message.")

    threads = [threading.Thread(target=look, args=pair, daemon=True) for pair in looks]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + CHECK_S
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
    late = "Look at the disk and at tmux: something there does not answer."
    return [done.get(name) or DoctorCheck(name, False, f"no answer within {CHECK_S:g} s", late) for name, _ in looks]


# ---- Python and settings -------------------------------------------------------------------------


def check_python() -> DoctorCheck:
    """The packages that are needed are there, in versions that are new enough."""
    wrong = []
    found = [f"Python {platform.python_version()}", f"tmuxmcp {__version__}"]
    try:
        wanted = importlib.metadata.requires("tmuxmcp") or []
    except importlib.metadata.PackageNotFoundError:  # run from a checkout's files
        wanted = []
    for line in wanted:
        match = re.match(r"([\w.-]+)(?:.*?>=([\d.]+))?", line)
        if match is None or ("sys_platform" in line and sys.platform not in line) or "extra ==" in line:
            continue
        try:
            version = importlib.metadata.version(match[1])
        except importlib.metadata.PackageNotFoundError:
            wrong.append(f"{match[1]} is missing")
            continue
        found.append(f"{match[1]} {version}")
        if match[2] and _numbers(version) < _numbers(match[2]):
            wrong.append(f"{match[1]} {version} is older than {match[2]}")
    fix = f"Install tmuxmcp again with {shlex.quote(sys.executable)} -m pip, or run scripts/run."
    return DoctorCheck("python", not wrong, "; ".join(wrong) or ", ".join(found), fix if wrong else None)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def check_settings(flags: dict[str, object], file: Path | None) -> tuple[DoctorCheck, Settings]:
    """The settings, and whether all of them mean something; where they do not, the defaults go on."""
    try:
        settings, origins = load_with_origins(flags, file)
    except TmuxMcpError as error:
        check = DoctorCheck("settings", False, error.message, error.hint or "See `tmuxmcp config`.")
        where = flags.get("state_dir") or os.environ.get(VARIABLE_PREFIX + "STATE_DIR")
        given = {"state_dir": Path(os.path.abspath(Path(str(where)).expanduser()))} if where else {}
        return check, Settings.model_construct(**_defaults() | given)
    known = {VARIABLE_PREFIX + name for name in (*(field.upper() for field in Settings.model_fields), *OWN_VARIABLES)}
    ours = [
        name
        for name in os.environ
        if name.startswith(VARIABLE_PREFIX) and not name.startswith(VARIABLE_PREFIX + "TEST_")
    ]
    unknown = sorted(set(ours) - known)
    old = sorted(name for name, where in origins.items() if where != "default" and _deprecated(name))
    wrong = [f"{name} is no setting" for name in unknown] + [f"{name} is deprecated" for name in old]
    if wrong:
        return DoctorCheck(
            "settings", False, "; ".join(wrong), "Remove it; `tmuxmcp config` lists the settings."
        ), settings
    path = file or default_config_file()
    count = sum(where != "default" for where in origins.values())
    read = str(path) if path.exists() else f"no file {path}"
    return DoctorCheck("settings", True, f"{read}; {count} of {len(origins)} are set"), settings


def _defaults() -> dict[str, Any]:
    return {
        name: field.get_default(call_default_factory=True, validated_data={})
        for name, field in Settings.model_fields.items()
    }


def _deprecated(name: str) -> bool:
    return bool(Settings.model_fields[name].deprecated)


# ---- tmux ----------------------------------------------------------------------------------------


def check_tmux() -> DoctorCheck:
    """There is a tmux, new enough."""
    try:
        path, version = find_tmux()
    except TmuxUnavailable as error:
        return DoctorCheck("tmux", False, error.message, error.hint)
    return DoctorCheck("tmux", True, f"{path}, version {version}")


def check_socket(tmux: Tmux) -> DoctorCheck:
    """The socket's path is short enough, and who answers on it is our server, or nobody."""
    socket, running = tmux.socket, tmux.running_pid()
    length = len(os.fsencode(socket))
    if length > SOCKET_PATH_LIMIT:
        why = f"its path has {length} bytes, {SOCKET_PATH_LIMIT} are possible: {socket}"
        return DoctorCheck("socket", False, why, "Set state_dir (TMUXMCP_STATE_DIR) to a shorter path.")
    try:
        kind = socket.lstat().st_mode
    except FileNotFoundError:
        if running is None:
            return DoctorCheck("socket", True, f"{socket}: no server runs; the first session starts one")
        why = f"{socket} was deleted, while its server (process {running}) lives on"
        return DoctorCheck(
            "socket", False, why, f"Any command brings it back: `tmuxmcp list`, or `kill -USR1 {running}`."
        )
    if not stat.S_ISSOCK(kind):
        return DoctorCheck("socket", False, f"{socket} is not a socket", "Remove it, or set another state_dir.")
    if not tmux.binary:
        return DoctorCheck("socket", True, f"{socket}: without tmux, nobody can be asked")
    return _server_check(tmux, running)


def _server_check(tmux: Tmux, running: int | None) -> DoctorCheck:
    """What the server on the socket says."""
    socket = tmux.socket
    try:
        if tmux.alive():
            return DoctorCheck("socket", True, f"{socket}: our server answers")
        foreign = tmux.answers()
    except TmuxUnavailable:
        return DoctorCheck("socket", True, f"{socket}: a server of another version answers")  # see `server`
    except TmuxFailed as error:
        return DoctorCheck("socket", False, error.message, error.hint)
    if foreign:
        fix = f"End it with `tmux -S {shlex.quote(str(socket))} kill-server`, or set another state_dir."
        return DoctorCheck("socket", False, f"{socket}: another tmux server, not ours, answers", fix)
    if running is not None:
        why = f"{socket}: its server (process {running}) does not answer there"
        return DoctorCheck("socket", False, why, f"Have it make the socket again: `kill -USR1 {running}`.")
    return DoctorCheck(
        "socket", True, f"{socket}: left over from a server that ended; the next session starts a new one"
    )


def check_server(tmux: Tmux) -> DoctorCheck:
    """The server was started by the tmux that is found now: others often cannot talk to it."""
    if not tmux.binary or not tmux.socket.exists():
        return DoctorCheck("server", True, "none runs")
    fix = "Put the tmux that started it first on PATH, or end its sessions with that one."
    try:
        answer = tmux.run("display-message", "-p", "#{version} #{pid}")
        if not answer.stdout:
            tmux.alive()  # tells other versions from no server
            return DoctorCheck("server", True, "none runs")
    except TmuxMcpError as error:
        return DoctorCheck("server", False, error.message, error.hint or fix)
    version, _, pid = answer.stdout.strip().partition(" ")
    binary = _executable(pid)
    running = f"tmux {version}, process {pid}" + (f", {binary}" if binary else "")
    if version != tmux.version:
        return DoctorCheck("server", False, f"it is {running}; found is {tmux.binary}, tmux {tmux.version}", fix)
    return DoctorCheck("server", True, running)


def _executable(pid: str) -> str:
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/exe")
    return ""


# ---- the state directory -------------------------------------------------------------------------


def check_state_dir(path: Path) -> DoctorCheck:
    """It is the user's alone, and can be written to; one that is not there can be made."""
    name = "state directory"
    if not os.path.lexists(path):
        parent = next(each for each in path.parents if each.exists())
        try:
            Path(tempfile.mkdtemp(prefix=".tmuxmcp-", dir=parent)).rmdir()  # /proc, say, seems writable, and is not
        except OSError as error:
            fix = "Set state_dir to where you may write."
            return DoctorCheck(name, False, f"{path} cannot be made in {parent}: {error.strerror}", fix)
        return DoctorCheck(name, True, f"{path} is made with the first session")
    try:
        check_private_directory(path)
    except PermissionDenied as error:
        return DoctorCheck(name, False, error.message, error.hint)
    for each in (path, sessions_dir(path)):
        if each.exists() and not os.access(each, os.W_OK | os.X_OK):
            return DoctorCheck(
                name, False, f"{each} cannot be written to", f"Run `chmod 700 {shlex.quote(str(each))}`."
            )
    return DoctorCheck(name, True, f"{path}, yours alone")


def check_disk(path: Path) -> DoctorCheck:
    """There is room for logs."""
    while not path.exists():
        path = path.parent
    usage = shutil.disk_usage(path)
    message = f"{_size(usage.free)} of {_size(usage.total)} free"
    if usage.free >= FREE_BYTES:
        return DoctorCheck("disk", True, message)
    return DoctorCheck("disk", False, message, f"Make room on the disk of {path}: output that does not fit is lost.")


def check_logs(settings: Settings) -> DoctorCheck:
    """What is kept is within its limit."""
    used, limit = disk_use(settings.state_dir), settings.state_max_bytes
    kept = f"logs of ended sessions go after {settings.retention_days:g} days" if settings.retention_days else ""
    message = ", ".join(part for part in (f"{_size(used)} of {_size(limit) if limit else 'any number'}", kept) if part)
    if not limit or used <= limit:
        return DoctorCheck("logs", True, message)
    fix = "What is left belongs to sessions that still run: end some, or raise state_max_bytes."
    return DoctorCheck("logs", False, message, fix)


def _size(number: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


# ---- the system ----------------------------------------------------------------------------------


def _environment(settings: Settings | BrokerSettings) -> dict[str, str]:
    return session_environment(
        os.environ, allow=settings.env_allow, settings_env=settings.env, env={}, term=settings.term
    )


def check_locale(settings: Settings) -> DoctorCheck:
    """Programs in sessions write UTF-8."""
    env = _environment(settings)
    name, value = next((each, env[each]) for each in ("LC_ALL", "LC_CTYPE", "LANG") if env.get(each))
    fix = 'Set LC_ALL=C.UTF-8 where tmuxmcp is started, or `env = {LC_ALL = "C.UTF-8"}` in the settings file.'
    try:
        done = subprocess.run(["locale", "charmap"], env=env, capture_output=True, text=True, timeout=2, check=False)
    except (OSError, subprocess.TimeoutExpired):  # musl has no such program, and no other characters
        return DoctorCheck("locale", True, f"{name}={value}")
    charmap = done.stdout.strip()
    if done.stderr.strip() and not charmap.upper().startswith("UTF"):
        return DoctorCheck("locale", False, f"{name}={value} is not installed here", fix)
    if not re.fullmatch(r"(?i)utf-?8", charmap):
        return DoctorCheck("locale", False, f"{name}={value} means {charmap}, not UTF-8", fix)
    return DoctorCheck("locale", True, f"{name}={value}, {charmap}")


def check_program(settings: Settings) -> DoctorCheck:
    """The program of a default session exists, and is a shell that tells where commands end."""
    program = settings.program or user_shell()
    asked = "setting program" if settings.program else "login shell"
    fix = 'Set program = "bash" in the settings file.'
    try:
        path = find_program(program, _environment(settings)["PATH"], os.getcwd())
    except TmuxMcpError as error:
        return DoctorCheck("program", False, f"{asked}: {error.message}", fix)
    if os.path.basename(path) not in SHELLS and not settings.program:
        known = " or ".join(", ".join(SHELLS).rsplit(", ", 1))
        return DoctorCheck("program", False, f"{asked} {path}: `run` needs {known}", fix)
    return DoctorCheck("program", True, f"{asked} {path}")


def check_tools() -> DoctorCheck:
    """The programs that every session's launcher and log writer call."""
    path = os.environ.get("PATH") or SEARCH_PATH
    missing = [name for name in SCRIPT_PROGRAMS if shutil.which(name, path=path) is None]
    if not missing:
        return DoctorCheck("tools", True, ", ".join(SCRIPT_PROGRAMS))
    fix = f"Install them (Debian: coreutils, grep), or put them on PATH, which is {path}."
    return DoctorCheck("tools", False, f"sessions need programs that are not there: {', '.join(missing)}", fix)


def check_kernel() -> DoctorCheck:
    """The kernel tells what a program sleeps in."""
    if sys.platform != "linux":
        return DoctorCheck("kernel", True, "not Linux: marks, prompt_pattern and silence tell when a program waits")
    channel = ""
    with subprocess.Popen(["sleep", "9"], stdin=subprocess.DEVNULL) as child:
        try:
            deadline = time.monotonic() + 2
            while channel in ("", "0") and time.monotonic() < deadline:  # it is still on its way to sleep
                channel = proc.wait_channel(f"/proc/{child.pid}")
                time.sleep(0.005)
        except OSError as error:
            channel = f"({error.strerror})"
        finally:
            child.kill()
    if re.fullmatch(r"\w{2,}", channel):
        return DoctorCheck("kernel", True, "/proc and wait channels can be read")
    fix = "Give prompt_pattern for programs other than shells: waits for them go by silence here."
    return DoctorCheck("kernel", False, f"the wait channel of a sleeping program reads {channel or '0'!r}", fix)


def check_descriptors(max_sessions: int) -> DoctorCheck:
    """So many sessions may be open: the server takes two descriptors for each."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    wanted = 2 * max_sessions + 64
    message = f"{soft if soft != resource.RLIM_INFINITY else 'any number'}; {max_sessions} sessions need {wanted}"
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return DoctorCheck("descriptors", True, message)
    return DoctorCheck("descriptors", False, message, f"Run `ulimit -n {wanted}` before, or lower max_sessions.")


def check_inotify() -> DoctorCheck:
    """The kernel tells at once that a log grows."""
    if sys.platform != "linux":
        return DoctorCheck("inotify", True, "not Linux: logs are polled")
    import inotify_simple

    limits = []
    for name in ("max_user_instances", "max_user_watches"):
        with suppress(OSError):
            limits.append(f"{name} {Path('/proc/sys/fs/inotify', name).read_text().strip()}")
    try:
        with inotify_simple.INotify() as inotify:
            inotify.add_watch(home(), inotify_simple.flags.DELETE_SELF)
    except OSError as error:
        fix = "Raise it: `sysctl fs.inotify.max_user_instances=512 fs.inotify.max_user_watches=65536`."
        return DoctorCheck("inotify", False, f"{error.strerror} ({', '.join(limits)}): logs are polled", fix)
    return DoctorCheck("inotify", True, ", ".join(limits))


def check_cgroup() -> DoctorCheck:
    """Who keeps the limits of sessions; nothing here has to be mended."""
    return DoctorCheck("cgroup", True, cgroup.describe(cgroup.places()))


def check_sandbox(wish: SandboxWish, own_files: Iterable[Path] = ()) -> DoctorCheck:
    """The sandbox that sessions can have, and whether it is what the settings want.

    Args:
        own_files: settings and tokens, which it has to keep apart.
    """
    message = sandbox.describe()
    if wish == "none":
        return DoctorCheck("sandbox", True, f"{message}; not asked for: sessions read and write all that you can")
    try:
        sandbox.choose(wish)
        directories_to_hide(map(str, own_files))
    except Unsupported as error:
        return DoctorCheck("sandbox", False, message, error.hint)
    except InvalidArgument as error:
        return DoctorCheck("sandbox", False, error.message, error.hint)
    return DoctorCheck("sandbox", True, message)


# ---- shells --------------------------------------------------------------------------------------


def probe_shells(settings: BrokerSettings, tmux: Tmux) -> list[DoctorCheck]:
    """Each shell's version, and whether its marks come: in sessions on a server of our own, which ends again."""
    env = _environment(settings)
    paths = {name: path for name in SHELLS if (path := shutil.which(name, path=env["PATH"]))}
    login = user_shell()
    if os.path.basename(login) in SHELLS:
        paths[os.path.basename(login)] = login
    absent = [DoctorCheck(name, True, "not installed") for name in SHELLS if name not in paths]
    if not settings.integration:
        return [DoctorCheck(name, True, "not tried: integration is false") for name in paths] + absent
    if not tmux.binary:
        return [DoctorCheck(name, False, "not tried: there is no tmux", "Install tmux.") for name in paths] + absent
    directory = Path(tempfile.mkdtemp(prefix="tm-", dir=None if len(tempfile.gettempdir()) < 60 else "/tmp"))
    own = replace(settings, state_dir=directory, history="none", on_exit="destroy", max_sessions=len(paths) + 1, cwd="")
    try:
        told = anyio.run(_probe_all, own, paths)
    finally:
        tmux = Tmux(directory)
        with suppress(TmuxMcpError):
            tmux.binary, tmux.version = find_tmux()
            tmux.run("kill-server")
        shutil.rmtree(directory, ignore_errors=True)
    return [_verdict(name, path, told.get(name, "no answer")) for name, path in paths.items()] + absent


def _verdict(name: str, path: str, problem: str) -> DoctorCheck:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=2, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    number = re.search(r"\d+(?:\.\d+)+", said)
    what = f"{path} {number[0] if number else ''}".strip()
    if not problem:
        return DoctorCheck(name, True, f"{what}: its marks come")
    oldest = SHELLS[name].oldest_version
    if number and _numbers(number[0]) < oldest:
        told = ".".join(map(str, oldest))
        return DoctorCheck(name, False, f"{what} is older than {told}: `run` cannot work", f"Install a newer {name}.")
    fix = f"Start it with `tmuxmcp new {path}` and look with `tmuxmcp view`: a start-up file may ask, fail or exec."
    return DoctorCheck(name, False, f"{what}: {problem}", fix)


async def _probe_all(settings: BrokerSettings, paths: Mapping[str, str]) -> dict[str, str]:
    """What is wrong with each shell; empty: nothing."""
    told: dict[str, str] = {}
    try:
        async with Broker.open(settings) as broker, anyio.create_task_group() as task_group:
            for name, path in paths.items():
                task_group.start_soon(_probe, broker, name, path, told)
    except* TmuxMcpError as group:
        problem = str(group.exceptions[0])
        told = {name: told.get(name, problem) for name in paths}
    return told


async def _at_prompt(broker: Broker, name: str) -> bool:
    """Whether the shell says that it is at its prompt; a start-up file that asks something waits for input, too."""
    waited = await broker.read(session_id=name, wait_for="ready", timeout_ms=int(CHECK_S * 1000))
    return waited.evidence == "marks"


async def _probe(broker: Broker, name: str, path: str, told: dict[str, str]) -> None:
    """Wait for the shell's prompt and run one command."""
    step = "no prompt came"
    try:
        with anyio.move_on_after(CHECK_S):
            await broker.create_session(path, name=name, wait_ready=False)
            while not await _at_prompt(broker, name):
                await anyio.sleep(0.05)
            step = "`true` did not end"
            ran = await broker.run("true", name)
            told[name] = "" if (ran.exit_code, ran.evidence) == (0, "marks") else f"`true` gave {ran.outcome}"
            return
        told[name] = f"{step} within {CHECK_S:g} s"
    except TmuxMcpError as error:
        told[name] = error.message
