"""From each level of sandbox: what is out of reach, and that a terminal in it works like any other."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SLOW, eventually
from tests.kit.processes import alive
from tests.kit.sandboxes import BEST, LEVELS, STRONG, a_boxed_broker, levels
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import PolicyDenied, ProgramNotFound, Unsupported
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.settings import BrokerSettings, SandboxLevel
from tmuxmcp.contract.value import replace
from tmuxmcp.machine.sandbox import bubblewrap, landlock, sandbox, seccomp
from tmuxmcp.machine.sandbox.project import Project, judge
from tmuxmcp.sessions import bounds
from tmuxmcp.sessions.end import process_tree

UNIX = f"{sys.executable} -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{{}}\")'"

SWITCHES = """
import os, stat
tried, opened = 0, []
for top in ("/proc", "/sys"):
    for directory, names, files in os.walk(top):
        if directory == "/proc":
            names[:] = [name for name in names if not name.isdigit() and name not in ("self", "thread-self")]
        for name in files:
            path = os.path.join(directory, name)
            try:
                if stat.S_ISREG(os.lstat(path).st_mode):
                    tried += 1
                    os.close(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK))
                    opened.append(path)
            except OSError:
                pass
print(tried > 1000, opened)
"""
"""Opens every file of the kernel for writing, and writes nothing."""

UNDO = """
import ctypes, os
libc = ctypes.CDLL(None)
NEW_NAMESPACES, REMOUNT, BIND, RECURSIVE, DETACH = 0x10000000 | 0x20000 | 0x20000000, 32, 4096, 16384, 2
os.mkdir("/tmp/p")
def undo():
    libc.mount(None, b"/proc", None, REMOUNT, None)
    libc.mount(None, b"/proc", None, REMOUNT | BIND, None)
    libc.umount2(b"/proc", DETACH)
    libc.mount(b"/proc", b"/tmp/p", None, BIND | RECURSIVE, None)
    libc.mount(None, b"/tmp/p", None, REMOUNT | BIND, None)
    libc.mount(b"proc", b"/tmp/p", b"proc", 0, None)
    for path in ("/proc", "/tmp/p"):
        try:
            os.close(os.open(f"{path}/sys/kernel/core_pattern", os.O_WRONLY))
            print("opened", path)
        except OSError:
            pass
undo()
print("unshare", libc.unshare(NEW_NAMESPACES))
if os.fork() == 0:
    undo()
    os._exit(0)
os.wait()
"""
"""Tries to make them writable again, also in new namespaces."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
async def boxed(
    anyio_backend: str, state_dir: Path, home: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Broker]:
    """A broker whose sessions may have this level; `a` and `other` make some in it."""
    async with a_boxed_broker(request.param, state_dir, sandbox="none") as broker:
        yield broker


@pytest.fixture
async def other(boxed: Broker) -> None:
    """A session without a sandbox."""
    await boxed.create_session(name="other")
    await boxed.run("secret=hidden; echo out of other", session_id="other")


@pytest.fixture
async def a(boxed: Broker, project: Path) -> None:
    """A session in a sandbox of the level."""
    made = await boxed.create_session(
        "bash", name="a", cwd=str(project), sandbox="auto", ready_timeout_ms=int(10_000 * SLOW)
    )
    assert ("keeps no files apart" in (made.note or "")) == (sandbox.best() == "limits")
    assert made.ready
    assert (await boxed.get_session("a")).sandbox == sandbox.best()


async def refused(broker: Broker, command: str) -> str:
    ran = await broker.run(command, session_id="a")
    assert ran.exit_code not in (0, None), ran.output
    return ran.output


# ---- what is out of reach --------------------------------------------------------------------------


@levels(LEVELS)
@pytest.mark.usefixtures("a")
async def test_tmux_server_cannot_be_reached(boxed: Broker, state_dir: Path) -> None:
    await refused(boxed, f"tmux -S {state_dir}/tmux.sock run-shell true")
    await refused(boxed, UNIX.format(state_dir / "tmux.sock"))


