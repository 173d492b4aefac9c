"""`tmuxmcp page`: opens the page that a server of the same state directory shows, with a code that lets it in."""

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

from tmuxmcp.cli import output
from tmuxmcp.cli.arguments import session_id
from tmuxmcp.cli.people import check_outside
from tmuxmcp.cli.service import effective
from tmuxmcp.errors import Unsupported
from tmuxmcp.page import codes, servers
from tmuxmcp.page.servers import ServedPage

BROWSER_LOOK_S = 0.1
"""How often is looked whether the browser has come."""


def page(options: argparse.Namespace) -> int:
    """`tmuxmcp page`."""
    check_outside("Only a person opens the page.")
    settings, _ = effective(options)
    served = _chosen(servers.running(settings.state_dir), options.port)
    code = codes.make_code(settings.state_dir, served.port)
    session = session_id(options)
    url = f"{served.url}/#code={code}" + (f"&session={session}" if session else "")
    if options.json:
        output.write_json({"url": url, "good_for_s": codes.CODE_S})
    elif options.no_open:
        output.write(f"{url}\n")
    else:
        _open(settings.state_dir, url, code)
    return 0


def _chosen(running: list[ServedPage], port: int | None) -> ServedPage:
    """The server that is meant.

    Raises:
        Unsupported: there is none.
    """
    found = [each for each in running if port in (None, each.port)]
    if found:
        return found[0]
    if running:
        others = ", ".join(str(each.port) for each in running)
        raise Unsupported(f"No server shows the page at port {port}.", hint=f"There is one at: {others}.")
    raise Unsupported(
        "No server shows the page.",
        hint="Start one: tmuxmcp serve --http 7433 --token-file FILE; or give MCP clients' servers --page true.",
    )


def _open(state_dir: Path, url: str, code: str) -> None:
    """Have the browser open it, and wait until it has."""
    with _leading_to(state_dir, url) as file:
        if not webbrowser.open(file.as_uri()):
            raise Unsupported("There is no browser to open.", hint="Take the address: tmuxmcp page --no-open")
        output.note("opening the page in your browser")
        until = time.monotonic() + codes.CODE_S
        while codes.is_open(state_dir, code):
            if time.monotonic() > until:
                raise Unsupported("No browser has opened it.", hint="Take the address: tmuxmcp page --no-open")
            time.sleep(BROWSER_LOOK_S)


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
