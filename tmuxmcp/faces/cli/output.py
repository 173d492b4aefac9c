"""What goes to the terminal: results, tables, notes and errors. Bytes go out as they are."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from tmuxmcp.contract.errors import Internal, IoError, TmuxMcpError
from tmuxmcp.contract.value import asdict
from tmuxmcp.faces.cli.arguments import verb_of

if TYPE_CHECKING:
    from tmuxmcp.contract.results import Result

OURS_IN_RUN = 125
"""Exit status of `run` for what is not the command's own: as of docker, env and timeout."""


def write_result(result: Result) -> None:
    """Put a whole result on stdout as JSON."""
    write_json(asdict(result))


def write_text(text: str | bytes) -> None:
    """Put terminal text on stdout exactly; on a terminal, the shell's prompt gets a line of its own."""
    write(text)
    if text and text[-1:] not in ("\n", b"\n") and sys.stdout.isatty():
        write("\n")


def write_table(rows: Sequence[Sequence[str]]) -> None:
    """Put rows on stdout in columns; the first row is the heading."""
    write_lines(table(rows))


def write_lines(lines: Sequence[str]) -> None:
    """Put lines on stdout."""
    write("".join(f"{line}\n" for line in lines))


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines with columns; the first row is the heading."""
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [bold(lines[0], sys.stdout), *lines[1:]]


class StatusLine:
    """One line on stderr that says how something long goes; nothing where stderr is no terminal."""

    def __init__(self) -> None:
        self._seen = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = False

    def show_text(self, text: str, style: str = "") -> None:
        """Show a text, instead of what was shown before; `style` is an SGR number."""
        if self._seen:
            cols = os.get_terminal_size(2).columns
            text = text[: cols - 1 if text.isascii() else cols // 2]  # each may be two columns wide
            self._shown = True
            self._write(f"\r{bold(text, sys.stderr, style) if style else text}\x1b[K")

    def erase(self) -> None:
        """Leave the line as it was."""
        if self._shown:
            self._shown = False
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


class ProgressLine(StatusLine):
    """How a wait goes, dim."""

    async def __call__(self, elapsed_s: float, last_line: str) -> None:
        """Show how long it takes, and what was printed last."""
        sys.stdout.flush()
        self.show_text(f"{elapsed_s:.0f} s  {visible(last_line)}".rstrip(), "2")


def note(text: str | None) -> None:
    """Tell the person something; stdout is the program's."""
    if text:
        from tmuxmcp.faces.cli.helptext import in_cli_words

        sys.stdout.flush()  # on a terminal, the order counts
        print(f"tmuxmcp: {visible(in_cli_words(text))}", file=sys.stderr)


def tell(as_json: bool, value: Any, text: str | None) -> None:
    """Put a value on stdout as JSON, or tell the person a text about it; None: nothing."""
    if as_json:
        write_json(value)
    else:
        note(text)


def note_gaps(gaps: Sequence[int]) -> None:
    """Tell the person at which offsets output was lost."""
    if gaps:
        note(f"output was lost at offset {', '.join(map(str, gaps))}: its recording was interrupted")


def report(error: TmuxMcpError, words: Sequence[str]) -> int:
    """One line on stderr, with --json the error object on stdout; return the exit status."""
    from tmuxmcp.faces.cli.helptext import in_cli_words

    print("tmuxmcp: " + " ".join(in_cli_words(str(error)).split("\n")), file=sys.stderr)
    if "--json" in words:
        try:
            write_json({"error": json.loads(json.dumps(error.as_dict(), default=str))})
            flush()
        except (BrokenPipeError, IoError):
            forget()
    return OURS_IN_RUN if verb_of(words) == "run" else error.exit_status


def report_defect(error: Exception, words: Sequence[str]) -> int:
    """As `report`, for what should not happen; the log gets all of it."""
    import logging

    logging.getLogger(__name__).error("unexpected", exc_info=error)
    why = f"{type(error).__name__}: {error}".split("\n")[0]
    return report(Internal(f"Something unexpected failed inside tmuxmcp: {why}.", hint="Sessions go on."), words)


# ---- What goes to the terminal of a person ---------------------------------------------------------------------------
#
# Or to whoever reads a command's output: bytes as they are, JSON, styles.


def write(text: str | bytes) -> None:
    """Put text on stdout as UTF-8, whatever the locale says.

    Raises:
        BrokenPipeError: nobody reads it any more.
        IoError: it cannot be written.
    """
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    with _telling_what_is_lost():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)


def flush() -> None:
    """Let out what was put on stdout.

    Raises:
        BrokenPipeError, IoError: as `write`.
    """
    with _telling_what_is_lost():
        sys.stdout.flush()


@contextmanager
def _telling_what_is_lost() -> Iterator[None]:
    """A full disk behind stdout says nothing of what was done: who is told "try again" would do it twice."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        forget()
        raise IoError(
            f"What is to be printed cannot be written: {error.strerror}.",
            hint="What was to be done may be done: look before you repeat it. Only its output is lost.",
        ) from error


def forget() -> None:
    """Nobody reads it any more: let what is still buffered go nowhere, or the interpreter complains at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def write_json(value: Any) -> None:
    """Put a value on stdout as JSON: one line, or several where a person reads it."""
    write(json.dumps(value, indent=2 if sys.stdout.isatty() else None) + "\n")


def visible(text: str) -> str:
    """Text on one line that does nothing to a terminal."""
    return text if text.isprintable() else json.dumps(text)


def coloured(stream: TextIO) -> bool:
    """Whether colours are welcome there (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def bold(text: str, stream: TextIO, style: str = "1") -> str:
    """Bold, or another style by its SGR number, where that is welcome."""
    return f"\x1b[{style}m{text}\x1b[0m" if coloured(stream) else text
