"""Whether the local shell in front waits at its prompt, so that a line may be typed there without being asked for.

Facts, each of which alone is not enough: the program in front is an interactive shell that has its terminal for
itself (`foreground`); it waits where its program waits at its prompt and nowhere else (`proven`); the cursor's line is
its prompt, as learnt when it first came to rest; and what was typed last was entered there, so that no half line,
search or mode of its line editor is open. Where one is not known, nothing may be typed.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from hashlib import blake2b

from tmuxmcp.contract.value import replace, value
from tmuxmcp.machine import proc
from tmuxmcp.machine.launch.shells import BY_FILE
from tmuxmcp.machine.witness.foreground import PROVEN, Front, front_of, read_bytes, stack_of
from tmuxmcp.machine.witness.kernel import InputWait
from tmuxmcp.machine.witness.nestedtmux import TMUX_CLIENT
from tmuxmcp.machine.witness.remotekernel import FarFacts
from tmuxmcp.sessions.levels import program_of
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.modes import PROMPT_SIGNS, may_be_prompt, shape
from tmuxmcp.terminal.text.plain import plain
from tmuxmcp.terminal.widths import clusters
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import InputLeftover, LastInput, LineOfCursor

TICK_S = 0.01
"""By so much may a process have begun later than the kernel says."""

ANSWER_OR_END = "Answer it with send, or end it with key C-c; then run works here again."
RETRY_ADOPTING_HINT = (
    "Look at it with read view=screen. If a shell's prompt stands there, run the command again with adopt=yes."
)
QUIT_HINT = "Use send for it, which gives no exit code, or quit it: once a shell's prompt stands there, run works here."
EMPTY_THEN_ENTER = "If a shell's prompt stands there, empty its line (key C-u), press Enter, and run the command again."

LONGEST_PROMPT_BYTES = 16 * 1024
"""Of a prompt with its marks and colours that is compared with the screen."""

TYPE_NOTHING = frozenset({"script", "sudo", "su", "doas", "runuser", "asciinema"})
"""Relays that type nothing of their own; expect does."""

CONTINUATION_SHAPE = ">"
"""The shape of the prompt for the rest of a command: never learnt, nor is that of a shell whose prompt looks so."""


@value
class Adoptable:
    """A local shell at its prompt."""

    pid: int
    name: str
    """`bash zsh fish dash ash mksh ksh93`."""
    condition: str
    """A tmux format that holds as long as nothing was typed or printed there since."""


@value
class NotAdopted:
    """Why nothing may be typed there unasked."""

    why: str
    """Completes `in session X ...`."""
    hint: str
    passes: bool = False
    """It may be otherwise in a moment."""
    certain: bool = False
    """No shell's prompt stands there, whoever says so."""


@value
class _KnownShell:
    """What is known of a shell from an earlier moment at which it was at its prompt."""

    shell: str
    """Which process, and which program in it."""
    depth: int
    """Where on its stack it waited."""
    shape: str
    read: int
    """How many bytes it had read by then."""
    typed: str
    """Our last input by then."""

    @property
    def option(self) -> str:
        """As it is written down."""
        return f"{self.shell}_{self.depth}_{self.shape}_{self.read}_{self.typed}"

    @classmethod
    def parse(cls, option: str) -> _KnownShell | None:
        """From a pane's option; None: nothing is known."""
        words = option.split("_")
        if len(words) != 5 or not (words[1].isdecimal() and words[3].isdecimal()):
            return None
        return cls(words[0], int(words[1]), words[2], int(words[3]), words[4])


def shell_in_front(look: Look) -> Front | NotAdopted:
    """The local shell in front, by what the kernel tells at one look; it may be at its prompt or in a question."""
    if not look.pane:
        return NotAdopted("nothing runs any more", RETRY_ADOPTING_HINT)
    if TMUX_CLIENT in look.relays:
        return NotAdopted("a tmux is in front, which may bring another pane there at any key", RETRY_ADOPTING_HINT)
    try:
        terminal = proc.device(look.terminal)
    except OSError:
        return NotAdopted("the terminal cannot be seen", RETRY_ADOPTING_HINT)
    front = front_of(look.judged, terminal)
    if isinstance(front, Front):
        return front
    return NotAdopted(front.why, ANSWER_OR_END if front.is_shell else QUIT_HINT, certain=front.certain)