@levels(STRONG)
@pytest.mark.usefixtures("other", "a")
async def test_state_directory_and_other_sessions_cannot_be_read(boxed: Broker, state_dir: Path) -> None:
    other = state_dir / "sessions" / "other"
    (state_dir / "http_token").write_text("secret-of-the-service")
    for command in (
        f"cat {state_dir}/http_token",
        "grep -rs secret-of-the-service /proc/[0-9]*/root" + f"{state_dir} {state_dir}",
        f"cat {other}/out.raw",
        f"cat {state_dir}/sessions/a/out.raw",
        f"cat {other}/meta.json {state_dir}/tmux.pid",
        f"ls {other}",
        f"ls {state_dir}/callers",
        f"echo x >{state_dir}/new",
        f"echo x >>{other}/out.raw",
        f"rm {other}/out.raw",
        f"mv {state_dir} {state_dir}.moved",
        f"truncate -s 0 {other}/out.raw",
        f"{sys.executable} -c 'import os; os.truncate(\"{other}/out.raw\", 0)'",
        f"cp -l {other}/out.raw .",
    ):
        await refused(boxed, command)
    assert "out of other" in (await boxed.read(session_id="other", since=0)).content


@levels(STRONG)
@pytest.mark.usefixtures("other", "a")
async def test_other_processes_cannot_be_read_signalled_or_traced(boxed: Broker) -> None:
    if boxed.registry.sessions["a"].bounds.sandbox == "landlock" and landlock.version() < 6:
        pytest.skip("before its version 6 Landlock does not keep signals in")
    pid = (await boxed.get_session("other")).pid
    tty = boxed.registry.sessions["other"].pane.tty  # type: ignore[union-attr]
    for command in (
        f"kill -0 {pid}",
        f"cat /proc/{pid}/environ",
        f"readlink /proc/{pid}/fd/0",
        f"cat /proc/{pid}/root/etc/passwd",
        f"echo x >{tty}",
    ):
        await refused(boxed, command)


@levels(STRONG)
@pytest.mark.usefixtures("a")
async def test_only_the_project_and_temporary_files_can_be_written(boxed: Broker, project: Path, home: Path) -> None:
    for place in (home, "/etc", "/usr", "/var/tmp"):
        ran = await boxed.run(f"echo x >{place}/tmuxmcp-test && cat {place}/tmuxmcp-test", session_id="a")
        assert not os.path.exists(f"{place}/tmuxmcp-test"), ran.output  # noqa: ASYNC240 - as fast as anything
    await refused(boxed, f"mkdir {home}/new")
    ran = await boxed.run("mkdir -p d && echo x >d/f && mv d/f g && ln -s g h && cat h && rm -r d", session_id="a")
    assert (ran.exit_code, ran.output) == (0, "x\n")
    assert (project / "g").read_text() == "x\n"
    ran = await boxed.run('file=$(mktemp) && echo y >$file && cat <<<"here" $file && echo $file', session_id="a")
    assert ran.exit_code == 0
    assert not os.path.exists(f"/tmp/{os.path.basename(ran.output.strip())}")  # noqa: ASYNC240


@pytest.mark.parametrize("level", STRONG)
async def test_directories_of_the_settings_can_be_written(
    level: SandboxLevel, state_dir: Path, home: Path, project: Path
) -> None:
    async with a_boxed_broker(level, state_dir, project, sandbox_write=(str(home),)) as broker:
        await broker.create_session(name="a", cwd=str(project))
        assert (await broker.run("echo x >~/f && echo y >f && cat ~/f f", session_id="a")).output == "x\ny\n"


@levels(LEVELS)
@pytest.mark.usefixtures("a")
async def test_no_privileges_and_no_doors_to_the_kernel(boxed: Broker) -> None:
    ran = await boxed.run("grep -E '^(NoNewPrivs|Seccomp|CapEff):' /proc/self/status", session_id="a")
    status = dict(line.split(":\t") for line in ran.output.splitlines())
    assert status == {"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0000000000000000"}
    for command in ("unshare -Ur true", "mount -t tmpfs x /mnt"):
        await refused(boxed, command)
    code = 'import fcntl; fcntl.ioctl(0, 0x5412, b"x")'
    assert "PermissionError" in await refused(boxed, f"{sys.executable} -c '{code}'")


