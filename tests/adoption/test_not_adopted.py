"""Nothing is typed into a question: `run` in front of anything but a shell's own prompt leaves its input as it was.

Each case ends in something that waits for input; after `run` was refused it is given its answer, and what it read is
that answer alone. A few cases run always, all of them with `TMUXMCP_TEST_MANY=1`.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from tests.conftest import SLOW, TMUX, eventually, newest_fish
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import NotAShell, SessionBusy
from tmuxmcp.machine.witness import foreground as proven
from tmuxmcp.readiness.adoptable import Adoptable, NotAdopted, may_adopt
from tmuxmcp.sessions.look import Look

MANY = bool(os.environ.get("TMUXMCP_TEST_MANY"))

ASKER = "printf 'Name? '\nread x\necho \"got=[$x]\"\n"
"""A file that asks; shells of sh's grammar run or source it."""

FISH_ASKER = 'read x\necho "got=[$x]"\n'

ANSWERED = "got=[an answer]"

POSIX = ("bash", "zsh", "dash", "busybox ash", "mksh", "ksh93")

QUESTIONS: dict[str, tuple[str, ...]] = {
    # By what the shell runs that asks: in which shells that is there.
    'read x; echo "got=[$x]"': POSIX,
    '(read x; echo "got=[$x]")': POSIX,
    'f() { read x; }; f; echo "got=[$x]"': POSIX,
    ". ./asker": POSIX,
    "eval '. ./asker'": POSIX,
    "sh ./asker": POSIX,
    "bash ./asker": ("bash", "fish"),
    'read -s x; echo "got=[$x]"': ("bash", "zsh", "busybox ash"),
    'read -e x; echo "got=[$x]"': ("bash",),
    'read -p "$PS1" x; echo "got=[$x]"': ("bash",),
    'read -ep "$PS1" x; echo "got=[$x]"': ("bash",),
    'select x in "an answer" b; do break; done; echo "got=[$REPLY]"': ("bash", "zsh", "mksh", "ksh93"),
    'x=$(read y; echo $y); echo "got=[$x]"': POSIX,
    "trap 'read x; echo \"got=[$x]\"; trap - USR1' USR1; kill -USR1 $$": POSIX,
    "trap 'trap - DEBUG; read x; echo \"got=[$x]\"' DEBUG; true": ("bash", "zsh"),
    "PROMPT_COMMAND='PROMPT_COMMAND=; read x; echo \"got=[$x]\"'": ("bash",),
    'precmd() { unfunction precmd; read x; echo "got=[$x]" }': ("zsh",),
    'x=; vared x; echo "got=[$x]"': ("zsh",),
    'x=; vared -p "$PS1" x; echo "got=[$x]"': ("zsh",),
    'read x; echo "got=[$x]"; ': ("fish",),
    'read -p "fish_prompt" x; echo "got=[$x]"': ("fish",),
    'read -s x; echo "got=[$x]"; ': ("fish",),
    "source ./asker.fish": ("fish",),
    'function f; read x; echo "got=[$x]"; end; f': ("fish",),
    'begin; read x; echo "got=[$x]"; end': ("fish",),
    "fish ./asker.fish": ("fish", "bash"),
    "python3 -c \"print('got=[%s]' % input())\"": ("bash", "dash"),
}
"""What asks, in lines that a shell is told."""

ALWAYS = {
    ("bash", 'read x; echo "got=[$x]"'),
    ("bash", '(read x; echo "got=[$x]")'),
    ("zsh", 'x=; vared -p "$PS1" x; echo "got=[$x]"'),
    ("fish", 'read -p "fish_prompt" x; echo "got=[$x]"'),
    ("dash", 'read x; echo "got=[$x]"'),
    ("mksh", ". ./asker"),
    ("busybox ash", '(read x; echo "got=[$x]")'),
    ("ksh93", 'f() { read x; }; f; echo "got=[$x]"'),
}

