"""From each level of sandbox, also as root: no setting of the kernel, no new namespace, no call that leads outside."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import eventually
from tests.kit.limits import needs
from tests.kit.sandboxes import BEST, LEVELS, a_boxed_broker, levels
from tests.kit.sources import PACKAGE
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import Unsupported
from tmuxmcp.contract.settings import Limits, SandboxLevel
from tmuxmcp.machine.sandbox import bubblewrap, landlock, sandbox, seccomp

CALLS = r"""
import ctypes, errno, json, mmap, os, platform, signal, socket, fcntl, sys
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
NUMBERS = {
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "kexec_load": (246, 104), "init_module": (175, 105), "reboot": (169, 142),
    "open_by_handle_at": (304, 265), "kcmp": (312, 272), "syslog": (103, 116), "kexec_file_load": (320, 294),
    "finit_module": (313, 273), "delete_module": (176, 106), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443), "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "pidfd_getfd": (438, 438), "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
}
def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(each) for each in (*arguments, *(0,) * 6)[:6]))
    return errno.errorcode.get(ctypes.get_errno(), "?") if result == -1 else "done"
found = {name: call(numbers[0 if x86 else 1], -1, -1, -1, -1, -1) for name, numbers in NUMBERS.items()}
NEW = {"user": 0x10000000, "mount": 0x20000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x8000000, "uts": 0x4000000,
       "cgroup": 0x2000000}
for name, flag in NEW.items():
    found["new " + name] = call(272 if x86 else 97, flag)
    found["clone " + name] = call(56 if x86 else 220, flag)
found["clone3"] = call(435, 0, 0)
for family in sorted({*range(50)} - {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK}):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try:
            socket.socket(family, kind).close()
            found[f"socket {family} {int(kind)}"] = "done"
        except OSError as error:
            found[f"socket {family} {int(kind)}"] = errno.errorcode[error.errno]
for name, number in (("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C), ("TIOCSETD", 0x5423), ("userfaultfd", 0xAA00)):
    try:
        fcntl.ioctl(0, number, bytes(4))
        found[name] = "done"
    except OSError as error:
        found[name] = errno.errorcode[error.errno]
if x86:
    found["x32 getpid"] = call(0x40000000 + 39)
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex("b814000000" "cd80" "c3"))  # getpid by int 0x80, as 32-bit programs call
    getpid = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    if (child := os.fork()) == 0:
        os._exit(getpid() > 0)
    found["int 0x80"] = signal.Signals(-os.waitstatus_to_exitcode(os.wait()[1])).name
json.dump(found, open("found.json", "w"))
"""

WORKS = r"""
import mmap, os, select, signal, socket, subprocess, threading
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
socket.socketpair()[0].close()
assert subprocess.run(["sh", "-c", "echo $(echo child)"], capture_output=True, text=True).stdout == "child\n"
thread = threading.Thread(target=lambda: None); thread.start(); thread.join()
if os.fork() == 0:
    os._exit(7)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
select.epoll().close()
mmap.mmap(-1, 4096).close()
open("file", "w").write("x"); os.rename("file", "other"); os.truncate("other", 0); os.unlink("other")
os.pidfd_open(os.getpid())
import asyncio, multiprocessing, getpass
async def children():
    child = await asyncio.create_subprocess_exec("echo", "child", stdout=subprocess.PIPE)
    assert (await child.communicate())[0] == b"child\n"
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    assert await reader.read() == b""
asyncio.run(children())
assert socket.if_nameindex() and socket.getaddrinfo("localhost", 80)
print("all", "works")
"""

WHO = "-c user.name=a -c user.email=b"

TRACE = r"""
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
TRACEME, PEEK, CONT, ATTACH = 0, 1, 7, 16
child = os.fork()
if child == 0:
    libc.ptrace(TRACEME, 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(3)
os.waitpid(child, 0)
print("own", libc.ptrace(CONT, child, None, None), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print("other", libc.ptrace(ATTACH, int(sys.argv[1]), None, None))
"""


OTHERS = r"""
import ctypes, json, os, platform, resource, sys
libc = ctypes.CDLL(None, use_errno=True)
READV, WRITEV = (310, 311) if platform.machine() == "x86_64" else (270, 271)
ATTACH, SEIZE, PIDFD_GETFD = 16, 0x4206, 438
found = []
def attack(name, action):
    try:
        if action() != -1:
            found.append(f"{name} of {which}")
    except OSError:
        pass
for which, pid in zip(("session", "launcher", "server", "outside"), map(int, sys.argv[1:])):
    for name in ("mem", "environ", "maps", "auxv"):
        attack(name, lambda: os.close(os.open(f"/proc/{pid}/{name}", os.O_RDONLY)))
    attack("mem writing", lambda: os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR)))
    for name in ("cwd", "root", "exe", "fd/0"):
        attack(name, lambda: os.readlink(f"/proc/{pid}/{name}"))
    for name in ("oom_score_adj", "clear_refs", "comm"):
        attack(name, lambda: os.close(os.open(f"/proc/{pid}/{name}", os.O_WRONLY)))
    for request in (ATTACH, SEIZE):
        attack(f"ptrace {request}", lambda: libc.ptrace(request, pid, None, None))
    attack("kill", lambda: os.kill(pid, 0))
    attack("prlimit", lambda: resource.prlimit(pid, resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE)))
    space = ctypes.create_string_buffer(16)
    vector = (ctypes.c_void_p * 2)(ctypes.addressof(space), 16)
    for call in (READV, WRITEV):
        attack(f"process_vm {call}", lambda: libc.syscall(call, pid, vector, 1, vector, 1, 0))
    attack("pidfd_getfd", lambda: libc.syscall(PIDFD_GETFD, os.pidfd_open(pid), 0, 0))