@levels(STRONG)
@pytest.mark.usefixtures("a")
async def test_switches_of_the_kernel_cannot_be_opened_for_writing(boxed: Broker, project: Path) -> None:
    (project / "switches.py").write_text(SWITCHES)
    ran = await boxed.run(f"{sys.executable} switches.py", session_id="a")
    assert ran.output == "True []\n"
    ran = await boxed.run("echo x >/dev/null; echo a >/dev/stdout; echo b >/proc/self/fd/1", session_id="a")
    assert (ran.exit_code, ran.output) == (0, "a\nb\n")


@pytest.mark.skipif(BEST != "bubblewrap", reason="bubblewrap does not run here")
def test_nothing_in_bubblewrap_makes_the_switches_writable_again() -> None:
    """Without the filter of system calls, which would refuse all of this."""
    words = bubblewrap.argv(bubblewrap.find() or "", hidden=[], readable=[], writable=[], network=True)
    done = subprocess.run([*words, "--", "python3", "-c", UNDO], capture_output=True, text=True, check=False)
    assert done.stdout in ("unshare 0\n", "unshare -1\n"), done


@levels(STRONG)
async def test_variables_of_a_caller_have_no_effect_outside(boxed: Broker, project: Path, home: Path) -> None:
    """The loader of any program does what these say, also of the one that makes the sandbox."""
    variables = {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(home / "loader")}
    made = await boxed.create_session("bash", name="v", cwd=str(project), sandbox="auto", env=variables)
    ran = await boxed.run("echo $LD_DEBUG", session_id=made.session_id)
    assert ran.output.endswith("libs\n")
    assert os.listdir(home) == []


@pytest.mark.parametrize("boxed", STRONG[1:], indirect=True)
@pytest.mark.usefixtures("a")
async def test_a_debugger_works_where_proc_is_read_only(boxed: Broker) -> None:
    words = "-ex starti -ex 'set {int}$sp = 7' -ex 'print {int}$sp' -ex 'break exit' -ex kill"
    ran = await boxed.run(f"{shutil.which('gdb')} -nx -q -batch {words} /bin/true", session_id="a")
    assert "$1 = 7" in ran.output


@pytest.mark.parametrize("level", STRONG)
@pytest.mark.parametrize("network", [True, False])
async def test_network_is_there_unless_it_is_switched_off(
    level: SandboxLevel, network: bool, state_dir: Path, home: Path, project: Path
) -> None:
    async with a_boxed_broker(level, state_dir, project, sandbox_network=network) as broker:
        await broker.create_session("bash", name="a", cwd=str(project))
        code = 'import socket; s = socket.create_server(("127.0.0.1", 0)); socket.create_connection(s.getsockname())'
        outside = await broker.run("ip -o link 2>/dev/null | wc -l; ls /sys/class/net", session_id="a")
        ran = await broker.run(f"{sys.executable} -c '{code}'", session_id="a")
        if level == "landlock":
            assert (ran.exit_code == 0) == network
        else:  # a loopback of its own
            assert ran.exit_code == 0
            names = (await broker.run("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '", session_id="a")).output
            assert (names.split() == ["lo"]) != network or outside.output.split()[1:] == ["lo"]


# ---- what acts outside of sessions -----------------------------------------------------------------


