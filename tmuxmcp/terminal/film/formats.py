"""Asciicasts, versions 2 and 3: a film as lines of JSON that asciinema plays, and such lines as a film. Pure.

The first line says the terminal's size; each one behind it is `[time, code, data]`. Version 2 counts the time from the
beginning, version 3 from the line before. Codes: `o` output, `i` input, `r` size, `m` marker, `x` exit status, which
version 2 does not have. Data is text: bytes that are no UTF-8 become U+FFFD, and no character is cut in two.

Then a film as one JSON object a line, and what a shell ran as a script for it.
"""

from __future__ import annotations

import codecs
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any, Literal

from tmuxmcp.contract.value import value
from tmuxmcp.terminal.emulator.redraw import redraw
from tmuxmcp.terminal.emulator.replay import blank
from tmuxmcp.terminal.film.film import Film, FilmEvent, FilmExit, FilmInput, FilmMarker, FilmOutput, FilmResize
from tmuxmcp.terminal.film.frames import Projector
from tmuxmcp.terminal.snapshot import Snapshot
from tmuxmcp.terminal.widths import TmuxVersion, version_of

Version = Literal[2, 3]

MOST_LINE = 16 << 20
"""Characters of a line that is read."""

MOST_SIZE = 2000
"""Columns or rows of a cast that is read."""

_MARKER_STATUS = re.compile(r": exit (-?[0-9]{1,9})\Z")
"""How the marker of a command ends."""


# ---- writing -----------------------------------------------------------------------------------------


