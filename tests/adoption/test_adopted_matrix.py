"""`run` in adopted shells of every kind, however they were come to: the probes of `tests/kit/exactness.py`.

A few places and probes always; all of them with TMUXMCP_TEST_MANY=1.
"""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
from pathlib import Path

import pytest

from tests.conftest import eventually
from tests.kit.adopted import told
from tests.kit.exactness import ANY_SHELL, LIKE_SH, Row
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import AdoptionFailed, IncompleteCommand

MANY = bool(os.environ.get("TMUXMCP_TEST_MANY"))

SHELLS = {
    "bash": "bash --norc --noprofile",
    "rbash": "bash --norc --noprofile -r",
    "zsh": "zsh -f",
    "fish": "fish --no-config",
    "dash": "dash",
    "ash": "busybox ash",
    "mksh": "mksh",
    "ksh93": "ksh93",
}
PLACES = {
    "plain": "{shell}",
    "options": "{shell} -u",
    "vi": "{shell} -o vi",
    "su": "su -s {path} nobody",
    "su -P": "su -P -s {path} nobody",
    "sudo": "sudo {shell}",
    "sudo -u": "sudo -u nobody {shell}",
    "script": "script -qc {quoted} /dev/null",
    "expect": "expect -c 'spawn -noecho {shell}; interact'",
    "unshare": "unshare -fp --mount-proc {shell}",
    "chroot": "chroot / {shell}",
    "nsenter": "nsenter -t $$ -m {shell}",
    "env -i": "env -i {which}",
    "exec": "bash -c 'exec {shell}'",
}
SAMPLE = [
    ("bash", "script"),
    ("zsh", "su"),
    ("fish", "plain"),
    ("dash", "unshare"),
    ("ash", "env -i"),
    ("ksh93", "expect"),
]


def can(shell: str, place: str) -> bool:
    """Whether there is such a way to such a shell."""
    match place:
        case "su" | "su -P":
            return shell not in ("rbash", "ash")  # it takes a path and no arguments
        case "options":
            return shell != "fish"
        case "vi":
            return shell not in ("fish", "dash")
    return True


def installed(shell: str, place: str) -> bool:
    words = PLACES[place].split()
    return all(shutil.which(word) for word in (SHELLS[shell].split()[0], words[0]) if "{" not in word)


CASES = [
    pytest.param(
        *case,
        id="-".join(case),
        marks=pytest.mark.skipif(not installed(*case), reason="not installed"),
    )
    for case in (itertools.product(SHELLS, PLACES) if MANY else SAMPLE)
    if can(*case)
]

FEW: list[Row] = [
    ("echo one\necho two", "one\ntwo\n", 0),
    ("printf 'no newline'; sh -c 'exit 3'", "no newline", 3),
    ("echo 'äöü 漢字 !x' \"it's\"", "äöü 漢字 !x it's\n", 0),
]
MORE: list[Row] = [
    ("echo " + "x" * 20_000, "x" * 20_000 + "\n", 0),
    ("seq 1 30000", "".join(f"{n}\n" for n in range(1, 30001)), 0),
    ("sleep 0.05 & echo a", None, 0),
]
OF_ONE = {
    # It tells a signal as 256 and its number.
    ("ksh93", "sh -c 'kill -9 $$'"): (None, 265),
    ("ksh93", "sh -c 'kill -TERM $$'"): (None, 271),
}


def probes(shell: str) -> list[Row]:
    if not MANY:
        return FEW
    return [*FEW, *(ANY_SHELL if shell == "fish" else LIKE_SH), *MORE]


async def enter(broker: Broker, shell: str, place: str) -> None:
    """A session in which a shell is come to in a way."""
    words = SHELLS[shell]
    which = " ".join([shutil.which(words.split()[0]) or "", *words.split()[1:]])
    command = PLACES[place].format(
        shell=words, path=shutil.which(words.split()[0]), quoted=shlex.quote(words), which=which
    )
    await broker.create_session("bash", name="s")
    before = (await broker.read(view="raw", session_id="s")).next_offset
    await broker.send(command, session_id="s", enter=True, read="none")

    async def rests() -> bool:
        now = await broker.read(view="screen", session_id="s")
        text = now.content.rstrip()
        told = await broker.get_session("s")
        left = told.foreground is not None and told.foreground.pid != told.pid
        return now.next_offset > before + len(command) and text[-1:] in list("#$>%") and left

    await eventually(rests, 20)
    await broker.read(session_id="s", wait_for="idle", idle_ms=400)


@pytest.mark.parametrize(("shell", "place"), CASES)
async def test_run_is_exact(broker: Broker, shell: str, place: str):
    await enter(broker, shell, place)
    wrong = []
    for command, output, code in probes(shell):
        output, code = OF_ONE.get((shell, command), (output, code))
        ran = await broker.run(command, "s", adopt="yes", max_bytes=1 << 20)
        right = ran.exit_code == code and ran.outcome == "ready" and output in (None, ran.output)
        if not right:
            wrong.append((command[:60], ran.output[-200:], ran.exit_code, ran.outcome))
    assert not wrong
    facts = await broker.get_session("s")
    assert facts.levels[-1].level == 1
    if shell != "rbash":
        assert (await broker.run("cd /usr", "s")).cwd == "/usr"
        assert told(await broker.run("pwd", "s")) == ("/usr\n", 0, "ready")
    unfinished = "echo 'never" if shell != "fish" else "echo (never"
    try:
        assert (await broker.run(unfinished, "s", timeout_ms=5000)).exit_code in (1, 2, 3)  # `eval` says so
    except IncompleteCommand:
        assert shell in ("bash", "zsh", "fish")
    assert told(await broker.run("echo next", "s")) == ("next\n", 0, "ready")


async def test_a_readonly_prompt_is_said_at_once(broker: Broker, home: Path):
    await broker.create_session("bash", name="s")
    for line in ("bash --norc", "readonly PS1='> '"):
        await broker.send(line, session_id="s", enter=True, read="new", wait_for="ready")
    with pytest.raises(AdoptionFailed, match="its PS1 is readonly"):
        await broker.run("true", "s", adopt="yes")
    answer = await broker.send("echo still $((3+4))", session_id="s", enter=True, read="new", wait_for="ready")
    assert answer.result is not None
    assert "still 7" in answer.result.content