LEFT_OPEN: list[tuple[str, list[dict[str, object]]]] = [
    ("bash", [{"text": "echo ha"}]),
    ("bash", [{"text": "echo >"}]),
    ("bash", [{"text": "echo 'open\n"}]),
    ("bash", [{"text": "for i in 1 2; do\n"}]),
    ("bash", [{"text": "cat <<E\n"}]),
    ("bash", [{"text": "set -o vi\n"}, {"key": "Escape"}]),
    ("bash", [{"key": "C-r"}]),
    ("bash", [{"key": "C-r"}, {"text": "o"}]),
    ("bash", [{"key": "C-v"}]),
    ("bash", [{"key": "M-3"}]),
    ("bash", [{"text": "shopt -s histverify\n"}, {"text": "!!\n"}]),
    ("bash", [{"text": "PS1=''\n"}]),
    ("zsh", [{"text": "echo ha"}]),
    ("zsh", [{"text": "echo 'open\n"}]),
    ("zsh", [{"text": "bindkey -v\n"}, {"key": "Escape"}]),
    ("zsh", [{"key": "C-r"}]),
    ("zsh", [{"key": "M-x"}]),
    ("zsh", [{"text": "print -z 'echo >'\n"}]),
    ("fish", [{"text": "echo ha"}]),
    ("fish", [{"text": "if true\n"}]),
    ("fish", [{"text": "ls /\t\t"}]),
    ("fish", [{"key": "C-r"}]),
    ("fish", [{"text": "fish_vi_key_bindings\n"}, {"key": "Escape"}]),
    ("fish", [{"text": "commandline 'echo >'\n"}]),
    ("dash", [{"text": "echo ha"}]),
    ("dash", [{"text": "if true\n"}]),
    ("dash", [{"text": "cat <<E\n"}]),
    ("dash", [{"text": "stty -icanon\n"}]),
    ("dash", [{"text": "stty -echo\n"}]),
    ("busybox ash", [{"text": "if true\n"}]),
    ("busybox ash", [{"key": "C-r"}]),
    ("mksh", [{"text": "echo 'open\n"}]),
    ("mksh", [{"key": "C-r"}]),
    ("mksh", [{"text": "set -o vi\n"}, {"key": "Escape"}]),
    ("ksh93", [{"text": "echo 'open\n"}]),
    ("ksh93", [{"key": "C-r"}]),
    ("ksh93", [{"text": "true\n"}, {"key": "C-r"}, {"text": "tru\n"}]),
]
"""What is left at a shell's prompt so that a command typed there would be another one."""

PROGRAMS = ["cat >f", "python3", "vim -u NONE", "less /etc/passwd", "gdb -q", "ed", "bc"]

needs = {"busybox ash": "busybox"}


def there(shell: str) -> bool:
    return shutil.which(needs.get(shell, shell)) is not None


def chosen(cases: Iterable[tuple[str, str]], always: set[tuple[str, str]]) -> list[tuple[str, str]]:
    return [case for case in cases if there(case[0]) and (MANY or case in always)]


async def rests(broker: Broker, name: str) -> Look:
    """A look at which the program in front waits for input, and everything that it printed is in the log."""

    async def waits() -> Look | None:
        session = broker.registry.sessions[name]
        await session.refresh()
        look = await session.look()
        return look if look.ready and await session.log_complete(look.size) else None

    return await eventually(waits, 10)


async def front(broker: Broker, home: Path, shell: str) -> None:
    """A session with a shell of its own, in which another one is in front at its prompt."""
    (home / "asker").write_text(ASKER)
    (home / "asker.fish").write_text(FISH_ASKER)
    (home / ".zshrc").touch()
    await broker.create_session("bash", name="a", cwd=str(home))
    await broker.send(session_id="a", text=f"{shell}\n", timeout_ms=int(5000 * SLOW))
    await rests(broker, "a")