class Utf8:
    """Text of bytes that are cut anywhere: what begins a character waits for the rest of it."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def text(self, data: bytes) -> str:
        """The characters that are whole."""
        return self._decoder.decode(data)

    def drop(self) -> None:
        """Forget what waits."""
        self._decoder.reset()


def written(film: Film, version: Version = 3) -> Iterator[bytes]:
    """Give the lines of a cast.

    A film that does not begin on an empty screen first has that drawn. What begins a character at its end, and does
    not end it, is left out: no terminal showed it.
    """
    yield _line(_header(film, version))
    before = film.begin_ms
    for ms, code, data in _events(film):
        if code == "x" and version == 2:
            continue
        yield _event(ms - (film.begin_ms if version == 2 else before), code, data)
        before = ms


def _header(film: Film, version: Version) -> dict[str, Any]:
    cols, rows = film.start.cols, film.start.rows
    header: dict[str, Any] = {"version": version}
    header |= {"width": cols, "height": rows} if version == 2 else {"term": {"cols": cols, "rows": rows}}
    if film.created_at:
        header["timestamp"] = int(film.created_at + film.begin_ms / 1000)
    if film.title:
        header["title"] = film.title
    if film.term and version == 2:
        header["env"] = {"TERM": film.term}
    elif film.term:
        header["term"]["type"] = film.term
    if tmux := film.start.state.tmux:
        said = "{}.{}{}".format(*tmux)
        if version == 2:
            header["env"] = header.get("env", {}) | {"TERM_PROGRAM": "tmux", "TERM_PROGRAM_VERSION": said}
        else:
            header["term"]["version"] = f"tmux {said}"
    return header


def _tmux(header: dict[str, Any]) -> TmuxVersion | None:
    """The tmux that recorded a cast, where the header says so: it counts the columns."""
    env = _inner(header, "env")
    said = _string(_inner(header, "term").get("version"))
    if env.get("TERM_PROGRAM") == "tmux":
        said = f"tmux {_string(env.get('TERM_PROGRAM_VERSION'))}"
    return version_of(said) if said.startswith("tmux") else None


def _events(film: Film) -> Iterator[tuple[int, str, str]]:
    printed, typed = Utf8(), Utf8()
    if film.start != blank(film.start.cols, film.start.rows, film.start.offset, film.start.state.tmux):
        yield film.begin_ms, "o", printed.text(redraw(film.start))
    for each in film.moments:
        match each:
            case FilmOutput(ms, data):
                if text := printed.text(data):
                    yield ms, "o", text
            case FilmInput(ms, data):
                if text := typed.text(data):
                    yield ms, "i", text
            case FilmResize(ms, cols, rows, told):
                yield ms, "r", f"{cols}x{rows}"
                if told:
                    printed.drop()
                    yield ms, "o", printed.text(redraw(told, emptied=True))
            case FilmMarker(ms, label):
                yield ms, "m", label
            case FilmExit(ms, exit_code):
                yield ms, "x", str(exit_code)


def _event(ms: int, code: str, data: str) -> bytes:
    whole, rest = divmod(max(ms, 0), 1000)
    return f"[{whole}.{rest:03}, {json.dumps(code)}, {_json(data)}]\n".encode("utf-8", "replace")


def _line(values: dict[str, Any]) -> bytes:
    return _json(values).encode("utf-8", "replace") + b"\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# ---- reading -----------------------------------------------------------------------------------------


def read(lines: Iterable[bytes]) -> Film:
    """Give the film of a cast of version 2 or 3; codes that are not known are passed over.

    A last line without its end is left out: whoever wrote it was stopped.

    Raises:
        ValueError: this is no such cast; the text says why, and in which line.
    """
    numbered = ((number, _text(line, number)) for number, line in enumerate(lines, 1))
    header = _read_header(next(numbered, (1, ""))[1])
    moments = list(_moments(header, numbered))
    cols, rows = _size(header)
    return Film(
        start=blank(cols, rows, tmux=_tmux(header)),
        begin_ms=0,
        end_ms=moments[-1].ms if moments else 0,
        moments=moments,
        title=_string(header.get("title")),
        created_at=_number(header.get("timestamp")),
        term=_string(_inner(header, "term").get("type") or _inner(header, "env").get("TERM")),
    )


def _text(line: bytes, number: int) -> str:
    if len(line) > MOST_LINE:
        raise ValueError(f"line {number} is longer than {MOST_LINE:,} bytes")
    return line.decode("utf-8", "replace")


def _read_header(line: str) -> dict[str, Any]:
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("no asciicast: its first line is not JSON") from None
    if not isinstance(header, dict) or header.get("version") not in (2, 3):
        raise ValueError("no asciicast of version 2 or 3")
    return header


def _size(header: dict[str, Any]) -> tuple[int, int]:
    term = _inner(header, "term") if header["version"] == 3 else header
    names = ("cols", "rows") if header["version"] == 3 else ("width", "height")
    cols, rows = (int(_number(term.get(name))) for name in names)
    if not (0 < cols <= MOST_SIZE and 0 < rows <= MOST_SIZE):
        raise ValueError(f"no size of a terminal: {cols}x{rows}")
    return cols, rows


def _moments(header: dict[str, Any], lines: Iterable[tuple[int, str]]) -> Iterator[FilmEvent]:
    seconds, latest = 0.0, 0
    for number, line in lines:
        if not line.strip() or (line.startswith("#") and header["version"] == 3):
            continue
        if not line.endswith("\n") and not line.rstrip().endswith("]"):
            return
        time, code, data = _read_event(line, number)
        seconds = time if header["version"] == 2 else seconds + time
        latest = max(latest, round(seconds * 1000))
        if moment := _moment(latest, code, data, number):
            yield moment


def _read_event(line: str, number: int) -> tuple[float, str, str]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        values = None
    match values:
        case [int() | float() as time, str() as code, str() as data] if isfinite(time) and time >= 0:
            return float(time), code, data
    raise ValueError(f"line {number} is no [time, code, data]")


def _moment(ms: int, code: str, data: str, number: int) -> FilmEvent | None:
    match code:
        case "o":
            return FilmOutput(ms, data.encode("utf-8", "replace"))
        case "i":
            return FilmInput(ms, data.encode("utf-8", "replace"))
        case "m":
            status = _MARKER_STATUS.search(data)
            return FilmMarker(ms, data, int(status[1]) if status else None)
        case "x":
            return FilmExit(ms, int(data)) if data.strip().lstrip("-").isdecimal() and len(data) < 12 else None
        case "r":
            cols, _, rows = data.partition("x")
            if all(each.isascii() and each.isdecimal() and 0 < int(each[:9]) <= MOST_SIZE for each in (cols, rows)):
                return FilmResize(ms, int(cols), int(rows))
            raise ValueError(f"line {number} has no size of a terminal")
    return None


def _inner(values: dict[str, Any], name: str) -> dict[str, Any]:
    found = values.get(name)
    return found if isinstance(found, dict) else {}


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and isfinite(value) else 0.0


# ---- A film as one JSON object a line --------------------------------------------------------------------------------
#
# What was printed and typed, what happened, and the screen as it changed. Pure.
#
# `timestamp` is in seconds since 1970, or since the film's beginning where it is not known when that was. A line has
# either a `direction`, `output` or `input`, with its `data`, or an `event`: `start`, `resize`, `command`, `exit`,
# `screen`, `end`. What begins a character at the film's end, and does not end it, is left out.

SCREEN_MS = 1000
"""Screens are at least so far apart."""


def as_jsonl(film: Film) -> Iterator[bytes]:
    """Give the lines."""
    size = {"cols": film.start.cols, "rows": film.start.rows}
    facts = {"title": film.title, "term": film.term, "times_known": film.times_known}
    yield _json_line(film, film.begin_ms, {"event": "start", **size, **facts})
    printed, typed, shown = Utf8(), Utf8(), _FilmScreen(film.start)
    yield _json_line(film, film.begin_ms, shown.screen(film.begin_ms))
    for each in film.moments:
        if shown.is_due(each.ms):
            yield _json_line(film, shown.changed_ms, shown.screen(each.ms))
        if told := _event_data(each, printed, typed):
            yield _json_line(film, each.ms, told)
        shown.take(each)
    if shown.changed:
        yield _json_line(film, shown.changed_ms, shown.screen(film.end_ms))
    yield _json_line(film, film.end_ms, {"event": "end"})


def _event_data(moment: FilmEvent, printed: Utf8, typed: Utf8) -> dict[str, Any] | None:
    match moment:
        case FilmOutput(_, data):
            text = printed.text(data)
            return {"direction": "output", "data": text} if text else None
        case FilmInput(_, data):
            text = typed.text(data)
            return {"direction": "input", "data": text} if text else None
        case FilmResize(_, cols, rows):
            return {"event": "resize", "cols": cols, "rows": rows}
        case FilmMarker(_, label, exit_code):
            return {"event": "command", "data": label, "exit_code": exit_code}
        case FilmExit(_, exit_code):
            return {"event": "exit", "exit_code": exit_code}


class _FilmScreen:
    """The screen of a film as it goes on."""

    def __init__(self, start: Snapshot) -> None:
        self._projector = Projector(start)
        self._told_ms: int | None = None
        self.changed, self.changed_ms = False, 0

    def take(self, moment: FilmEvent) -> None:
        """Go on by a moment."""
        if isinstance(moment, FilmOutput | FilmResize):
            self._projector.show(moment)
            self.changed, self.changed_ms = True, moment.ms

    def is_due(self, ms: int) -> bool:
        """Whether the screen is to be told before what comes at this time."""
        return self.changed and self._told_ms is not None and ms - self._told_ms >= SCREEN_MS

    def screen(self, ms: int) -> dict[str, Any]:
        """The screen; not again for some time."""
        self.changed, self._told_ms = False, ms
        snapshot = self._projector.snapshot()
        cursor = {"row": snapshot.cursor.row, "col": snapshot.cursor.col, "visible": snapshot.cursor.visible}
        return {"event": "screen", "screen": snapshot.text_rows(), "cursor": cursor}


def _json_line(film: Film, ms: int, values: dict[str, Any]) -> bytes:
    at = film.created_at + ms / 1000 if film.created_at else (ms - film.begin_ms) / 1000
    return json.dumps({"timestamp": round(at, 3), **values}, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


# ---- What a shell ran as a script for it -----------------------------------------------------------------------------
#
# What succeeded as it is, all else as comments that nothing can end. Pure.

SCRIPT_SHELLS = frozenset({"bash", "zsh", "fish", "sh", "dash", "ash", "ksh", "ksh93", "mksh"})
"""Whose scripts begin a comment with `#` and an interpreter's line with `#!/usr/bin/env NAME`."""