resource.prlimit(0, resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE))
assert resource.prlimit(os.getpid(), resource.RLIMIT_CORE) == (0, 0)
json.dump(found, open("found.json", "w"))
"""
"""Opens, and changes nothing, of other processes; then reads and sets limits of its own."""


@pytest.fixture
async def boxed(
    anyio_backend: str, state_dir: Path, home: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Broker]:
    """A broker whose sandbox is of this level, with a session `a` in `project`."""
    project = tmp_path / "project"
    project.mkdir()
    for name, text in (("calls.py", CALLS), ("works.py", WORKS), ("trace.py", TRACE), ("others.py", OTHERS)):
        (project / name).write_text(text)
    async with a_boxed_broker(request.param, state_dir, project) as broker:
        await broker.create_session(name="a", cwd=str(project))
        yield broker


async def run(broker: Broker, command: str) -> Any:
    return await broker.run(command, session_id="a", timeout_ms=50_000)


@levels(LEVELS)
async def test_calls_that_lead_outside_are_refused_by_name(boxed: Broker, tmp_path: Path) -> None:
    ran = await run(boxed, f"{sys.executable} calls.py")
    assert ran.exit_code == 0, ran.output
    found = json.loads((tmp_path / "project" / "found.json").read_text())
    assert len(found) > 240
    other = {"clone3": "ENOSYS", "x32 getpid": "ENOSYS", "int 0x80": "SIGSYS"}
    assert found == {name: other.get(name, "EPERM") for name in found}


@levels(LEVELS)
async def test_what_programs_do_every_day_works(boxed: Broker) -> None:
    ran = await run(boxed, f"{sys.executable} works.py")
    assert ran.output == "all works\n"
    for program, command in (
        ("git", f"git init -q r && git -C r {WHO} commit -qm 1 --allow-empty && git -C r log --format=%s"),
        ("node", 'node -e \'require("child_process").exec("echo 1", (e, out) => process.stdout.write(out))\''),
        ("gcc", "echo 'int main(){return 0;}' >c.c && gcc -o c c.c && ./c && echo 1"),
        ("less", "echo 1 | less -FX"),
        ("tar", "mkdir t && echo 1 >t/f && tar cf t.tar t && rm -r t && tar xf t.tar && cat t/f"),
    ):
        if shutil.which(program):
            ran = await run(boxed, command)
            assert (ran.exit_code, ran.output) == (0, "1\n"), command


@levels(LEVELS)
async def test_a_debugger_has_its_own_children_and_nobody_else(boxed: Broker) -> None:
    """Its own by ptrace, gdb and strace; a process of the same user outside stays out of reach."""
    outside = subprocess.Popen(["sleep", "600"])  # noqa: ASYNC220 - as fast as anything
    try:
        ran = await run(boxed, f"{sys.executable} trace.py {outside.pid}")
        assert ran.output == "own 0 3\nother -1\n"
        if gdb := shutil.which("gdb"):
            words = "-ex 'set breakpoint pending on' -ex 'break write' -ex run -ex 'print 40 + 2' -ex kill"
            ran = await run(
                boxed, f"{gdb} -nx -q -batch {words} --args /bin/echo said; {gdb} -nx -batch -p {outside.pid}"
            )
            assert "Breakpoint 1, " in ran.output
            assert "$1 = 42" in ran.output
            assert "ptrace" in ran.output or "No such process" in ran.output or "not permitted" in ran.output
        if strace := shutil.which("strace"):
            ran = await run(boxed, f"{strace} -f -o trace sh -c 'echo said; (exit 3)'; grep -c 'write(1, \"said' trace")
            assert ran.output == "said\n1\n"
            ran = await run(boxed, f"timeout 20 {strace} -p {outside.pid}")
            assert ran.exit_code == 1
        assert outside.poll() is None
    finally:
        outside.kill()
        outside.wait()


@levels(LEVELS)
async def test_no_process_outside_is_read_changed_or_stopped(boxed: Broker, tmp_path: Path) -> None:
    """Another session of the same level, our own launcher, the tmux server, and one that has nothing to do with us.

    `limits` keeps only the calls away that a filter can refuse.
    """
    await boxed.create_session("sleep", ["600"], name="b", cwd=str(tmp_path / "project"), wait_ready=False)
    other, own = boxed.registry.sessions["b"], boxed.registry.sessions["a"]
    outside = subprocess.Popen(["sleep", "600"])  # noqa: ASYNC220 - as fast as anything
    try:
        pids = [(await boxed.get_session("b")).pid, own.pane.leader, boxed.registry.tmux.pid, outside.pid]
        ran = await run(boxed, f"{sys.executable} others.py {' '.join(map(str, pids))}")
        assert ran.exit_code == 0, ran.output
        found = set(json.loads((tmp_path / "project" / "found.json").read_text()))
        level = other.bounds.sandbox
        if level == "limits":
            calls = ("ptrace", "process_vm", "pidfd_getfd", "prlimit")
            assert {name for name in found if name.startswith(calls)} == set()
        else:
            signals = {f"kill of {each}" for each in ("session", "launcher", "server", "outside")}
            assert found == (signals if level == "landlock" and landlock.version() < 6 else set())
    finally:
        outside.kill()
        outside.wait()


@pytest.mark.skipif(BEST != "bubblewrap", reason="bubblewrap does not run here")
@pytest.mark.parametrize("boxed", ["bubblewrap"], indirect=True)
async def test_namespaces_are_its_own_and_the_kernels_files_are_masked(boxed: Broker) -> None:
    for kind in ("user", "mnt", "pid", "ipc", "uts"):
        ran = await run(boxed, f"readlink /proc/self/ns/{kind}")
        assert ran.output.strip() != os.readlink(f"/proc/self/ns/{kind}"), kind
    assert (await run(boxed, "cat /proc/self/uid_map")).output.split()[2] == "1"
    masked = [path for path in bubblewrap.MASKED_PATHS if os.path.exists(path)]  # noqa: ASYNC240
    assert masked
    for path in masked:
        look = "ls -A" if os.path.isdir(path) else "cat"  # noqa: ASYNC240
        ran = await run(boxed, f"{look} {path}")
        assert (ran.exit_code, ran.output) == (0, ""), path
        await run(boxed, f"echo x >{path}/x; echo x >{path}")
    ran = await run(
        boxed, "cat /proc/meminfo /proc/cpuinfo | grep -c . && ls /sys/class | grep -c . && ps | grep -c ps"
    )
    assert ran.exit_code == 0, ran.output


@pytest.mark.skipif(BEST != "bubblewrap", reason="bubblewrap does not run here")
def test_no_user_namespace_is_made_within_even_without_the_filter() -> None:
    bwrap = bubblewrap.find() or ""
    if "--disable-userns" not in bubblewrap.argv(bwrap, hidden=[], readable=[], writable=[], network=True):
        pytest.skip("this bubblewrap knows no such option")
    words = bubblewrap.argv(bwrap, hidden=[], readable=[], writable=[], network=True)
    done = subprocess.run([*words, "--", "unshare", "-U", "true"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "unshare failed" in done.stderr


# ---- limits --------------------------------------------------------------------------------------

HOG = r"""
import glob, json, os, resource, signal, sys, time
found, children = {}, []
def refused(action):
    try:
        action()
        return False
    except (OSError, ValueError):
        return True
