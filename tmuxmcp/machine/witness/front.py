"""The shell in front: whether the one program that has a terminal is a local shell that may be at its prompt.

Everything here is a fact of the kernel. What a shell with the same facts does at that moment, its prompt or a question,
`proven` tells.
"""

from __future__ import annotations

import os
from contextlib import suppress

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine import proc
from tmuxmcp.machine.launch.shells import BY_APPLET, BY_FILE
from tmuxmcp.machine.launch.shells.record import Shell
from tmuxmcp.machine.witness.kernel import MANY_IN_ONE, InputWait, KernelFacts, Process, judge


@dataclass(frozen=True)
class Front:
    """A shell that has a terminal for itself and waits for input there."""

    pid: int
    born_s: float
    """When it began, by the clock CLOCK_BOOTTIME, to a hundredth of a second below."""
    shell: Shell
    called: str
    """The name by which its program was called, without a directory."""
    applet: tuple[str, ...]
    """Of a program that is many, if it was called by its own name: which one."""
    canonical: bool
    """It reads whole lines."""
    title: str
    """What a person calls it: its words."""


@dataclass(frozen=True)
class NoFront:
    """Why the program in front is not such a shell."""

    why: str
    """Completes `in session X ...`."""
    is_shell: bool = False
    """It is a shell, though not known to be at its prompt."""
    certain: bool = False
    """It is certainly not there."""


def front_of(facts: KernelFacts | None, terminal: proc.Device) -> Front | NoFront:
    """The shell in front.

    Args:
        facts: of the terminal.
    """
    verdict = judge(facts)
    process = verdict.process
    if facts is None or process is None or not verdict.ready or facts.unread:
        return NoFront(f"no program is known to wait for input ({verdict.why})")
    try:
        return _front(facts, process, verdict.waiting, terminal)
    except (OSError, ValueError, IndexError):
        return NoFront(f"what `{process.name}` is cannot be seen: it is another user's, or ends")


def shows_prompts(pid: int) -> bool:
    """Whether a process is a shell that was started without a script or a command."""
    with suppress(OSError, IndexError):
        shell, _, _, options = _shell(pid, proc.argv_text(pid))
        return shell is not None and not not_interactive(shell, options)
    return False


def _front(facts: KernelFacts, process: Process, waiting: InputWait, terminal: proc.Device) -> Front | NoFront:
    words = proc.argv_text(process.pid)
    title = " ".join(words).strip()[:200] or process.name
    shell, called, applet, options = _shell(process.pid, words)
    if shell is None:
        return NoFront(f"`{title}` is no shell that can be adopted")
    if proc.device(f"/proc/{process.pid}/fd/0") != terminal:
        return NoFront(f"`{title}` does not read its commands from the terminal", is_shell=True, certain=True)
    if why := not_interactive(shell, options):
        return NoFront(f"`{title}` {why}, and waits for input", is_shell=True, certain=True)
    if _forked(process.pid):
        return NoFront(f"a subshell of `{title}`, ( ... ), waits for input", is_shell=True, certain=True)
    if waiting is InputWait.SECRET:
        return NoFront(f"`{title}` waits for a line that is not shown", is_shell=True, certain=True)
    if facts.canonical and (not shell.reads_lines or not facts.echo):
        why = f"`{title}` waits for a line, as it does not at its prompt"
        return NoFront(why, is_shell=True, certain=shell.lines_ask)
    if not facts.canonical and (not shell.edits or facts.echo):
        why = f"`{title}` waits for a key, as it does not at its prompt"
        return NoFront(why, is_shell=True, certain=shell.edits)  # its line editor would show what is typed itself
    # Behind what is certain: a start-up file, for one, has no job control, and what it starts is in its shell's group.
    others = [each for each in facts.processes if each.state not in "ZX" and each.pid != process.pid]
    if facts.foreground != process.pid or any(not shell.has_helpers or each.on_terminal for each in others):
        return NoFront(f"`{title}` is not alone in front", is_shell=True)
    if process.on_terminal is not True or not process.main:
        return NoFront(f"`{title}` may wait for something else than its terminal", is_shell=True)
    return Front(process.pid, proc.stat(f"/proc/{process.pid}").born_s, shell, called, applet, facts.canonical, title)


def _shell(pid: int, words: list[str]) -> tuple[Shell | None, str, tuple[str, ...], list[str]]:
    """Which shell a process is (None: none), how it was called, as which applet, and its arguments."""
    file = os.path.basename(os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)"))
    if file not in MANY_IN_ONE:
        return BY_FILE.get(file), file, (), words[1:]
    called = os.path.basename(words[0]).removeprefix("-")
    applet = (words[1],) if called in MANY_IN_ONE else ()
    name = applet[0] if applet else called
    return BY_APPLET.get(name), called, applet, words[1 + len(applet) :]


def not_interactive(shell: Shell, options: list[str]) -> str:
    """Why a shell with these arguments shows no prompt: it runs a script or a command; empty: it shows one."""
    words = iter(options)
    from_input = False
    for word in words:
        if word in shell.valued:
            next(words, None)
        elif word in ("-", "--"):
            rest = next(words, None)
            return "" if rest is None or from_input else "runs a script"
        elif word.startswith("--"):
            if word.startswith(("--command", "--no-execute")):
                return "runs a command"
        elif word[:1] in ("-", "+") and len(word) > 1:
            letters = word[1:]
            if "c" in letters and word[0] == "-" and letters[0] not in shell.getopt:
                return "runs a command"
            from_input = from_input or "s" in letters
            if not shell.getopt and letters.endswith(("o", "O")):
                next(words, None)
        elif not from_input:
            return "runs a script"
    return ""


def _forked(pid: int) -> bool:
    """Whether a process runs on the stack of its parent: it was forked, and no new program began in it."""
    parent = proc.stat(f"/proc/{pid}").parent
    with suppress(OSError):
        if os.stat(f"/proc/{pid}/exe").st_ino == os.stat(f"/proc/{parent}/exe").st_ino:
            return proc.stack_start(pid) == proc.stack_start(parent)
    return False


def read_bytes(pid: int) -> int | None:
    """How many bytes a process has read so far, of all files; None where that cannot be seen."""
    with suppress(OSError, ValueError), open(f"/proc/{pid}/io") as file:
        for line in file:
            if line.startswith("rchar:"):
                return int(line.split()[1])
    return None