async def test_agents_do_not_type_into_sessions_without_the_sandbox(state_dir: Path, home: Path) -> None:
    agent = Call(caller="agent")
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash")) as broker:
        await broker.create_session(name="other")
        earlier = (await broker.by("agent").run("echo earlier")).session_id

    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash", sandbox="auto")) as broker:

        async def call(tool: str, **arguments: object) -> Any:
            return await broker.perform(OPERATIONS[tool], arguments, agent)

        for tool, arguments in (("run", {"command": "touch ~/made"}), ("send", {"text": "touch ~/made\n"})):
            for session_id in ({}, {"session_id": "other"}):
                with pytest.raises(PolicyDenied, match="outside the sandbox"):
                    await call(tool, **arguments, **session_id)
        assert os.listdir(home) == []
        assert "earlier" in (await call("read", view="screen")).content
        assert (await broker.run("echo person", session_id="other")).output == "person\n"
        await call("destroy_session", session_id=earlier)
        ran = await call("run", command="grep NoNewPrivs /proc/self/status")
        assert (ran.output, ran.session_id == earlier) == ("NoNewPrivs:\t1\n", False)


async def test_tools_that_act_outside_work_beside_one_session_in_a_sandbox(broker: Broker, project: Path) -> None:
    await broker.create_session("bash", name="a", cwd=str(project), sandbox="auto")
    assert (await broker.perform(OPERATIONS["run_process"], {"argv": ["echo", "x"]}, Call())).stdout == "x\n"


# ---- a terminal like any other ---------------------------------------------------------------------


@levels(LEVELS)
@pytest.mark.usefixtures("a")
async def test_run_is_exact(boxed: Broker, project: Path) -> None:
    ran = await boxed.run("cd / && pwd; seq 20000 | sha256sum; (exit 7)", session_id="a")
    assert (ran.exit_code, ran.cwd, ran.evidence) == (7, "/", "marks")
    assert ran.output.startswith("/\n")
    ran = await boxed.run("history | tail -2", session_id="a")
    assert "sha256sum" in ran.output
    pid = (await boxed.get_session("a")).pid
    assert os.readlink(f"/proc/{pid}/exe").endswith("bash")


@levels(LEVELS)
@pytest.mark.usefixtures("a")
async def test_keys_of_the_terminal_and_job_control(boxed: Broker) -> None:
    await boxed.send("sleep 600", enter=True, session_id="a", wait_for="none")
    await eventually(lambda: is_in_front(boxed, "sleep 600"))
    sent = await boxed.send(key="C-z", session_id="a")
    assert sent.result
    assert "Stopped" in sent.result.content
    await boxed.send("fg", enter=True, session_id="a", wait_for="none")
    await eventually(lambda: is_in_front(boxed, "sleep 600"))
    sent = await boxed.send(key="C-c", session_id="a")
    assert (await boxed.run("echo here $?", session_id="a")).output == "here 130\n"
    await eventually(lambda: mode_is(boxed, "a", "shell_prompt"))


async def mode_is(broker: Broker, session_id: str, mode: str) -> bool:
    return (await broker.registry.sessions[session_id].look()).mode == mode


async def is_in_front(broker: Broker, command: str, session_id: str = "a") -> bool:
    found = (await broker.registry.sessions[session_id].look()).foreground
    return found is not None and found.command == command


@levels(LEVELS)
@pytest.mark.usefixtures("a")
async def test_secrets_sizes_and_the_terminal_itself(boxed: Broker) -> None:
    sent = await boxed.send("read -s word; echo got ${#word}", enter=True, session_id="a")
    assert sent.result
    assert (sent.result.mode, sent.result.evidence) == ("password", "kernel")
    sent = await boxed.send("12345", enter=True, session_id="a")
    assert sent.result
    assert "got 5" in sent.result.content
    ran = await boxed.run("echo to the terminal >/dev/tty; [ -t 0 ] && stty size", session_id="a")
    assert ran.output == "to the terminal\n24 80\n"
    await boxed.run("trap 'echo changed' WINCH", session_id="a")
    await boxed.resize(rows=31, cols=101, session_id="a")
    assert (await boxed.run("stty size", session_id="a")).output.endswith("31 101\n")