async def may_adopt(session: Session, look: Look) -> Adoptable | NotAdopted:
    """Whether the shell in front is surely at its prompt. It types nothing.

    Call it when the program in front has waited for input for a moment, and all that it printed is in the log.
    """
    front = shell_in_front(look)
    if isinstance(front, NotAdopted):
        return front
    if types := next((name for name in look.relays if name not in TYPE_NOTHING), ""):
        return NotAdopted(
            f"`{types}` is in front of `{front.title}`, and may type there by itself", RETRY_ADOPTING_HINT
        )
    read = read_bytes(front.pid)
    at_prompt = await PROVEN.is_at_prompt(front)
    if at_prompt is None:
        return NotAdopted(
            f"it cannot be told whether `{front.title}` is at its prompt or asks something", RETRY_ADOPTING_HINT
        )
    if not at_prompt:
        return NotAdopted(f"`{front.title}` waits for input, and not at its prompt", ANSWER_OR_END)
    line = await panes.line_of_cursor(session.tmux, session.live())
    now = None if line is None else _learnt_now(front, line)
    if line is None or now is None or now.read != read or shell_in_front(await session.look()) != front:
        return NotAdopted(f"`{front.title}` does something at this moment", RETRY_ADOPTING_HINT)
    why = _unknown(front, line, now)
    if why:
        return why
    await _keep(session, line, now)
    return Adoptable(front.pid, front.shell.name, unmoved(line))


async def still_at_prompt(session: Session, look: Look) -> Adoptable | NotAdopted:
    """Whether a shell that takes our commands as lines shows the prompt that its marks tell, with nothing typed there.

    Its marks do not tell what is typed there by hand and runs: that may be a question. What a command in the background
    has printed behind the prompt is told from that where the shell is a process of this machine.
    """
    name = look.level.kind or "the shell in front"
    front = shell_in_front(look)
    if look.level.pid and (isinstance(front, NotAdopted) or front.pid != look.level.pid):
        return (
            front if isinstance(front, NotAdopted) else NotAdopted(f"`{front.title}` is in front", RETRY_ADOPTING_HINT)
        )
    proven = await PROVEN.is_at_prompt(front) if isinstance(front, Front) else None
    if proven is False and isinstance(front, Front):
        return NotAdopted(f"`{front.title}` waits for input, and not at its prompt", ANSWER_OR_END)
    line = await panes.line_of_cursor(session.tmux, session.live())
    start, end = look.shell.prompt_start, look.shell.prompt_end
    if line is None or end - start > LONGEST_PROMPT_BYTES:
        return NotAdopted(f"the prompt of `{name}` cannot be seen", RETRY_ADOPTING_HINT)
    last = line.last_input
    if last is None or last.left is InputLeftover.OPEN:
        return NotAdopted(f"something was typed to `{name}` and not entered", EMPTY_THEN_ENTER)
    untouched = proven and last.left is InputLeftover.COMMAND and not _person_since(line, last.at_s)
    # What was printed before it without a newline stands in the same line.
    start = max(session.log.head(), end - LONGEST_PROMPT_BYTES)
    prompt = plain(session.log.read(start, end - start), look.cols, look.rows).text.rpartition("\n")[2]
    if not untouched and not _is_end_of(before_cursor(line).rstrip(), prompt.rstrip(), look.cols):
        return NotAdopted(
            f"`{name}` shows something else than its prompt: something was typed or printed there", EMPTY_THEN_ENTER
        )
    return Adoptable(front.pid if isinstance(front, Front) else 0, name, unmoved(line))


def _is_end_of(row: str, text: str, cols: int) -> bool:
    """Whether a row is a text, or its last row where it fills several.

    A line above that ends in the last column, as our own may, is taken for one with it.
    """
    if row == text:
        return True
    if not row or not text or (len(text) - len(row)) % cols:
        return False
    return text.endswith(row) or row.endswith(text)


async def asks(look: Look) -> NotAdopted | None:
    """What a local shell in front certainly does that is not its prompt, whoever says that its prompt stands there.

    None: it may be at its prompt, or the program in front is no local shell.
    """
    front = shell_in_front(look)
    if isinstance(front, NotAdopted):
        return front if front.certain else None
    if await PROVEN.is_at_prompt(front) is not False:
        return None
    return NotAdopted(f"`{front.title}` waits for input, and not at its prompt", ANSWER_OR_END)


