"""What the marks in a session's log say of its shells, as far as the log was scanned; it waits for nothing.

The first shell is the session's own. In front of it stand those that were adopted (`record.levels`), each with marks of
its own. The marks of one say nothing of another: that a shell has ended is judged elsewhere (`levels`).
"""

from __future__ import annotations

import os
import re
import sys
import time

from tmuxmcp.contract.value import replace
from tmuxmcp.machine.launch.shells.bash import REPEATED_HOOK
from tmuxmcp.record.commands import TypedInput
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.levels import Checkpoint, Level, LevelFile
from tmuxmcp.record.log import LOG_READ_BYTES, RawLog
from tmuxmcp.sessions.commands import Commands
from tmuxmcp.sessions.levels import LevelScan
from tmuxmcp.terminal.marks import Finished, Mark, MarkScanner, Numbers, ShellState, ShellTrack, hash_of
from tmuxmcp.terminal.text.echo import ECHO_LIMIT, behind_paste_mode
from tmuxmcp.terminal.text.plain import plain

CHECKPOINT_BYTES = 1 << 22
"""How much is scanned between two checkpoints: what a killed broker's successor scans again, at most."""

REMEMBERED_COMMANDS = 64
"""Finished commands of a shell that are remembered, proven and not: more than one wait or `run` can miss."""

SCANNED_BYTES = 4 * LOG_READ_BYTES
"""How much is scanned at once: others may go on in between."""

HOOK_BYTES = 512
"""Bytes before the end of a command in which `REPEATED_HOOK` is."""

CLOCKS_DIFFER_S = 1.0
"""How far clocks may disagree: a file system writes down times in steps."""

CLOCK_SET_S = 0.1
"""A clock that went this far away from the time since the machine began was set."""

LAST_WORDS_BYTES = 2048

SHOWN_KEY = re.compile(r"\^(?:C|Z(?:\w+: [^\n]*\n)?)\Z")
"""What stands at the end of a command's text where a key has ended or stopped it."""


