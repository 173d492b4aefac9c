"""What the kernel's facts mean, as a table of recorded ones."""

from __future__ import annotations

from tests.kit.cases import for_each
from tmuxmcp.machine.witness.kernel import InputWait, KernelFacts, Process, judge

READ, POLL, EPOLL = "wait_woken", "poll_schedule_timeout", "do_epoll_wait"
LINES, SECRETS, KEYS = (True, True), (True, False), (False, False)
"""Of the terminal: canonical, echo."""


def process(name: str, channel: str | None = None, at: bool | None = None, state: str = "S", **more: object) -> Process:
    return Process(1, name, state, channel, at, **more)  # type: ignore[arg-type]


def at_tty(name: str, channel: str = READ, **more: object) -> Process:
    return process(name, channel, True, **more)


def asleep(name: str, channel: str = "do_wait") -> Process:
    return process(name, channel, False)


def computing(name: str, state: str = "R") -> Process:
    return process(name, state=state)


RECORDED = [
    # line editors and what draws the screen
    ("bash", KEYS, [at_tty("bash", POLL)], "editor", "bash"),
    ("zsh", KEYS, [at_tty("zsh")], "editor", "zsh"),
    ("node", KEYS, [at_tty("node", EPOLL)], "editor", "node"),
    ("man", KEYS, [asleep("man"), at_tty("less")], "editor", "less"),
    ("git log", KEYS, [asleep("git"), at_tty("less")], "editor", "less"),
    ("git commit", KEYS, [asleep("git"), asleep("sh"), at_tty("vim", POLL)], "editor", "vim"),
    ("find | less", KEYS, [computing("find"), at_tty("less")], "editor", "less"),
    ("fzf reads in a thread", KEYS, [asleep("seq", "pipe_write"), at_tty("fzf", main=False)], "editor", "fzf"),
    ("fzf still matches", KEYS, [computing("fzf")], "busy", "fzf"),
    ("who polls is not known", KEYS, [process("less", POLL)], "editor", "less"),
    ("mc has a terminal inside", KEYS, [at_tty("mc", POLL, relay=True)], "editor", "mc"),
    ("raw mode, a timer", KEYS, [asleep("watch", "hrtimer_nanosleep")], "busy", "watch"),
    ("raw mode, a socket", KEYS, [asleep("game", POLL)], "busy", "game"),
    ("raw mode, waits for a child", KEYS, [asleep("python3")], "busy", "python3"),
    # lines
    ("cat", LINES, [at_tty("cat")], "line", "cat"),
    ("read -t", LINES, [at_tty("bash", POLL)], "line", "bash"),
    ("node without line editing", LINES, [at_tty("node", EPOLL)], "line", "node"),
    ("cat | sort", LINES, [at_tty("cat"), asleep("sort", "anon_pipe_read")], "line", "cat"),
    ("cat | something that computes", LINES, [at_tty("cat"), computing("python3")], "busy", "python3"),
    ("tail -f: inotify", LINES, [asleep("tail", READ)], "busy", "tail"),
    ("nc: a socket", LINES, [asleep("nc", READ)], "busy", "nc"),
    ("the terminal or a socket", LINES, [process("python3", READ)], "unknown", "python3"),
    ("curl polls, whoever knows what", LINES, [process("curl", POLL)], "busy", "curl"),
    # secrets
    ("getpass", SECRETS, [at_tty("python3")], "secret", "python3"),
    ("su, read by its child", SECRETS, [asleep("su"), at_tty("su")], "secret", "su"),
    ("sudo, not ours to look at", SECRETS, [process("sudo", "0")], "secret", "sudo"),
    ("tar | gpg -c", SECRETS, [computing("tar"), at_tty("gpg")], "secret", "gpg"),
    ("echo is off for another reason", SECRETS, [asleep("sleep", "hrtimer_nanosleep")], "busy", "sleep"),
    ("sudo computes", SECRETS, [computing("sudo")], "busy", "sudo"),
    # another terminal behind it
    ("ssh asks for a password", SECRETS, [at_tty("ssh")], "secret", "ssh"),
    ("ssh asks about a host key", LINES, [at_tty("ssh")], "line", "ssh"),
    ("ssh connects", LINES, [asleep("ssh", POLL)], "busy", "ssh"),
    ("ssh runs a command without a terminal", LINES, [at_tty("ssh", POLL)], "unknown", "ssh"),
    ("ssh polls, whoever knows what", LINES, [process("ssh", POLL)], "unknown", "ssh"),
    ("sudo waits for its child", LINES, [asleep("sudo", POLL), asleep("sleep", "hrtimer_nanosleep")], "busy", "sleep"),
    ("a tmux in it, which hands its terminal over", KEYS, [asleep("tmux: client", EPOLL)], "unknown", "tmux: client"),
    ("ssh runs a shell", KEYS, [at_tty("ssh", POLL)], "unknown", "ssh"),
    ("docker run -i", LINES, [at_tty("docker", main=False)], "unknown", "docker"),
    ("docker run -it", KEYS, [at_tty("docker", main=False)], "unknown", "docker"),
    ("a tmux in it", KEYS, [at_tty("tmux: client", EPOLL)], "unknown", "tmux: client"),
    ("dtach: its server has the terminal inside", KEYS, [at_tty("dtach", POLL)], "unknown", "dtach"),
    ("sudo with a terminal of its own", KEYS, [process("sudo", "0")], "unknown", "sudo"),
    ("somebody's relay", KEYS, [at_tty("mytool", POLL, relay=True)], "unknown", "mytool"),
    ("the shell of su", KEYS, [at_tty("bash", POLL)], "editor", "bash"),
    # work
    ("sleep", LINES, [asleep("sleep", "hrtimer_nanosleep")], "busy", "sleep"),
    ("sleep | cat", LINES, [asleep("sleep", "hrtimer_nanosleep"), asleep("cat", "anon_pipe_read")], "busy", "cat"),
    ("yes | head", LINES, [computing("yes"), asleep("head", "anon_pipe_read")], "busy", "yes"),
    ("waits for a disk", LINES, [computing("dd", "D")], "busy", "dd"),
    ("make -j", LINES, [asleep("make"), computing("cc1"), asleep("sh")], "busy", "cc1"),
    ("make -j, between two", LINES, [asleep("make", POLL)], "busy", "make"),
    ("traced", LINES, [process("a.out", state="t")], "busy", "a.out"),
    ("stopped", LINES, [process("vim", state="T")], "stopped", "vim"),
    ("stopped, its child ended", LINES, [process("make", state="T"), process("cc", state="Z")], "stopped", "make"),
    ("half of it stopped", LINES, [process("a", state="T"), asleep("b", "pipe_read")], "busy", "b"),
    ("only ended ones", LINES, [process("true", state="Z")], "busy", None),
    # what the kernel does not say
    ("another user's", LINES, [process("passwd", "0")], "unknown", "passwd"),
    ("another user's, raw", KEYS, [process("vim", "0")], "unknown", "vim"),
    ("not to be opened", LINES, [process("x", None)], "unknown", "x"),
    ("part of it cannot be read", LINES, [asleep("sh"), process("su", "0")], "unknown", "su"),
    ("nobody to be seen", LINES, [], "unknown", None),
]


