"""Asciicasts, versions 2 and 3: a film as lines of JSON that asciinema plays, and such lines as a film. Pure.

The first line says the terminal's size; each one behind it is `[time, code, data]`. Version 2 counts the time from the
beginning, version 3 from the line before. Codes: `o` output, `i` input, `r` size, `m` marker, `x` exit status, which
version 2 does not have. Data is text: bytes that are no UTF-8 become U+FFFD, and no character is cut in two.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any, Literal

from tmuxmcp.terminal.emulator.redraw import redraw
from tmuxmcp.terminal.emulator.replay import blank
from tmuxmcp.terminal.film.film import Film, FilmEvent, FilmExit, FilmInput, FilmMarker, FilmOutput, FilmResize
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
