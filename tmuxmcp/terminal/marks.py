"""OSC 133 scanner: bytes in, marks with offsets out; and what they say about a shell.

OSC 133 are the FinalTerm semantic prompts: A prompt, B input, C output, D;STATUS command done; `P;k=s` marks a
continuation prompt. Ours carry `aid=NONCE`, `n=NUMBER` of the prompt and, with D, `cwd=` as a URL path; without our
nonce a mark is somebody else's and is dropped, so a file full of marks, a nested or a remote shell change nothing. The
number rules out a replay of our own log. `E` is our own: the output ends, where a shell tidies up before its D; `k=h`
with it: in the middle of the command, as a signal ends the shell; `k=t` with it, or with C: a trap for a signal may
end the shell so. `E;STATUS`: what it ends with, if the shell itself ends; `k=x` with C: a trap for its end may give it
another. `P;k=g` answers our key: the shell listens for a command and its name. `job=NAME` with C, D and P names that
command; `P;k=s` with it says that the shell did not run it because it is incomplete. `P;k=r`: not run, as it came in
pieces or at the wrong moment. C and D tell the time, `t=` since 1970 or `up=` since the machine began; C tells the
command where the shell knows it, as `cmdline_url=`. `k=l` with D: no hook told of the end, and the shell says it when
it is asked, at its next prompt; `k=v`: bash repeats what it reads, and so the line by which it says this; `k=b`: the
command ran; `k=n`: nothing of the line ran, as it was refused or interrupted. `h=1` with D: what the user has run at
each prompt may have run before. `w=1` with D: some of the output may come later, through another program. `s=1` with
C: the shell's stderr is not the terminal. `P;k=e`: what comes before C is neither echo nor output (bash's PS0).
`P;k=p` with `sh=` answers the line by which a shell is adopted: who it is. `P;k=u`: it sends no more marks. `P;k=i`:
it is at this prompt, and runs nothing.

All that is in the log, also the nonce: a program can print it too. So D and E carry `p=`, a part of the proof that the
shell was given with the command, where it was. Such a command is promised: D and E without its proof are
somebody else's, and so is any other prompt while it runs. Its C and D count in every state, as they show what was
printed before to be somebody else's.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any
from urllib.parse import unquote_to_bytes

from tmuxmcp.contract.value import asdict, field, fields, replace, value

LONGEST_MARK = 16 * 1024
"""Bytes: a working directory of 4096 bytes, each as %XX, and room."""

UNNAMED_COMMAND = "?"
"""The name of a command of which bash can say the name only when it ends."""

ENDS_ITS_SHELL = re.compile(r"\s*(?:builtin\s+)?(?:exit|logout|exec)\b[^\n;&|()`]*")
"""A command that does nothing but end its shell: traps have no say in its exit code."""

BECOMES_ANOTHER = re.compile(r"(?:.*[;&|\n])?\s*(?:builtin\s+)?exec\s+(?!\d*[<>])[^\n;&|()`]+", re.DOTALL)
"""A command that puts another program into its shell's place at its end: no trap for the shell's end runs."""

SETS_TRAP = re.compile(r"\btrap\b")
"""A command that may set a trap, which bash and its like do not tell of before the next prompt."""

_OPENER = b"\x1b]133;"
_MARK = re.compile(rb"\x1b\]133;([ABCDEP])((?:;[^\x00-\x1f;]{0,%d}){1,10})(?:\x07|\x1b\\)" % LONGEST_MARK)
_SECONDS_FIELD = re.compile(r"[0-9]{1,12}(?:[.,][0-9]{1,9})?")
_UNFINISHED_MARK = re.compile(rb"\x1b\]133;[^\x00-\x1f]*\x1b?\Z")


@value
class Mark:
    """One mark of ours."""

    kind: str
    """`A` `B` `C` `D` `E` `P`."""
    start: int
    """Offset of its first byte."""
    end: int
    """Offset behind its last byte."""
    number: int
    """Of the prompt it belongs to."""
    status: int | None = None
    """D, E: the command's exit status."""
    cwd: str | None = None
    """D: the working directory then."""
    job: str = ""
    """C, D, P: the command that was given by our key."""
    time: float | None = None
    """C, D: when, in seconds since 1970, where the shell says so."""
    uptime: float | None = None
    """The same in seconds since the machine began, from a shell that knows no other clock."""
    text: str | None = None
    """C: the command, where the shell tells it; a long one ends with `…`."""
    why: str = ""
    """P: `s` the command goes on, `r` it was refused, `g` the shell listens for one, `p` it says who it is,
    `u` it sends no more marks, `x` it takes none, `e` its line editor shows no more.
    C, E: `t` it has a trap for a signal. C: `x` it has one for its end. E: `h` a signal ends the shell.
    D: `l` it comes late, `v` behind the repeated line of the shell that says it,
    `b` it ran, `n` nothing ran."""
    behind_hooks: bool = False
    """D: what the user has run before a prompt may have run before."""
    nonce: str = ""
    """Of the shell that sent it."""
    who: str = ""
    """P with `p`: the shell, as it calls itself."""
    what: str = ""
    """P with `x`: the variable that stands in the way."""
    more_follows: bool = False
    """D: some of the output may come only later, through another program."""
    stderr_elsewhere: bool = False
    """C: the shell's stderr, to which it prints its prompt and what is typed, is not the terminal."""
    proof: str = ""
    """D, E: the half of a proof that comes with it."""