@levels(LEVELS)
@pytest.mark.usefixtures("a")
async def test_full_screen_programs_and_programs_of_their_own(boxed: Broker, project: Path) -> None:
    sent = await boxed.send(f"{shutil.which('vim')} -u NONE -i NONE file", enter=True, session_id="a")
    assert sent.result
    assert (sent.result.mode, sent.result.evidence) == ("editor", "kernel")
    await boxed.send("iwritten", keys=["Escape"], session_id="a")
    await boxed.send(":wq", enter=True, session_id="a")
    assert (project / "file").read_text() == "written\n"
    made = await boxed.create_session(
        "python3", ["-q", "-i"], name="p", cwd=str(project), sandbox="auto", wait_ready=True
    )
    assert (made.ready, (await boxed.get_session("p")).mode) == (True, "line_input")
    sent = await boxed.send("import time; time.sleep(600)", enter=True, session_id="p", wait_for="none")
    await eventually(lambda: mode_is(boxed, "p", "running"))
    sent = await boxed.send(key="C-c", session_id="p")
    assert sent.result
    assert "KeyboardInterrupt" in sent.result.content
    await boxed.send("raise SystemExit(3)", enter=True, session_id="p", wait_for="exit")
    facts = await boxed.get_session("p")
    assert (facts.exit_code, facts.exit_signal) == (3, None)


# ---- beginning and end -----------------------------------------------------------------------------


@levels(LEVELS)
@pytest.mark.usefixtures("a")
async def test_all_of_it_ends(boxed: Broker, project: Path) -> None:
    command = "env -i setsid sh -c 'trap \"\" HUP TERM; sleep 600; true' </dev/null >/dev/null 2>&1 &"
    await boxed.run(command, session_id="a")
    session = boxed.registry.sessions["a"]
    await eventually(lambda: len(process_tree(session)) >= 3)
    pids = process_tree(session)
    ended = await boxed.destroy_session("a", grace_ms=100)
    assert ended.survivors == []
    assert [pid for pid in pids if alive(pid)] == []


@levels(LEVELS)
async def test_death_by_signal_is_told(boxed: Broker, project: Path) -> None:
    await boxed.create_session("sleep", ["600"], name="s", cwd=str(project), sandbox="auto", wait_ready=False)
    await eventually(lambda: is_in_front(boxed, "sleep 600", "s"))  # what begins may not heed SIGTERM yet
    ended = await boxed.destroy_session("s")
    assert (ended.exit_code, ended.exit_signal, ended.survivors) == (None, "TERM", [])


@levels(LEVELS)
async def test_a_signal_that_ends_a_shell_gives_its_command_no_exit_code(boxed: Broker, project: Path) -> None:
    for number, command in enumerate(("kill -HUP $$", "kill -PIPE $$")):
        await boxed.create_session("bash", name=f"s{number}", cwd=str(project), sandbox="auto")
        ended = await boxed.run(command, session_id=f"s{number}")
        assert (ended.outcome, ended.completed, ended.exit_code) == ("exited", False, None)
        assert command.split()[1][1:] in (ended.note or "")


@levels(LEVELS)
async def test_short_program(boxed: Broker, project: Path) -> None:
    for number in range(5):
        name = f"s{number}"
        made = await boxed.create_session("echo", ["said"], name=name, cwd=str(project), sandbox="auto")
        assert made.pid
        read = await boxed.read(session_id=name, wait_for="exit")
        assert (read.outcome, read.exit_code, read.content) == ("exited", 0, "said\n")