def write(path, text):
    with open(path, "w") as file:
        file.write(text)
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
found["raised"] = not refused(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most + 1, most + 1)))
groups = [f"/sys/fs/cgroup/*{line.rpartition(':')[2].strip()}" for line in open("/proc/self/cgroup")]
files = [path for top in groups for name in ("pids.max", "memory.max", "memory.limit_in_bytes", "cgroup.procs")
         for path in glob.glob(f"{top}/{name}")]
found["opened"] = [path for path in files if not refused(lambda: os.close(os.open(path, os.O_WRONLY)))]
opened = []
refused(lambda: [opened.append(os.open("/dev/null", os.O_RDONLY)) for _ in range(500)])
found["descriptors"] = len(opened)
for fd in opened:
    os.close(fd)
if (child := os.fork()) == 0:
    try:
        hog = [b"x" * (1 << 20) for _ in range(300)]
    except MemoryError:
        os._exit(1)
    os._exit(0)
found["memory"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
try:
    for _ in range(150):
        if (child := os.fork()) == 0:
            time.sleep(600)
        children.append(child)
except OSError:
    pass
found["children"] = len(children)
write("hog.json.new", json.dumps(found))
os.rename("hog.json.new", "hog.json")
input()
for child in children:
    os.kill(child, signal.SIGKILL)
"""
"""Takes more memory, descriptors and processes than it may, 150 at most, and holds the processes until Enter."""


@needs("pids")
@needs("memory")
@levels(LEVELS)
async def test_who_takes_all_that_its_limits_allow_stops_nobody_else(boxed: Broker, tmp_path: Path) -> None:
    """And does not get out of them, but at the level `limits`, where root's group can be written to."""
    (tmp_path / "project" / "hog.py").write_text(HOG)
    limits = Limits(processes=50, memory_mb=64, open_files=64)
    await boxed.create_session("bash", name="b", cwd=str(tmp_path / "project"), limits=limits)
    await boxed.send(f"{sys.executable} -IS hog.py", enter=True, session_id="b", wait_for="none")
    told = tmp_path / "project" / "hog.json"
    await eventually(told.exists, 30)
    found = json.loads(told.read_text())
    ran = await run(boxed, "(echo fine); (exit 3)")
    assert (ran.output, ran.exit_code) == ("fine\n", 3)
    assert found["memory"] in (1, -9)
    assert 10 < found["children"] < 50
    assert 10 < found["descriptors"] < 64
    assert not found["raised"]
    assert found["opened"] == [] or boxed.registry.sessions["b"].bounds.sandbox == "limits"
    await boxed.send("", enter=True, session_id="b", wait_for="ready", timeout_ms=20_000)
    assert (await boxed.run("(echo after)", session_id="b", timeout_ms=50_000)).output == "after\n"
    assert (await boxed.destroy_session("b", force=True)).survivors == []


# ---- what is told --------------------------------------------------------------------------------


FORBIDS = {
    "no user namespaces are left": (
        "echo 0 >/proc/sys/user/max_user_namespaces",
        r"ENOSPC\); user\.max_user_namespaces is 0\)",
        "sysctl -w user.max_user_namespaces",
    ),
    "a container masks parts of /proc": (
        "mount --bind /dev/null /proc/version",
        "Can't mount proc .*; parts of /proc are masked here",
        "systempaths=unconfined",
    ),
}
"""What a person or an engine does to a machine: the text that does it, what is told then, and how it is allowed."""

LOOK = """
import json, sys
from tmuxmcp.broker.admission import _confinement
from tmuxmcp.faces.cli.doctor import check_sandbox
from tmuxmcp.contract.errors import Unsupported
from tmuxmcp.machine.sandbox import sandbox
def refusal():
    try:
        return sandbox.choose("required")
    except Unsupported as error:
        return [error.message, error.hint]
health = {wish: [[each.ok, each.message] for each in _confinement(wish) if each.name == "sandbox"][0]
          for wish in ("none", "auto", "required")}
doctor = {wish: [check_sandbox(wish).ok, check_sandbox(wish).message] for wish in health}
json.dump([sandbox.best(), sandbox.choose("auto"), refusal(), health, doctor], sys.stdout)
"""


def look_where(forbid: str) -> Any:
    """What a process tells of its machine, in namespaces in which somebody has forbidden more of them."""
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", f'{forbid} && exec "$@"', "sh"]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine makes no namespaces in which that can be forbidden")
    done = subprocess.run([*words, sys.executable, "-c", LOOK], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.skipif(BEST != "bubblewrap", reason="bubblewrap does not run here")
@pytest.mark.parametrize("how", FORBIDS)
def test_where_the_machine_forbids_namespaces_required_is_refused_and_auto_says_so(how: str) -> None:
    forbid, reason, allow = FORBIDS[how]
    best, auto, refusal, health, doctor = look_where(forbid)
    assert best == auto == ("landlock" if landlock.version() else "limits")
    message, hint = refusal
    assert re.search(rf"^sandbox=required: namespaces cannot be made here \(.*{reason}", message), message
    assert allow in hint
    assert f"level {best}" in hint
    for wish, (ok, told) in health.items():
        assert doctor[wish][0] == ok
        assert doctor[wish][1].startswith(told)  # and what sessions can do where none is asked for
    for wish in ("none", "auto", "required"):
        ok, told = health[wish]
        assert ok == (wish != "required")
        assert re.search(rf"^{best}: namespaces cannot be made here \(.*{reason}.*sandbox=required is refused", told)


@levels(LEVELS)
async def test_within_a_sandbox_no_better_one_than_landlock_is_promised(boxed: Broker, tmp_path: Path) -> None:
    """A tmuxmcp that runs within: what is told there is tried there, under the filter of system calls."""
    (tmp_path / "project" / "look.py").write_text(LOOK)
    package = PACKAGE  # of a place that may be hidden within
    shutil.copytree(package, tmp_path / "project" / "tmuxmcp")
    ran = await run(boxed, f"{sys.executable} look.py >look.json")
    assert ran.exit_code == 0, ran.output
    best, auto, refusal, _, _ = json.loads((tmp_path / "project" / "look.json").read_text())
    assert best == auto == ("landlock" if landlock.version() else "limits")
    if bubblewrap.find():
        assert "a filter of system calls is in force here" in refusal[0]


async def test_required_takes_nothing_less_than_namespaces(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    for level in ("limits", "landlock"):
        monkeypatch.setattr(sandbox, "best", lambda level=level: level)
        with pytest.raises(Unsupported, match="sandbox=required") as refused:
            await broker.create_session("bash", sandbox="required")
        assert f"level {level}" in refused.value.hint
    assert (await broker.list_sessions()).sessions == []


@pytest.mark.parametrize("level", LEVELS)
async def test_required_lets_agents_type_into_nothing_less_than_namespaces(level: SandboxLevel) -> None:
    assert sandbox.meets(level, "required") == (level == "bubblewrap")
    assert sandbox.meets(level, "auto")


@levels(LEVELS)
async def test_a_session_made_with_auto_names_its_level(boxed: Broker, tmp_path: Path) -> None:
    made = await boxed.create_session("bash", cwd=str(tmp_path / "project"))
    level = (await boxed.get_session(made.session_id)).sandbox
    told = {"limits": "keeps no files apart", "landlock": "no namespaces of its own", "bubblewrap": ""}[level]
    assert told in (made.note or "")
    assert (made.note is None) == (level == "bubblewrap")


def test_without_a_filter_of_system_calls_required_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine whose numbers of system calls are not known."""
    monkeypatch.setattr(seccomp, "MACHINES", {})
    assert sandbox.best() == ("bubblewrap" if BEST == "bubblewrap" else "limits")
    assert "no filter of system calls is known for" in sandbox.describe()
    with pytest.raises(Unsupported, match="sandbox=required: no filter of system calls") as refused:
        sandbox.choose("required", "bubblewrap")
    assert "can set sandbox=auto" in refused.value.hint


def test_where_bubblewrap_is_not_installed_the_person_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match="sandbox=required: bubblewrap is not installed") as refused:
        sandbox.choose("required")
    assert "can install bubblewrap" in refused.value.hint
    assert sandbox.choose("auto") == ("landlock" if landlock.version() else "limits")


def test_a_machine_too_busy_to_answer_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "bwrap"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n[ -e {tmp_path}/quiet ] || exec sleep 600\necho within\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(bubblewrap, "PROBE_S", 0.2)
    assert "gave no answer within 0.2 s" in sandbox.why_no_bubblewrap()
    monkeypatch.setattr(bubblewrap, "PROBE_S", 60)
    (tmp_path / "quiet").touch()
    assert sandbox.why_no_bubblewrap() == ""


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_the_filter_lets_known_kinds_of_sockets_through_and_no_others(machine: str) -> None:
    for unix, network in ((True, True), (True, False), (False, True), (False, False)):
        code = seccomp.program(unix_sockets=unix, network=network, attach=True, machine=machine) or b""
        assert len(code) % 8 == 0
        number = seccomp.MACHINES[machine].socket
        let = {family for family in range(64) if verdict(code, machine, number, family) == "allow"}
        assert let == ({1} if unix else set()) | ({2, 10, 16} if network else set())


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_the_filter_refuses_new_limits_for_others(machine: str) -> None:
    code = seccomp.program(unix_sockets=True, network=True, attach=True, limits_of_others=False, machine=machine)
    number = seccomp.MACHINES[machine].prlimit
    for pid, new, said in ((0, 0, "allow"), (0, 1 << 40, "allow"), (7, 0, "allow"), (7, 8, "refuse")):
        assert verdict(code or b"", machine, number, pid, 0, new) == said
    assert verdict(code or b"", machine, number, 7, 0, 1 << 40) == "refuse"
    free = seccomp.program(unix_sockets=True, network=True, attach=True, machine=machine)
    assert verdict(free or b"", machine, number, 7, 0, 8) == "allow"


def verdict(code: bytes, machine: str, number: int, *arguments: int) -> str:
    """What the kernel would make of a call, for machines that are not this one: the few instructions that we use."""
    given = (*arguments, *(0,) * 6)[:6]
    data = struct.pack("<iIQ6Q", number, seccomp.MACHINES[machine].audit, 0, *given)
    value, at = 0, 0
    while True:
        what, if_true, if_false, operand = struct.unpack_from("<HBBI", code, at * 8)
        at += 1
        match what:
            case 0x20:
                (value,) = struct.unpack_from("<I", data, operand)
            case 0x06:
                return {0x7FFF0000: "allow", 0x00050001: "refuse"}[operand]
            case 0x15 | 0x35 | 0x45:
                true = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[what]
                at += if_true if true else if_false