async def note_prompt(session: Session, look: Look) -> Look:
    """Note whether the shell in front is at a prompt where `run` adopts it; as long as it waits the mode says so.

    Call it when the program in front has come to rest. With a shell that sends marks at its prompt it does nothing.

    Returns:
        The look, with what was found out.
    """
    process = look.verdict.process
    if look.facts is None or look.takes_commands or look.exited or process is None:
        return look
    if isinstance(shell_in_front(look), NotAdopted):
        return look
    if not session.adopts or isinstance(await may_adopt(session, look), NotAdopted):
        await learn_prompt(session, look)
        return look
    if process.pid == session.pid:
        session.end_own_shell()
    session.unmarked_prompt = (process.pid, process.wakes, look.size)
    return replace(look, unmarked_prompt=session.unmarked_prompt)


async def learn_prompt(session: Session, look: Look) -> None:
    """Note what the prompt of a shell in front looks like, and how much it has read: whoever types there is seen later.

    Call it when the program in front has come to rest; with a shell of the session's own, that sends marks, it does
    nothing.
    """
    if look.facts is None or look.takes_commands or look.exited:
        return
    front = shell_in_front(look)
    if isinstance(front, NotAdopted):
        return
    line = await panes.line_of_cursor(session.tmux, session.live())
    now = None if line is None else _learnt_now(front, line)
    if line and now and not _unknown(front, line, now):
        await _keep(session, line, now)


def _learnt_now(front: Front, line: LineOfCursor) -> _KnownShell | None:
    """What there is to be learnt at this moment; None: it does not rest."""
    with suppress(OSError):
        cwd = os.readlink(f"/proc/{front.pid}/cwd")
        stack, read = stack_of(front.pid), read_bytes(front.pid)
        if stack is None or read is None:
            return None
        text = shape(before_cursor(line), cwd)
        digest = blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest() if text else ""
        image = proc.stack_start(front.pid)
        return _KnownShell(
            f"{front.pid}-{round(front.born_s / TICK_S)}-{image:x}",
            stack.depth,
            "" if _is_continuation(text) else digest,
            read,
            line.last_input.option if line.last_input else "",
        )
    return None


def before_cursor(line: LineOfCursor) -> str:
    """The text of the line up to the cursor."""
    text, col = "".join(line.above), 0
    for cluster, width in clusters(line.row, line.version):
        if col >= line.cursor_col:
            break
        text, col = text + cluster, col + width
    return text


def _is_continuation(text: str) -> bool:
    """Whether a prompt's shape may be that of a prompt for the rest of a command: `>`, zsh's `quote>`."""
    words = text.replace(" ", "")
    return words == CONTINUATION_SHAPE or (
        words.endswith(CONTINUATION_SHAPE) and words.removesuffix(CONTINUATION_SHAPE).isalpha()
    )


def _unknown(front: Front, line: LineOfCursor, now: _KnownShell) -> NotAdopted | None:
    """What is not known for a shell that waits where it waits at its prompt; None: nothing is missing."""
    name, last = front.title, line.last_input
    if (
        last is None
        or last.left is InputLeftover.OPEN
        or (last.left is InputLeftover.BROKEN and front.shell.keeps_broken_line)
    ):
        return NotAdopted(f"something was typed to `{name}` and not entered", EMPTY_THEN_ENTER)
    known = _KnownShell.parse(line.front)
    if known and (known.shell, known.depth) != (now.shell, now.depth):
        known = None
    entered_before = last.left in (InputLeftover.LINE, InputLeftover.COMMAND) and _began_since(front, last)
    if known is None and not entered_before and last.option:
        return NotAdopted(f"the prompt of `{name}` is not known: it was not seen when it began", RETRY_ADOPTING_HINT)
    if not now.shape or (known and known.shape != now.shape):
        return NotAdopted(f"`{name}` shows a line that is not known as its prompt", RETRY_ADOPTING_HINT)
    if known and known.read == now.read:
        return None
    if _person_since(line, last.at_s) or (known and known.typed == last.option):
        return NotAdopted(f"somebody else may have typed something to `{name}`", EMPTY_THEN_ENTER)
    return None


def _began_since(front: Front, last: LastInput) -> bool:
    """Whether the program of a shell certainly began after the last input: its process did, or took it on (exec)."""
    pid, _, _ = last.program.partition("x")
    replaced = pid == str(front.pid) and program_of(front.pid) not in ("", last.program)
    return replaced or last.at_s <= front.born_s + TICK_S