class MarkScanner:
    """Finds our marks in a stream, however it is cut; keeps only an unfinished one."""

    def __init__(self, nonces: str | Iterable[str], offset: int = 0) -> None:
        """`nonces`: of the shells that are ours, or of the only one; `offset`: of the first byte that will be fed."""
        self._nonces = {nonces} if isinstance(nonces, str) else set(nonces)
        self._rest = b""
        self._next = offset

    @property
    def offset(self) -> int:
        """Where a new scanner has to begin to see everything that this one has not finished."""
        return self._next - len(self._rest)

    def expect(self, nonce: str) -> None:
        """From now on find the marks of one more shell, also one that has begun in what is kept."""
        self._nonces.add(nonce)

    def feed(self, data: bytes) -> list[Mark]:
        """Return the marks that `data` completed, in order."""
        base = self.offset
        self._next += len(data)
        data = self._rest + data
        found = [mark for match in _MARK.finditer(data) if (mark := self._mark(match, base))]
        self._rest = _unfinished(data)
        return found

    def _mark(self, match: re.Match[bytes], base: int) -> Mark | None:
        kind = match.group(1).decode()
        words = match.group(2)[1:].decode("ascii", "replace").split(";")
        options = dict([word.split("=", 1) for word in words if "=" in word])
        if "AID" in options:
            options = _uncapitalized(options)
        number = options.get("n", "")
        nonce = options.get("aid", "")
        if nonce not in self._nonces or not number.isdecimal() or len(number) > 12:
            return None
        cwd = None
        status = int(words[0]) if kind in "DE" and words[0].isdecimal() and len(words[0]) <= 12 else None
        if kind == "D":
            if status is None:
                return None
            cwd = _unquoted(options["cwd"]) if "cwd" in options else None
        return Mark(
            kind,
            base + match.start(),
            base + match.end(),
            int(number),
            status,
            cwd,
            job=options.get("job", ""),
            time=_seconds(options["t"]) if "t" in options else None,
            uptime=_seconds(options["up"]) if "up" in options else None,
            text=_unquoted(options["cmdline_url"]) if kind == "C" and "cmdline_url" in options else None,
            why=options.get("k", ""),
            nonce=nonce,
            who=options.get("sh", ""),
            what=options.get("what", ""),
            behind_hooks="h" in options,
            more_follows="w" in options,
            stderr_elsewhere="s" in options,
            proof=options.get("p", ""),
        )


def _uncapitalized(options: dict[str, str]) -> dict[str, str]:
    """What a mark told before its terminal made capitals of it (`stty olcuc`), without texts of the user's."""
    return {name.lower(): value.lower() for name, value in options.items() if name not in ("CWD", "CMDLINE_URL")}


def _unquoted(url: str) -> str:
    return unquote_to_bytes(url).decode("utf-8", "replace")


def _seconds(said: str) -> float | None:
    """A time as a shell writes it: some write a comma for the point."""
    return float(said.replace(",", ".")) if _SECONDS_FIELD.fullmatch(said) else None