ELLIPSIS = "…"
"""Behind a text of which only the beginning is kept."""

SHOWN_OTHERWISE = re.compile(r"<U\+[0-9A-F]{4,6}>")
"""How an invisible character is shown: what it was cannot be run."""


@value
class RanCommand:
    """A command, as far as it is known."""

    number: int
    text: str | None
    exit_code: int | None
    over: bool
    """It has ended."""
    level: int
    """Of the shell that ran it; 0: the session's own."""
    cwd: str | None
    """Where its shell was at its end."""
    stdin: bool = False
    """It read something that was given to it."""


def script(shell: str, head: Iterable[str], start: str, commands: Iterable[RanCommand]) -> str:
    """The script.

    Args:
        shell: its name.
        head: what stands above it, as comments.
        start: where the shell began; empty: that is not known.
    """
    first = [f"#!/usr/bin/env {shell}"] if shell in SCRIPT_SHELLS else []
    return (
        "\n".join([*first, *(line for each in head for line in _comment(each)), *_lines(shell, start, commands)]) + "\n"
    )


def _lines(shell: str, start: str, commands: Iterable[RanCommand]) -> Iterator[str]:
    here = start
    if start:
        yield _cd(shell, start)
    for command in commands:
        why = _why_not(command)
        if why:
            yield from _comment(f"{command.number}, {why}" + (f": {command.text}" if command.text else ""))
        else:
            yield command.text or ""
        if command.level or command.cwd is None:
            continue
        if why and command.cwd != here:
            yield _cd(shell, command.cwd)
        here = command.cwd