def _person_since(line: LineOfCursor, at_s: float) -> bool:
    """Whether a person may have pressed a key since, by the clock CLOCK_BOOTTIME."""
    ago_s = time.time() - line.person_at - 1
    return line.person_at > 0 and time.clock_gettime(time.CLOCK_BOOTTIME) - ago_s >= at_s


async def _keep(session: Session, line: LineOfCursor, now: _KnownShell) -> None:
    """Write down, for every broker, what was learnt."""
    if now.option != line.front:
        pane = session.live()
        keep = panes.remember(pane, "front", now.option)
        await panes.guarded(session.tmux, pane, keep, alive=False, condition=line.still)


def unmoved(line: LineOfCursor) -> str:
    """A tmux format that holds as long as nothing was typed there, and the cursor is where it was."""
    place = f"#{{&&:#{{==:#{{cursor_x}},{line.cursor_col}}},#{{==:#{{cursor_y}},{line.cursor_row}}}}}"
    return f"#{{&&:{line.still},{place}}}"


# ---- Whether the login shell of a session on another host waits at its first prompt there ----------------------------
#
# Who made the session with `host` has agreed to its shell being adopted, and not to anything else being typed to. So
# the kernel there has to say that the login shell itself waits, alone, as that kind of shell does at its prompt; and
# the line has to look like a prompt at which nothing was typed. Without a witness there, nothing of this is known.

_BEHIND_SIGN = re.compile(rf"[{re.escape(PROMPT_SIGNS)}]\s+\S")
"""Text behind a prompt's sign: a person may have typed it."""

ADOPT_HINT = "Look at it with read view=screen. If a shell's prompt stands there, run a command with adopt=yes."
ANSWER_FIRST = "Answer it with send; then run works here."


async def may_adopt_far(session: Session, look: Look) -> Adoptable | NotAdopted:
    """Whether the login shell there is surely at its prompt. It types nothing."""
    why = _not_at_prompt(look)
    if why:
        return why
    line = await panes.line_of_cursor(session.tmux, session.live())
    logged = await session.log_complete(look.size)
    again = await session.look()
    if not line or not logged or _moved(look, again):
        return NotAdopted("something happens there at this moment", ADOPT_HINT, passes=True)
    text = before_cursor(line)
    if not may_be_prompt(text) or "".join((*line.above, line.row)).rstrip() != text.rstrip():
        return NotAdopted("its line does not look like a prompt", ADOPT_HINT)
    if (
        line.last_input is None
        or line.last_input.left is InputLeftover.OPEN
        or (line.person_at and _BEHIND_SIGN.search(text))
    ):
        return NotAdopted("something was typed there and not entered", ADOPT_HINT)
    process = again.verdict.process
    return Adoptable(process.pid if process else 0, process.name if process else "", unmoved(line))


def _not_at_prompt(look: Look) -> NotAdopted | None:
    """Why the login shell is not at its prompt, by the far kernel's word; None: nothing says so."""
    far, process = look.far, look.verdict.process
    if not isinstance(far, FarFacts) or look.verdict.hidden:
        return NotAdopted(f"what its far end does is not known: {look.verdict.why}", ADOPT_HINT, passes=look.far_late)
    if look.level.number or look.alternate_screen or process is None:
        return NotAdopted("another program is in front there", ADOPT_HINT)
    name = process.name.lstrip("-")
    shell = BY_FILE.get(name)
    if shell is None:
        return NotAdopted(f"`{name}` is in front there, which is no shell that can be adopted", "Use send for it.")
    edits = look.waiting is InputWait.EDITOR
    if not edits and not (look.waiting is InputWait.LINE and shell.reads_lines_afar):
        return NotAdopted(f"`{name}` is not at its prompt there", ANSWER_FIRST)
    alone = [each for each in far.processes if each.state not in "ZX"] == [process]
    if not alone or process.pid != far.leader or far.foreground != far.leader or look.verdict.weak:
        return NotAdopted(f"`{name}` is not the login shell there, or not alone", ADOPT_HINT, passes=True)
    if far.reads_file and not shell.keeps_file:
        return NotAdopted(f"`{name}` is still reading a file of commands there", ANSWER_FIRST)
    return None


def _moved(look: Look, again: Look) -> bool:
    """Whether something has happened there between two looks."""
    return again.size != look.size or again.far is None or _who_waits(again) != _who_waits(look)


def _who_waits(look: Look) -> tuple[object, ...]:
    process = look.verdict.process
    return (look.waiting, look.verdict.weak, process and (process.pid, process.wakes))