def _unfinished(data: bytes) -> bytes:
    """The mark that has begun at the end of `data`, if one has."""
    start = data.rfind(_OPENER, max(0, len(data) - LONGEST_MARK))
    if start >= 0 and _UNFINISHED_MARK.match(data, start):
        return data[start:]
    for length in range(len(_OPENER) - 1, 0, -1):
        if data.endswith(_OPENER[:length]):
            return data[-length:]
    return b""


@value
class Numbers:
    """Gives the prompts of several shells of a session numbers of which none is used twice.

    Each shell counts its own prompts. One in which another was at work goes on behind the numbers that this one used.
    """

    highest: int = 0
    """The highest number that was used."""
    shifts: Mapping[str, int] = field(default_factory=dict)
    """By nonce: what is added to the numbers that this shell counts."""

    def of(self, mark: Mark, last: int) -> tuple[Numbers, Mark]:
        """The mark with its number in the session, and the numbers after it.

        Args:
            last: number of the prompt that this shell showed last.
        """
        shift = self.shifts.get(mark.nonce, 0)
        if mark.number + shift <= last:
            return self, replace(mark, number=mark.number + shift) if shift else mark
        behind = max(shift, self.highest + 1 - mark.number)
        number = mark.number + behind
        after = Numbers(max(self.highest, number), {**self.shifts, mark.nonce: behind} if behind else self.shifts)
        return after, replace(mark, number=number) if behind else mark


class ShellState(StrEnum):
    """What a shell with marks is doing."""

    STARTING = "starting"
    """Before the first prompt, or between the end of a command and the next prompt."""
    PROMPT = "prompt"
    CONTINUATION = "continuation"
    """It wants more of an unfinished command."""
    RUNNING = "running"


@value
class Finished:
    """A command that the shell has finished."""

    number: int
    status: int | None
    """None: it ended with its shell, or C-c may have broken it off, and nobody tells."""
    echo_start: int
    """Where its input began: behind the prompt."""
    output_start: int | None
    """None: nothing ran (an empty line, a comment)."""
    echo_end: int
    output_end: int
    cwd: str | None
    job: str = ""
    """The command, if it was given by our key."""
    began: float | None = None
    """When it began to run, in seconds since 1970; None: not known."""
    ended: float | None = None
    text: str | None = None
    """The command, where the shell tells it; a long one ends with `…`."""
    late: bool = False
    """The shell said so only when it was asked: its hooks had been taken away."""
    behind_hooks: bool = False
    """What the user has run before a prompt may have printed the end of the output."""
    more_follows: bool = False
    """Some of its output may come only later, through another program that the shell prints to."""
    stderr_elsewhere: bool = False
    """What the shell prints to stderr, as its prompt, went elsewhere than to the terminal."""
    proven: bool = False
    """Certainly its shell says so: by the proof that it was given with the command."""
    repeats: bool = False
    """The shell repeats what it reads (`set -v`): so the line that says it, behind the output."""
    ran: bool | None = None
    """Whether anything of it ran, as its shell says; None: it does not say."""


