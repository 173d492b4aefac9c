"""`tmuxmcp page`: opens the page of a server of the same state directory, or shows it itself; a code lets in."""

from __future__ import annotations

import argparse
import html
import os
import secrets
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from tmuxmcp.contract.errors import TmuxMcpError, Unsupported
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.arguments import session_id
from tmuxmcp.faces.cli.people import check_outside
from tmuxmcp.faces.cli.service import effective
from tmuxmcp.faces.page import codes
from tmuxmcp.faces.page.codes import ServedPage

if TYPE_CHECKING:
    from tmuxmcp.config import Settings

BROWSER_LOOK_S = 0.1
"""How often is looked whether the browser has come."""


def page(options: argparse.Namespace) -> int:
    """`tmuxmcp page`."""
    check_outside("Only a person opens the page.")
    settings, _ = effective(options)
    running = codes.running(settings.state_dir)
    if running:
        _show(options, settings.state_dir, _chosen(running, options.port))
    else:
        _serve(options, settings)
    return 0


def _serve(options: argparse.Namespace, settings: Settings) -> None:
    """Show the page ourselves, until a signal comes, as no server does."""
    from tmuxmcp.app import run_page
    from tmuxmcp.machine import ownprocess

    ownprocess.refuse_to_be_looked_into()
    ended = Event()
    threads = []

    def opened(served: ServedPage) -> None:
        output.note(f"showing the page at {served.url} until you press Ctrl-C; sessions go on without it")
        threads.append(Thread(target=_show_once, args=(options, settings.state_dir, served, ended)))
        threads[0].start()  # a browser is waited for

    try:
        run_page(settings, options.port, opened)
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _show_once(options: argparse.Namespace, state_dir: Path, served: ServedPage, ended: Event) -> None:
    try:
        _show(options, state_dir, served, ended)
    except TmuxMcpError as error:
        output.note(f"{error.message} Open this address, which is good once, for a minute:")
        output.write(f"{codes.make_address(state_dir, served, session_id(options))[0]}\n")
        output.flush()


def _show(options: argparse.Namespace, state_dir: Path, served: ServedPage, ended: Event | None = None) -> None:
    """Open the page of a server, or tell its address."""
    url, code = codes.make_address(state_dir, served, session_id(options))
    if options.json:
        output.write_json({"url": url, "good_for_s": codes.CODE_S})
    elif options.no_open:
        output.write(f"{url}\n")
    else:
        _open(state_dir, url, code, ended or Event())
    output.flush()


def _chosen(running: list[ServedPage], port: int | None) -> ServedPage:
    """The server that is meant.

    Raises:
        Unsupported: none of them is.
    """
    found = [each for each in running if port in (None, each.port)]
    if not found:
        others = ", ".join(str(each.port) for each in running)
        raise Unsupported(f"No server shows the page at port {port}.", hint=f"There is one at: {others}.")
    return found[0]


def _open(state_dir: Path, url: str, code: str, ended: Event) -> None:
    """Have the browser open it, and wait until it has, or all is ended."""
    with _leading_to(state_dir, url) as file:
        if not webbrowser.open(file.as_uri()):
            raise Unsupported("There is no browser to open.", hint="Take the address: tmuxmcp page --no-open")
        output.note("opening the page in your browser")
        until = time.monotonic() + codes.CODE_S
        while codes.is_open(state_dir, code) and not ended.wait(BROWSER_LOOK_S):
            if time.monotonic() > until:
                raise Unsupported("No browser has opened it.", hint="Take the address: tmuxmcp page --no-open")


@contextmanager
def _leading_to(state_dir: Path, url: str) -> Iterator[Path]:
    """A file, for us alone, that leads to an address: what a browser is started with can be seen by every user."""
    file = state_dir / "page" / f"open-{secrets.token_hex(8)}.html"
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w") as opened:
            target = html.escape(url)
            opened.write(
                '<!DOCTYPE html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
                f'<meta http-equiv="refresh" content="0;url={target}"><title>tmuxmcp</title>'
                f'<a href="{target}">The page</a>\n'
            )
        yield file
    finally:
        with suppress(OSError):
            file.unlink()