def _why_not(command: RanCommand) -> str:
    """Why a command stands in a comment; empty: it does not."""
    text = command.text
    if text is None:
        return "its text is not known"
    if command.level:
        return f"in a shell inside (level {command.level}), exit code {_code(command)}"
    if not command.over:
        return "still running"
    if command.exit_code != 0:
        return f"exit code {_code(command)}"
    if command.stdin:
        return "it read what it was given as stdin"
    if text.endswith(ELLIPSIS):
        return "only its beginning is known"
    if SHOWN_OTHERWISE.search(text) or any(not _is_plain(char) for char in text):
        return "it holds characters that cannot be shown"
    if text.endswith("\\"):
        return "its end is not known"
    return ""


def _code(command: RanCommand) -> str:
    return "not known" if command.exit_code is None else str(command.exit_code)


def _is_plain(char: str) -> bool:
    return char.isprintable() or char in "\n\t"


def _comment(text: str) -> Iterator[str]:
    """A text as comments: what ends a line anywhere, or changes how one looks, is spelled out."""
    for at, line in enumerate(text.split("\n")):
        shown = "".join(char if char.isprintable() or char == "\t" else ascii(char)[1:-1] for char in line)
        yield f"# {'    ' if at else ''}{shown}".rstrip()


def _cd(shell: str, path: str) -> str:
    """The command that goes to a directory."""
    if not all(map(_is_plain, path)):
        return "\n".join(_comment(f"cd to a directory whose name cannot be shown: {path}"))
    if shell == "fish":
        return "cd '" + path.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return f"cd {shlex.quote(path)}"