@value
class ShellTrack:
    """What the marks so far say; a value that can be written down and taken up again.

    A mark counts only in the state in which the shell can print it: `_TRANSITIONS` is the table.
    """

    state: ShellState = ShellState.STARTING
    number: int = 0
    """Of the prompt that was shown last."""
    prompt_start: int = 0
    prompt_end: int = 0
    echo_end: int = 0
    output_start: int = 0
    output_end: int = 0
    status: int | None = None
    """Exit status of the last command."""
    cwd: str | None = None
    job: str = ""
    """The command that runs, if it was given by our key."""
    began: float | None = None
    """When it began, and what it is: as `Finished` has them."""
    text: str | None = None
    ended: int | None = None
    """Where the output ended, when the shell said so before its D."""
    broken_off: bool = False
    """A signal ended the shell in the middle of the command, as it says."""
    trapped: bool = False
    """The shell has a trap for a signal, which may have ended it in the middle of the command."""
    ended_with: int | None = None
    """Its exit status, where the shell said so with its E."""
    exit_trapped: bool = False
    """The shell has a trap for its own end, which may have given it another exit code."""
    stderr_elsewhere: bool = False
    """When the command began, the shell's stderr was not the terminal."""
    redrawn: int | None = None
    """Where, behind a command's beginning, the prompt of that command was drawn anew: nothing told that it ended."""
    refused: tuple[str, str, int] | None = None
    """`Mark.why` a command that was given by our key was not run, its name if that is known, and where it says so."""
    listens: int = 0
    """Where the shell last said that it listens for a command."""
    promise: Promise | None = None
    """By which the end of the command that runs is known; None: nothing was promised of it."""
    proven: int = 0
    """Number of the last command whose end was proven: what is printed of it later is a copy."""

    @property
    def prompted(self) -> int | None:
        """Where the shell began to show a prompt without having told that the command ended; None: it did not."""
        at = self.redrawn if self.ended is None else self.ended
        return at if self.state is ShellState.RUNNING else None

    def gives_code_to(self, text: str | None, code: int | None) -> bool:
        """Whether the exit code with which the shell ended is that of the command which ran then.

        Args:
            text: the command; None: it is not known.
            code: that exit code.
        """
        if self.ended_with is not None and code is not None and self.ended_with & 255 != code:
            return False
        trapped = self.trapped or bool(text and SETS_TRAP.search(text))
        ends = BECOMES_ANOTHER if self.exit_trapped else ENDS_ITS_SHELL
        only_ends = bool(text and ends.fullmatch(text))
        return not self.broken_off and (only_ends or not (trapped or self.exit_trapped))

    @property
    def listening(self) -> bool:
        """It said that it listens for a command, and has been told none since."""
        refused_at = self.refused[2] if self.refused else -1
        return self.state is ShellState.PROMPT and self.listens > max(self.prompt_end, refused_at)

    def apply(self, mark: Mark) -> tuple[ShellTrack, Finished | None]:
        """What the marks say with this one more, and the command that it finished, if it did."""
        handler = _TRANSITIONS.get((self.state, mark.kind))
        track = handler(self, mark) if handler else self
        return track, self._finished(track, mark) if mark.kind == "D" and track is not self else None

    def with_promise(self, mark: Mark, promise: Promise) -> ShellTrack:
        """What the marks say with the C of a command that was promised, whatever they said before."""
        track = replace(self, state=ShellState.PROMPT, number=mark.number)._output_begins(mark)
        return replace(track, promise=promise)

    def prove(self, mark: Mark, job: str) -> tuple[ShellTrack, Finished]:
        """What the marks say with a D that is proven, whatever they said before, and the command that it finished.

        Args:
            job: its name.
        """
        unnamed = self.job == UNNAMED_COMMAND and self.number == mark.number
        if self.state is ShellState.RUNNING and (self.job == job or unnamed):
            before = replace(self, number=mark.number)
        else:
            before = replace(self, state=ShellState.PROMPT, number=mark.number, ended=None, redrawn=None)
        track = before._done(mark)
        finished = before._finished(track, replace(mark, job=job))
        return replace(track, promise=None, proven=mark.number), replace(finished, proven=True)

    def at_prompt(self, mark: Mark) -> ShellTrack:
        """What the marks say with the answer of a shell that was asked at which prompt it is, whatever they said."""
        same = self.state is ShellState.PROMPT and self.number == mark.number
        start = mark.start if self.prompted is None else self.prompted
        track = self if same else replace(self, number=mark.number, prompt_start=start, prompt_end=mark.start)
        listens = mark.end if mark.why == "g" else self.listens
        return replace(track, state=ShellState.PROMPT, job="", ended=None, redrawn=None, promise=None, listens=listens)

    def as_ended(self, end: int, status: int | None) -> Finished:
        """The command that runs, as if it had ended there."""
        echo = self.prompt_end, self.output_start, self.echo_end
        return Finished(self.number, status, *echo, end, None, self.job, self.began, text=self.text)

    def is_noise(self, mark: Mark) -> bool:
        """Whether a mark is somebody else's, as long as all that was printed before it is known.

        Not asked of the C and D of a command that was promised.
        """
        if mark.number <= self.proven:
            return True
        if self.promise is None:
            return False
        if mark.kind == "E":
            return hash_of(mark.proof) != self.promise.over
        # A prompt of the same number is drawn anew where nothing told of the end: a reason to ask the shell.
        return mark.kind != "A" or mark.number != self.number

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for `from_dict`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ShellTrack:
        """The track that `as_dict` wrote down."""
        known = {each: values[each] for each in fields(cls) if each in values}
        refused, promise = known.get("refused"), known.get("promise")
        known |= {"refused": tuple(refused) if refused else None, "promise": Promise(**promise) if promise else None}
        return cls(**{**known, "state": ShellState(values["state"])})

    def _prompt_begins(self, mark: Mark) -> ShellTrack:
        return replace(self, number=mark.number, prompt_start=mark.start) if mark.number >= self.number else self

    def _prompt_after_lost_marks(self, mark: Mark) -> ShellTrack:
        """A later prompt shows that the command is over: its last mark was not recorded."""
        if mark.number <= self.number:
            return replace(self, redrawn=mark.start) if mark.number == self.number else self
        return replace(self, state=ShellState.STARTING, promise=None)._prompt_begins(mark)

    def _prompt_ends(self, mark: Mark) -> ShellTrack:
        # Of a later prompt it was not recorded where it began.
        track = self._prompt_begins(mark) if mark.number > self.number else self
        if mark.number != track.number:
            return track
        return replace(track, prompt_end=mark.end, state=ShellState.PROMPT, job="", ended=None, promise=None)

    def _prompt_ends_after_lost_marks(self, mark: Mark) -> ShellTrack:
        return self._prompt_ends(mark) if mark.number > self.number else self

    def _listens_after_lost_marks(self, mark: Mark) -> ShellTrack:
        """The shell answers our key at a later prompt, of which nothing was recorded."""
        if mark.number > self.number and mark.why in ("g", "r"):
            return self._prompt_ends(mark)._asks(mark)
        return self

    def _asks(self, mark: Mark) -> ShellTrack:
        if mark.number > self.number:
            return self._listens_after_lost_marks(mark)
        if mark.number != self.number:
            return self
        if mark.why in ("p", "u", "e"):
            return self
        if mark.why == "g":
            return replace(self, listens=mark.start)
        if mark.job or mark.why == "r":
            return replace(self, refused=(mark.why, mark.job, mark.start))
        return replace(self, state=ShellState.CONTINUATION)

    def _output_begins(self, mark: Mark) -> ShellTrack:
        if mark.number != self.number:
            return self
        return replace(
            self,
            state=ShellState.RUNNING,
            echo_end=mark.start,
            output_start=mark.end,
            job=mark.job,
            began=mark.time,
            text=mark.text,
            ended=None,
            broken_off=False,
            trapped=mark.why == "t",
            ended_with=None,
            exit_trapped=mark.why == "x",
            stderr_elsewhere=mark.stderr_elsewhere,
            redrawn=None,
            promise=None,
        )

    def _output_ends(self, mark: Mark) -> ShellTrack:
        if mark.number != self.number:
            return self
        if mark.why == "t":
            at = mark.start if self.ended is None else self.ended
            return replace(self, ended=at, ended_with=mark.status, trapped=True)
        return replace(self, ended=mark.start, ended_with=mark.status, broken_off=mark.why == "h")

    def _done(self, mark: Mark) -> ShellTrack:
        if mark.number != self.number or mark.status is None:
            return self
        end = mark.start if self.ended is None else self.ended
        if mark.why == "l" and self.ended is None and self.redrawn is not None:
            end = self.redrawn
        return replace(
            self,
            state=ShellState.STARTING,
            status=mark.status,
            output_end=end,
            cwd=mark.cwd or self.cwd,
            ended=None,
            ended_with=None,
            redrawn=None,
        )

    def _output_ends_again(self, mark: Mark) -> ShellTrack:
        return self._output_ends(mark) if self.status is not None else self

    def _done_again(self, mark: Mark) -> ShellTrack:
        """The same command has ended once more: the mark before was somebody else's."""
        return self._done(mark) if self.status is not None else self

    def _done_at_prompt(self, mark: Mark) -> ShellTrack:
        """Nothing ran; or the command before ends only now: that end and the prompt behind it were somebody else's."""
        if mark.number == self.number - 1 and self.status is not None:
            return replace(self, number=mark.number)._done(mark)
        return self._done(mark)

    def _finished(self, after: ShellTrack, mark: Mark) -> Finished:
        """The command that was under way, and is done after this mark."""
        assert mark.status is not None
        said = {"b": True, "n": False}.get(mark.why)
        ran, end = self.state is ShellState.RUNNING and said is not False, after.output_end
        start, echo_end = (self.output_start, self.echo_end) if ran else (None, end)
        began, text = (self.began, self.text) if ran else (None, None)
        # Some shells tell the name of a command only when it begins.
        cwd, job, late = mark.cwd, mark.job or (self.job if ran else ""), mark.why == "l"
        return Finished(
            mark.number,
            mark.status,
            self.prompt_end,
            start,
            echo_end,
            end,
            cwd,
            job,
            began,
            mark.time,
            text,
            late,
            mark.behind_hooks and self.ended is None,
            mark.more_follows,
            ran and self.stderr_elsewhere,
            repeats=mark.why == "v",
            ran=said,
        )