class ShellView:
    """The shells of one session, as their marks tell it."""

    def __init__(self, log: RawLog, directory: SessionDirectory, nonce: str, began: float, index: Commands) -> None:
        """Take note of each command in `index`; `began`: when the session was made, in seconds since 1970."""
        self._index = index
        self._log, self._directory, self._nonce, self._began = log, directory, nonce, began
        self._boot: float | None = None
        self._saved = 0
        self.size = 0
        """Everything up to this offset was scanned."""
        self._resumed = 0
        """Where the scan went on behind output that was no longer kept when its turn came."""
        self.file = LevelFile(directory)
        self._own = Level(nonce)
        self._levels: dict[str, Level] = {nonce: self._own}
        """By nonce: the own shell, and all that were adopted or are about to be, also those that have ended."""
        self.standing: list[Level] = [self._own]
        """All shells that are there, as far as was seen, the session's own first."""
        self.pending: Level | None = None
        """The shell that is being adopted; None: none is."""
        self._tracks: dict[str, ShellTrack] = {nonce: ShellTrack()}
        self._commands: dict[str, list[Finished]] = {nonce: []}
        self._held: dict[str, list[Finished]] = {}
        """By nonce: what a shell is said to have finished while another stands in front of it."""
        self._ended: set[str] = set()
        """Nonces of those whose last command was taken note of."""
        self._numbers = Numbers()
        self._scanner = MarkScanner(nonce)
        self._proven: tuple[int, str] = (-1, "")
        """Of the last command whose end was proven: size of the log when it was typed, and its name."""
        self.asked: dict[str, int] = {}
        """By nonce, size of the log when a shell was asked at which prompt it is, until it answers."""
        self.answers: dict[str, Mark] = {}
        """By nonce, what a shell answered that is asked who it is."""
        self.refusals: dict[str, str] = {}
        """By nonce, the variable for which a shell takes no marks."""
        self.undone: set[str] = set()
        """Nonces of those that said that they send no more marks."""

    def go_on(self) -> None:
        """Take up what was last written down of the same shells, if that can be read."""
        self.see_levels()
        found = Checkpoint.load(self._directory)
        if found and found.nonce == self._nonce and found.offset <= self._log.size():
            self._tracks |= {**found.inner, self._nonce: found.track}
            self._numbers = found.numbers or Numbers(found.track.number)
            self._proven = found.proven
            self._saved = found.offset
            self._begin_at(found.offset)
            done = [each for each in self._levels.values() if each.until is not None and each.until <= found.offset]
            self._ended = {each.nonce for each in done}

    # ---- the shells ----------------------------------------------------------------------------

    @property
    def highest(self) -> int:
        """The highest number that a prompt has had."""
        return max(self._numbers.highest, self._index.highest)

    @property
    def has_inner(self) -> bool:
        """A shell was adopted, or is about to be."""
        return len(self._levels) > 1

    def level_of(self, nonce: str) -> Level:
        """The shell of a nonce; the session's own where it is not known."""
        return self._levels.get(nonce, self._own)

    def track_of(self, nonce: str) -> ShellTrack:
        """What the marks of one shell say."""
        return self._tracks.get(nonce) or ShellTrack()

    def scans(self) -> tuple[LevelScan, ...]:
        """What the marks say of each shell that is there, the session's own first."""
        found = []
        for each in self.standing:
            commands, held = self._commands.get(each.nonce, ()), self._held.get(each.nonce, ())
            found.append(LevelScan(each, self.track_with_echo(each), tuple(commands), tuple(held)))
        return tuple(found)

    def track_with_echo(self, level: Level) -> ShellTrack:
        """What a shell does: by its marks, and where these tell of no command's begin, by the echo of a line."""
        track = self.track_of(level.nonce)
        if not level.reads_lines or track.state not in (ShellState.PROMPT, ShellState.CONTINUATION) or track.listening:
            return track
        entered = self._entered(track.prompt_end, self.size)
        if entered is None:
            return track
        return replace(track, state=ShellState.RUNNING, echo_end=entered, output_start=entered, job="", began=None)

    def _entered(self, start: int, end: int) -> int | None:
        """Where the first line ends that was entered behind a prompt; None: none was."""
        echo = self._log.read(start, min(end - start, ECHO_LIMIT)) if end > start else b""
        at = echo.find(b"\n")
        return None if at < 0 else start + at + 1

    def see_levels(self) -> None:
        """Take in which shells any broker has adopted, and which have ended."""
        if self.file.read():
            self.take_levels()

    def take_levels(self) -> None:
        """The same, where this broker has just changed them."""
        known = {each.nonce: each for each in self.file.value}
        for nonce in [each for each in self._levels if each not in known and each != self._nonce]:
            for kept in (self._levels, self._tracks, self._commands, self.answers, self.refusals, self._held):
                kept.pop(nonce, None)
        for nonce, level in known.items():
            if nonce not in self._levels:
                self._scanner.expect(nonce)
                self._commands[nonce] = []
                self._tracks.setdefault(nonce, ShellTrack())
            self._levels[nonce] = level
        self.standing = [each for each in self._levels.values() if each.stands]
        self.pending = next((each for each in self._levels.values() if each.pending), None)

    # ---- the log -------------------------------------------------------------------------------

    def scan_some(self) -> bool:
        """Scan a piece; True while there is more. Not interrupted, so that several callers may scan."""
        behind = self._log.size() - self.size
        if behind <= 0:
            self._take_what_has_ended()
            return False
        if behind > SCANNED_BYTES and self._log.head() > self.size:
            self._resume_at(self._log.head())  # what lay between is gone
        data = self._log.read(self.size, SCANNED_BYTES)
        if not data and self._log.head() > self.size:  # cut just now
            self._resume_at(self._log.head())
            return True
        self.see_levels()  # behind the reading: a shell is written down before it prints anything with its nonce
        for mark in self._scanner.feed(data):
            self._take(mark)
        self.size += len(data)
        more = len(data) == SCANNED_BYTES
        if not more:
            self._take_what_has_ended()
        if self.size - self._saved >= CHECKPOINT_BYTES or self._index.many_new:
            self.save()
        return more

    def save(self) -> None:
        """Write down what the marks say, so that a later broker need not scan from the start."""
        if self._held:
            return  # what is not written down, a later broker finds in the log
        if self._saved != self.size and self._index.save():  # first: behind a checkpoint nobody looks for commands
            self._saved = self.size
            inner = {nonce: track for nonce, track in self._tracks.items() if nonce != self._nonce}
            own = self._tracks[self._nonce]
            offset = self._scanner.offset
            Checkpoint(self._nonce, offset, own, inner, self._numbers, self._proven).save(self._directory)

    def end_own(self) -> None:
        """Take note that the own shell has ended: another is in its place, and what it ran was what brought that."""
        track = self._tracks[self._nonce]
        if track.state is ShellState.RUNNING:
            self._tracks[self._nonce] = replace(track, state=ShellState.STARTING)
            self._index.take(_ended_with(replace(self._own, until=self.size), track))

    def begin_at_first(self) -> None:
        """Scan nothing before the first of those that are known was adopted: no shell has sent marks there."""
        first = min((each.since for each in self._levels.values() if each is not self._own), default=0)
        if self.size < first:
            self._begin_at(first)

    def _resume_at(self, offset: int) -> None:
        """Scan on behind what is no longer kept."""
        self._resumed = offset
        self._begin_at(offset)

    def _take(self, mark: Mark) -> None:
        """Take in one mark of one of the shells."""
        nonce = mark.nonce
        level = self._levels.get(nonce)
        if level is None or (level.until is not None and mark.start >= level.until):
            return
        if mark.kind == "P" and mark.why == "p":
            self.answers[nonce] = mark
            return
        if mark.kind == "P" and mark.why == "x":
            self.refusals[nonce] = mark.what or "prompt"
            return
        if mark.kind == "P" and mark.why == "u":
            self.undone.add(nonce)
        track = self._tracks[nonce]
        numbers, mark = self._numbers.of(mark, track.number)
        if mark.time is not None or mark.uptime is not None:
            mark = self._dated(mark)
        after = self._after_mark(track, mark)
        if after is None:
            return
        self._tracks[nonce], finished = after
        if self._tracks[nonce].number == mark.number:
            self._numbers = numbers
        if finished:
            self._finish(level, finished)

    def _after_mark(self, track: ShellTrack, mark: Mark) -> tuple[ShellTrack, Finished | None] | None:
        """What a shell's marks say with this one more, and what it finished; None: it is somebody else's."""
        promised = self._promised(track, mark) if mark.job or mark.proof else None
        if promised and promised.promise and mark.kind == "C":
            self.asked.pop(mark.nonce, None)
            return track.with_promise(replace(mark, job=promised.job), promised.promise), None
        if promised:
            self._proven = max(self._proven, (promised.offset, promised.job))
            for nonce, other in self._tracks.items():
                if nonce != mark.nonce and other.promise == promised.promise:
                    self._tracks[nonce] = replace(other, promise=None)  # a proof counts once
            return track.prove(mark, promised.job)
        if mark.kind == "P" and mark.why in ("g", "i") and self.asked.get(mark.nonce, mark.end) <= mark.start:
            self.asked.pop(mark.nonce)
            return track.at_prompt(mark), None
        # Where output was lost, so may be the end of a command, and its proof. Nothing else shows a status.
        if track.is_noise(mark) and (mark.kind in "CDE" or not self._index.lost(track.output_start, mark.start)):
            return None
        return track.apply(mark)

    def _promised(self, track: ShellTrack, mark: Mark) -> TypedInput | None:
        """The command, promised and not yet proven, that this mark is of: its C, or its D with the proof."""
        found = None
        if mark.kind == "C" and mark.job:
            found = self._index.promised(job=mark.job)
            if found and track.promise == found.promise:
                return None  # its C once more
        elif mark.kind == "D" and mark.proof:
            found = self._index.promised(done=mark.proof)
            if track.promise and hash_of(mark.proof) == track.promise.done:
                # Its own, whatever shells in front of it have proven since; it is forgotten if much was typed.
                return found or TypedInput(track.prompt_end, None, job=track.job)
        offset, job = self._proven
        return found if found and found.offset >= offset and found.job != job else None

    def _finish(self, level: Level, finished: Finished) -> None:
        """Take note of a command's end; while another shell is in front, that is only said to be one."""
        if finished.repeats:
            finished = self._without_hook(finished)
        lost = finished.echo_start < self._resumed <= finished.output_end
        if lost and finished.output_start is None and finished.ran is not False and finished.job:
            # It printed more than is kept before its turn to be scanned came: the mark of its beginning is among that.
            finished = replace(finished, output_start=finished.echo_start, echo_end=finished.echo_start)
        if finished.status == 0 and self._seems_broken_off(finished):
            finished = replace(finished, status=None)
        if level.reads_lines and finished.output_start is None:
            finished = self._with_echo(finished)
        elif finished.proven and finished.output_start is not None and finished.text is None and not level.reads_lines:
            finished = self._with_refused_lines(finished, level.nonce)
        known = self._commands[level.nonce]
        known.append(finished)
        # Anybody can print many ends, and calls prove many: neither kind takes the other's room.
        alike = [each for each in known if each.proven == finished.proven]
        if len(alike) > REMEMBERED_COMMANDS:
            known.remove(alike[0])
        if any(each.number > level.number for each in self.standing):
            self._held.setdefault(level.nonce, []).append(finished)
        else:
            self._index.take(finished, level.number)

    def _seems_broken_off(self, finished: Finished) -> bool:
        """Whether C-c or C-z stands at the end of a command of zsh or fish, as the kernel shows it.

        Both give a loop or a list that C-c broke off the status of what ran last in it; fish keeps that of before for a
        job that C-z stopped, and says so. They, and not bash, tell their commands' text.
        """
        if finished.text is None or finished.output_start is None:
            return False
        start = max(finished.output_start, finished.output_end - LAST_WORDS_BYTES)
        last = self._log.read(start, finished.output_end - start)
        # fish 4 sends marks of its own behind it, among others.
        return b"^" in last and SHOWN_KEY.search(plain(last, LAST_WORDS_BYTES).text) is not None

    def _with_echo(self, finished: Finished) -> Finished:
        """A command of a shell that does not tell where it begins: behind the line that was entered, if it has text."""
        entered = self._entered(finished.echo_start, finished.output_end)
        if entered is None or not self._log.read(finished.echo_start, entered - finished.echo_start).strip():
            return finished
        return replace(finished, echo_end=entered, output_start=entered)

    def _with_refused_lines(self, finished: Finished, nonce: str) -> Finished:
        """A command of several lines with what bash said of the first ones, if it refused those: it runs line by line.

        Of the shells with a line editor it alone does, and it alone does not tell the text of what it runs. The mark of
        a command's beginning comes from the first line that runs.
        """
        typed = self._index.promised(job=finished.job)
        if typed is None or "\n" not in (typed.text or ""):
            return finished
        start = max(finished.echo_start, finished.echo_end - ECHO_LIMIT)
        shown = self._log.read(start, finished.echo_end - start)
        marks = MarkScanner(nonce, start).feed(shown)
        shown = shown[: next((each.start - start for each in marks if each.why == "e"), None)]
        taken = behind_paste_mode(shown)
        if not taken or b"\n" not in shown[taken:]:
            return finished
        return replace(finished, echo_end=start + taken, output_start=start + taken)

    def _without_hook(self, finished: Finished) -> Finished:
        """A command without the line of ours that bash repeats behind its output."""
        start = max(finished.output_end - HOOK_BYTES, 0)
        hook = REPEATED_HOOK.search(self._log.read(start, finished.output_end - start))
        return replace(finished, output_end=start + hook.start()) if hook else finished

    def _take_what_has_ended(self) -> None:
        """Take note of what shells ended that nobody stands in front of any more, and of what ended with its shell."""
        for level in [*self._levels.values()]:
            nonce = level.nonce
            if self._held and not any(each.number > level.number for each in self.standing):
                for finished in self._held.pop(nonce, ()):
                    self._index.take(finished, level.number)
            if level.until is not None and nonce not in self._ended and self.size >= level.until:
                self._ended.add(nonce)
                track = self.track_with_echo(level)
                if track.state is ShellState.RUNNING and nonce not in self.undone:
                    self._index.take(_ended_with(level, track), level.number)

    def _dated(self, mark: Mark) -> Mark:
        """The mark with its time since 1970; without one that cannot be true, as users can set a shell's clock."""
        said = mark.time if mark.uptime is None else self._booted() + mark.uptime
        try:
            written = os.stat(self._log.path).st_mtime
        except OSError:
            written = 0.0
        told = said if said is not None and self._began - CLOCKS_DIFFER_S <= said <= written + CLOCKS_DIFFER_S else None
        return mark if told == mark.time else replace(mark, time=told)

    def _booted(self) -> float:
        """When the machine began, in seconds since 1970: the same for all marks, unless somebody sets the clock."""
        booted = time.time() - _uptime()
        if self._boot is None or abs(booted - self._boot) > CLOCK_SET_S:
            self._boot = booted
        return self._boot

    def _begin_at(self, offset: int) -> None:
        self.size = offset
        self._numbers = replace(self._numbers, highest=self.highest)  # numbers that were used may be gone
        self._scanner = MarkScanner(self._levels, offset)


def _ended_with(level: Level, track: ShellTrack) -> Finished:
    """The command that ran when its shell ended: `exit`, or what killed it."""
    end = level.until if level.output_end is None else level.output_end
    status = level.exit_code if track.gives_code_to(track.text, level.exit_code) else None
    return track.as_ended(max(end or 0, track.output_start), status)


def _uptime() -> float:
    """Seconds since the machine began, as `/proc/uptime` counts them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else 0.0