@for_each(("flags", "processes", "waiting", "name"), [row[1:] for row in RECORDED])
def test_recorded_facts(flags: tuple[bool, bool], processes: list[Process], waiting: str, name: str | None):
    verdict = judge(KernelFacts(*flags, 0, False, 1, tuple(processes)))
    assert (verdict.waiting.value, verdict.process and verdict.process.name) == (waiting, name), verdict.why
    assert verdict.ready is (waiting in ("editor", "line", "secret"))
    assert verdict.hidden is ("hides" in verdict.why)


READY = [row for row in RECORDED if row[3] in ("editor", "line", "secret")]


@for_each(("flags", "processes"), [row[1:3] for row in READY])
@for_each("more", [{"unread": 1}, {"writing": True}, {"changing": True}])
def test_who_waits_is_busy_with(more: dict, flags: tuple[bool, bool], processes: list[Process]):
    """Input that it has not read, output that is held up, or somebody else coming to the front."""
    facts = {"unread": 0, "writing": False, "foreground": 1, "processes": tuple(processes)} | more
    assert judge(KernelFacts(*flags, **facts)).waiting is InputWait.BUSY


def test_without_facts_nothing_is_known():
    assert judge(None).waiting is InputWait.UNKNOWN
    assert judge(KernelFacts(True, True, 0, False, None, ())).waiting is InputWait.UNKNOWN