async def adopt(broker: Broker) -> None:
    """Have the shell in front adopted; fish does something for itself at times."""

    async def runs() -> bool:
        with suppress(SessionBusy):
            return (await broker.run("echo one", session_id="a", adopt="yes")).output == "one\n"
        return False

    await eventually(runs, 10)


async def refused(broker: Broker) -> NotAdopted:
    """What is said of the program in front; `run` says no as well, and at once."""
    session = broker.registry.sessions["a"]
    look = await rests(broker, "a")
    found = await may_adopt(session, look)
    assert isinstance(found, NotAdopted), look.last_text[-200:]
    assert look.mode != "shell_prompt"
    begun = time.monotonic()
    with pytest.raises((NotAShell, SessionBusy)):
        await broker.run("echo typed into it", session_id="a", timeout_ms=30_000)
    assert time.monotonic() - begun < 10 * SLOW
    return found


@pytest.mark.parametrize(("shell", "asks"), chosen([(s, q) for q, shells in QUESTIONS.items() for s in shells], ALWAYS))
async def test_a_question_reads_its_answer_alone(broker: Broker, home: Path, shell: str, asks: str) -> None:
    await front(broker, home, shell)
    await broker.send(session_id="a", text=f"{asks}\n", timeout_ms=int(3000 * SLOW))
    await refused(broker)
    answer = "1" if asks.startswith("select") else "an answer"
    await broker.send(session_id="a", text=f"{answer}\n", timeout_ms=int(3000 * SLOW))
    wanted = f"got=[{answer}]"
    await eventually(lambda: wanted in _text(broker))
    assert "typed into it" not in _text(broker)


START_UP = {
    "bash": (".bashrc", ASKER),
    "zsh": (".zshrc", ASKER),
    "fish": (".config/fish/config.fish", FISH_ASKER),
    "dash": ("asker", ASKER),
    "busybox ash": ("asker", ASKER),
    "mksh": ("asker", ASKER),
    "ksh93": ("asker", ASKER),
}


@pytest.mark.parametrize("shell", [s for s in START_UP if there(s) and (MANY or s in ("zsh", "dash"))])
async def test_a_start_up_file_that_asks_is_no_prompt(broker: Broker, home: Path, shell: str) -> None:
    await broker.create_session("bash", name="a", cwd=str(home))
    name, text = START_UP[shell]
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    (home / name).write_text(text)
    await broker.send(session_id="a", text=f"ENV=./asker {shell}\n", timeout_ms=int(5000 * SLOW))
    await refused(broker)
    await broker.send(session_id="a", text="an answer\n", timeout_ms=int(3000 * SLOW))
    await eventually(lambda: ANSWERED in _text(broker))
    found = await may_adopt(broker.registry.sessions["a"], await rests(broker, "a"))
    assert isinstance(found, NotAdopted)  # nobody has seen its prompt before something was typed to it


@pytest.mark.parametrize(("shell", "sends"), [case for case in LEFT_OPEN if there(case[0])][:: 1 if MANY else 7])
async def test_what_is_open_at_a_prompt_stays(
    broker: Broker, home: Path, shell: str, sends: list[dict[str, object]]
) -> None:
    await front(broker, home, shell)
    for each in sends:
        await broker.send(session_id="a", timeout_ms=int(3000 * SLOW), **each)  # type: ignore[arg-type]
    await rests(broker, "a")
    before = broker.registry.sessions["a"].log.size()
    await refused(broker)
    assert broker.registry.sessions["a"].log.size() == before  # not even an echo


@pytest.mark.parametrize("program", PROGRAMS if MANY else PROGRAMS[:1])
async def test_another_program_is_named(broker: Broker, home: Path, program: str) -> None:
    name = program.split()[0]
    if not shutil.which(name):
        pytest.skip(f"{name} is not here")
    await front(broker, home, "bash")
    await broker.send(session_id="a", text=f"{program}\n", timeout_ms=int(5000 * SLOW))
    found = await refused(broker)
    assert name in found.why
    assert "send" in found.hint