@levels(STRONG)
async def test_program_that_the_sandbox_hides(boxed: Broker, tmp_path: Path, project: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    with pytest.raises(ProgramNotFound):
        await boxed.create_session(str(program), cwd=str(project), sandbox="auto")


# ---- where it may work -----------------------------------------------------------------------------


@pytest.fixture
def places(home: Path, tmp_path: Path) -> Path:
    """A home directory with what must not be written to, and projects; and ways that lead there."""
    for name in (".ssh", ".config/tmuxmcp", ".local/bin", ".zsh.d", "bin", "proj/.git", "proj/sub", "dots/emacs"):
        (home / name).mkdir(parents=True)
    (home / ".emacs.d").symlink_to("dots/emacs")
    (home / "proj" / "keys").symlink_to("../.ssh")
    (tmp_path / "way").symlink_to(home)
    (home / ".bashrc").write_text("")
    return home


CLOSED = ("~/.ssh", "~/.config/tmuxmcp", "~/.config", "~/.local/bin", "~/.zsh.d", "~/bin", "~/dots/emacs", "~/dots")
CLOSED += ("~", "~/..", "~/proj/..", "~/proj/keys", "~/proj/../.ssh", "~/../way/.ssh", "~/../way")
CLOSED += ("/", "/etc", "/usr", "/usr/share", "/dev", "/dev/shm", "/proc", "/sys", "/run", "/var", "/var/log", "/home")
CLOSED += ("/tmp", "/var/tmp", sys.prefix, f"{sys.prefix}/bin", os.path.dirname(sandbox.__file__))


def real(path: str) -> str:
    return os.path.realpath(os.path.expanduser(path))


@levels(LEVELS)
@pytest.mark.usefixtures("other")
async def test_places_in_which_no_sandbox_works(boxed: Broker, places: Path, state_dir: Path) -> None:
    before = len((await boxed.list_sessions()).sessions)
    user = pwd.getpwuid(os.geteuid()).pw_dir
    ours = (state_dir, state_dir.parent, state_dir / "sessions", state_dir / "sessions" / "other")
    for cwd in (*CLOSED, user, *map(str, ours)):
        with pytest.raises(PolicyDenied, match="cannot work in") as denied:
            await boxed.create_session("bash", cwd=cwd, sandbox="auto")
        assert "Give the directory of a project" in denied.value.hint
    assert len((await boxed.list_sessions()).sessions) == before


@levels(LEVELS)
async def test_projects_in_which_a_sandbox_works(boxed: Broker, places: Path, project: Path) -> None:
    projects = ("~/proj", "~/proj/.git", "~/proj/sub/../../proj/sub", "~/../way/proj", str(project))
    for number, cwd in enumerate(projects):
        made = await boxed.create_session("bash", name=f"s{number}", cwd=cwd, sandbox="auto")
        assert made.cwd == real(cwd)
        ran = await boxed.run("echo x >file; cat file", session_id=made.session_id)
        assert (ran.output, ran.note) == ("x\n", None)
        assert "file" in os.listdir(made.cwd)


@levels(STRONG)
async def test_settings_tokens_and_modules_are_no_project(
    boxed: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = [tmp_path / name for name in ("settings", "tokens", "programs", "modules", "links", "outside")]
    for path in work:
        (path / "sub").mkdir(parents=True)
    settings, tokens, programs, modules, links, outside = work
    (outside / "sub" / "config.toml").write_text("")
    (links / "config.toml").symlink_to(outside / "sub" / "config.toml")
    own = (settings / "config.toml", tokens / "sub" / "tokens", links / "config.toml")
    monkeypatch.setattr(boxed.boundary, "settings", replace(boxed.settings, own_files=own))
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{programs}/sub")
    monkeypatch.syspath_prepend(str(modules))
    for path in (*work, outside / "sub", tokens / "sub", programs / "sub"):
        with pytest.raises(PolicyDenied):
            await boxed.create_session("bash", cwd=str(path), sandbox="auto")
    for path in (settings / "sub", modules / "sub"):
        await boxed.create_session("true", cwd=str(path), sandbox="auto")


@levels(STRONG)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can bind")
async def test_another_mount_of_a_closed_place_is_closed(boxed: Broker, places: Path, tmp_path: Path) -> None:
    (tmp_path / "mount").mkdir()
    if subprocess.call(["mount", "--bind", places / ".ssh", tmp_path / "mount"]):  # noqa: ASYNC221 - as fast as anything
        pytest.skip("this root cannot mount")
    try:
        with pytest.raises(PolicyDenied, match=r"\.ssh"):
            await boxed.create_session("bash", cwd=str(tmp_path / "mount"), sandbox="auto")
    finally:
        subprocess.call(["umount", "--lazy", tmp_path / "mount"])  # noqa: ASYNC221


@pytest.mark.parametrize("boxed", STRONG, indirect=True)
@pytest.mark.parametrize("moved", ["proj", "proj/sub"])
async def test_what_is_put_in_place_of_a_judged_project_is_not_bound(
    boxed: Broker, places: Path, monkeypatch: pytest.MonkeyPatch, moved: str
) -> None:
    (places / ".ssh" / "sub").mkdir()

    def judged_and_then_moved(path: str, ours: list[str]) -> Project:
        found = judge(path, ours)
        (places / moved).rename(places / "elsewhere")
        (places / moved).symlink_to(places / ".ssh")
        return found

    monkeypatch.setattr(bounds, "judge", judged_and_then_moved)
    with pytest.raises(Unsupported, match="something else has been put in its place"):
        await boxed.create_session("touch", ["made"], cwd=str(places / "proj" / "sub"), sandbox="auto")
    assert sorted(os.listdir(places / ".ssh")) == ["sub"]


@pytest.mark.parametrize("level", LEVELS)
async def test_without_a_project_a_session_works_in_a_directory_of_its_own(
    level: SandboxLevel, state_dir: Path, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "best", lambda: level)
    monkeypatch.chdir(places)
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash", sandbox="auto")) as broker:
        ran = await broker.run("echo x >file; ls; pwd")
        assert ran.output == f"file\n{ran.cwd}\n"
        assert Path(ran.cwd or "").is_relative_to(real(f"{state_dir}/sessions/{ran.session_id}"))
        assert f"cannot work in {places}" in (ran.note or "")
        made = await broker.create_session()
        assert "an empty directory of its own" in (made.note or "")
        assert (await broker.run("ls; pwd", session_id=made.session_id)).output == f"{made.cwd}\n"
        assert made.cwd != ran.cwd
        with pytest.raises(PolicyDenied):
            await broker.create_session(cwd=".")


@levels(STRONG)
async def test_a_link_in_sandbox_write_leads_to_no_closed_place(
    boxed: Broker, places: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session may have made it, in an earlier project."""
    listed = (str(places / "proj" / "keys"),)
    monkeypatch.setattr(boxed.boundary, "settings", replace(boxed.settings, sandbox_write=listed))
    with pytest.raises(PolicyDenied, match="sandbox_write leads to"):
        await boxed.create_session("bash", cwd=str(project), sandbox="auto")
    (places / "proj" / "keys").unlink()
    (places / "proj" / "keys").symlink_to("sub")
    made = await boxed.create_session("bash", cwd=str(project), sandbox="auto")
    await boxed.run(f"echo x >{places}/proj/sub/file", session_id=made.session_id)
    assert (places / "proj" / "sub" / "file").read_text() == "x\n"


# ---- what the settings say -------------------------------------------------------------------------


async def test_a_caller_cannot_get_out_of_what_the_settings_say(state_dir: Path, home: Path, project: Path) -> None:
    settings = BrokerSettings(state_dir=state_dir, sandbox="auto", sandbox_roots=(str(project),))
    async with Broker.open(settings) as broker:
        await broker.create_session("bash", name="a", cwd=str(project), sandbox="none")
        assert (await broker.get_session("a")).sandbox == BEST


async def test_without_a_sandbox_it_says_so(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    assert (await broker.get_session("a")).sandbox == "none"


def test_filter_is_known_for_these_machines() -> None:
    for machine in seccomp.MACHINES:
        code = seccomp.program(unix_sockets=False, network=False, attach=False, machine=machine)
        assert code
        assert len(code) % 8 == 0
        assert len(code) // 8 < 4096
    calls = [
        seccomp.program(unix_sockets=True, network=True, attach=True, truncate=allowed) or b""
        for allowed in (True, False)
    ]
    assert len(calls[1]) == len(calls[0]) + 16
    assert seccomp.program(unix_sockets=True, network=True, attach=True, machine="vax") is None