_TRANSITIONS = {
    (ShellState.STARTING, "A"): ShellTrack._prompt_begins,
    (ShellState.STARTING, "B"): ShellTrack._prompt_ends,
    (ShellState.STARTING, "C"): ShellTrack._output_begins,
    (ShellState.STARTING, "D"): ShellTrack._done_again,
    (ShellState.STARTING, "E"): ShellTrack._output_ends_again,
    (ShellState.STARTING, "P"): ShellTrack._listens_after_lost_marks,
    (ShellState.PROMPT, "A"): ShellTrack._prompt_begins,
    (ShellState.PROMPT, "B"): ShellTrack._prompt_ends,
    (ShellState.PROMPT, "P"): ShellTrack._asks,
    (ShellState.PROMPT, "C"): ShellTrack._output_begins,
    (ShellState.PROMPT, "D"): ShellTrack._done_at_prompt,
    (ShellState.PROMPT, "E"): ShellTrack._output_ends,
    (ShellState.CONTINUATION, "A"): ShellTrack._prompt_begins,
    (ShellState.CONTINUATION, "B"): ShellTrack._prompt_ends,
    (ShellState.CONTINUATION, "C"): ShellTrack._output_begins,
    (ShellState.CONTINUATION, "D"): ShellTrack._done,
    (ShellState.CONTINUATION, "E"): ShellTrack._output_ends,
    (ShellState.CONTINUATION, "P"): ShellTrack._asks,
    (ShellState.RUNNING, "A"): ShellTrack._prompt_after_lost_marks,
    (ShellState.RUNNING, "B"): ShellTrack._prompt_ends_after_lost_marks,
    (ShellState.RUNNING, "P"): ShellTrack._listens_after_lost_marks,
    (ShellState.RUNNING, "D"): ShellTrack._done,
    (ShellState.RUNNING, "E"): ShellTrack._output_ends,
}


# ---- Proofs: what only a shell can say of a command, and only once that command is over ------------------------------
#
# `run` gives a shell a proof with each command. The shell keeps it to itself, and shows its first half where the output
# ends (E) and its second half with the exit status (D). What was promised before, the hash of each half, is no secret:
# it tells the shell's marks from copies that programs print. A proof counts once, so what is copied later is nothing
# new.

PROOF_DIGITS = 32
"""Hexadecimal digits of each half: 128 bits, which nobody guesses."""


@value
class Promise:
    """The hashes of a proof's halves."""

    over: str
    """Of the half that comes with E."""
    done: str
    """Of the half that comes with D."""


def new_proof() -> str:
    """A proof, both halves one after the other."""
    return secrets.token_hex(PROOF_DIGITS)


def promise_of(proof: str) -> Promise:
    """What may be told of a proof beforehand."""
    return Promise(hash_of(proof[:PROOF_DIGITS]), hash_of(done_half(proof)))


def done_half(proof: str) -> str:
    """The half that comes with D."""
    return proof[PROOF_DIGITS:]


def hash_of(half: str) -> str:
    """By which half a proof is known."""
    return hashlib.sha256(half.encode("utf-8", "replace")).hexdigest()