SHELLS = ["bash", "zsh", "fish", "dash", "busybox ash", "mksh", "ksh93"]
MORE_SHELLS = ["bash --norc", "bash --noediting", "bash --posix", "rbash", "bash -l", "env -i bash --norc", "bash -u"]
MORE_SHELLS += ["zsh -f", "zsh +Z", "busybox sh", "sh", "dash -i", "mksh -o vi", "bash -o vi", "fish --private"]


SHELLS_THERE = [s for s in [*SHELLS, *(MORE_SHELLS if MANY else ())] if there(s.split(" -")[0])]


@pytest.mark.parametrize("shell", [*SHELLS_THERE, newest_fish])
async def test_a_prompt_is_known(broker: Broker, home: Path, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    monkeypatch.setattr(proven, "_is_of_system", lambda path, found: True)
    await front(broker, home, shell)
    session = broker.registry.sessions["a"]
    for text in ("", "cd /usr\n", "echo one; ls /\n"):
        if text:
            await broker.send(session_id="a", text=text, timeout_ms=int(5000 * SLOW))
        found = await may_adopt(session, await rests(broker, "a"))
        assert isinstance(found, Adoptable), found

        # fish wakes once more behind its prompt, for its threads: until a wait looks anew, somebody may have typed.
        async def at_prompt() -> Look | None:
            await broker.read(session_id="a", wait_for="ready")
            look = await session.look()
            assert look.mode == "shell_prompt" or ("fish" in shell and look.mode == "line_input")
            return look if look.mode == "shell_prompt" else None

        facts = (await eventually(at_prompt)).facts
        assert facts
        assert found.pid == facts.foreground
    ran = await broker.run("echo $PWD; false", session_id="a", adopt="yes")
    assert (ran.output, ran.exit_code, ran.shell and ran.shell.adopted) == ("/usr\n", 1, True)


ADOPTED = [s for s in ("dash", "busybox ash", "mksh", "ksh93", "bash", "zsh", "fish") if there(s)]


@pytest.mark.parametrize("shell", ADOPTED if MANY else [s for s in ADOPTED if s in ("dash", "mksh")])
async def test_a_question_of_an_adopted_shell_reads_its_answer_alone(broker: Broker, home: Path, shell: str) -> None:
    """Some send no mark for what is typed there by hand."""
    await front(broker, home, shell)
    await adopt(broker)
    asks = "read x; echo got=\\[$x\\]" if shell == "fish" else 'read x; echo "got=[$x]"'
    await broker.send(session_id="a", text=f"{asks}\n", timeout_ms=int(3000 * SLOW))
    await rests(broker, "a")
    with pytest.raises((NotAShell, SessionBusy)):
        await broker.run("echo typed into it", session_id="a")
    await broker.send(session_id="a", text="an answer\n", timeout_ms=int(3000 * SLOW))
    await eventually(lambda: ANSWERED in _text(broker))
    assert (await broker.run("echo two", session_id="a")).output == "two\n"


@pytest.mark.parametrize("shell", ADOPTED if MANY else [s for s in ADOPTED if s == "dash"])
async def test_a_question_in_a_command_of_several_lines_is_not_interrupted(
    broker: Broker, home: Path, shell: str
) -> None:
    await front(broker, home, shell)
    await adopt(broker)
    loop, end = ("for i in 1", "end") if shell == "fish" else ("for i in 1; do", "done")
    quoted = "echo got=\\[$x\\]" if shell == "fish" else 'echo "got=[$x]"'
    await broker.send(session_id="a", text=f"{loop}\n", timeout_ms=int(1000 * SLOW))
    await broker.send(session_id="a", text=f"read x; {quoted}; {end}\n", timeout_ms=int(1000 * SLOW))
    await rests(broker, "a")
    with pytest.raises((NotAShell, SessionBusy)):
        await broker.run("echo typed into it", session_id="a")
    await broker.send(session_id="a", text="an answer\n", timeout_ms=int(3000 * SLOW))
    await eventually(lambda: ANSWERED in _text(broker))


@pytest.mark.parametrize("shell", ADOPTED if MANY else [s for s in ADOPTED if s == "dash"])
async def test_what_the_background_prints_is_no_question(broker: Broker, home: Path, shell: str) -> None:
    await front(broker, home, shell)
    await adopt(broker)
    await broker.run("sh -c 'while ! test -e go; do sleep 0.01; done; echo late' &", session_id="a")
    await rests(broker, "a")
    (home / "go").touch()
    await eventually(lambda: "late\r\n" in _text(broker))
    assert (await broker.run("echo two", session_id="a")).output == "two\n"
    listed = await broker.list_commands(session_id="a")
    assert [each.text for each in listed.commands][-1] == "echo two"
    assert "late" not in [each.text for each in listed.commands]


@pytest.mark.parametrize("shell", ADOPTED if MANY else [s for s in ADOPTED if s == "dash"])
async def test_consent_does_not_type_into_a_question(broker: Broker, home: Path, shell: str) -> None:
    """That a shell of this machine is not at its prompt is known, whatever the caller says."""
    await front(broker, home, shell)
    asks = "read x; echo got=\\[$x\\]" if shell == "fish" else 'read x; echo "got=[$x]"'
    await broker.send(session_id="a", text=f"{asks}\n", timeout_ms=int(3000 * SLOW))
    await rests(broker, "a")
    with pytest.raises((NotAShell, SessionBusy)):
        await broker.run("echo typed into it", session_id="a", adopt="yes")
    await broker.send(session_id="a", text="an answer\n", timeout_ms=int(3000 * SLOW))
    await eventually(lambda: ANSWERED in _text(broker))


async def test_a_tmux_inside_is_named_at_once(broker: Broker, home: Path) -> None:
    await broker.create_session("bash", name="a", cwd=str(home))
    await broker.send(session_id="a", text=f"tmux -S {home}/inner -f /dev/null\n", timeout_ms=int(3000 * SLOW))
    try:
        for consent in ("auto", "yes"):
            with pytest.raises(NotAShell, match="`tmux` is in front") as caught:
                await broker.run("echo typed into it", session_id="a", adopt=consent)  # type: ignore[arg-type]
            assert "send" in str(caught.value)
    finally:
        await anyio.run_process([TMUX, "-S", f"{home}/inner", "kill-server"], check=False)


@pytest.mark.parametrize("shell", ADOPTED if MANY else [s for s in ADOPTED if s in ("dash",)])
async def test_half_a_line_at_an_adopted_shell_is_not_run(broker: Broker, home: Path, shell: str) -> None:
    await front(broker, home, shell)
    await adopt(broker)
    await broker.send(session_id="a", text="touch made", timeout_ms=int(3000 * SLOW))
    await rests(broker, "a")
    with suppress(NotAShell, SessionBusy):
        assert (await broker.run("echo two", session_id="a")).output == "two\n"  # its line editor gave it up
    assert not [name for name in os.listdir(home) if name.startswith("made")]


async def test_a_prompt_that_is_wider_than_the_screen_is_known(broker: Broker, home: Path) -> None:
    deep = home / ("long-" * 20) / "deeper"
    deep.mkdir(parents=True)
    await front(broker, home, "env PS1='\\w\\$ ' bash --norc")
    await broker.send(session_id="a", text=f"cd {deep}\n", timeout_ms=int(5000 * SLOW))
    found = await may_adopt(broker.registry.sessions["a"], await rests(broker, "a"))
    assert isinstance(found, Adoptable), found


def _text(broker: Broker) -> str:
    session = broker.registry.sessions["a"]
    return session.log.read(0, 1 << 20).decode("utf-8", "replace")
