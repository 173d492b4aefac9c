"""The page beside a server on stdin and stdout, or alone: on a loopback port of its own, and nothing else there."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from pathlib import Path

from starlette.applications import Starlette

from tmuxmcp.contract.errors import IoError
from tmuxmcp.faces import listener
from tmuxmcp.faces.entrance import Entrance
from tmuxmcp.faces.page import servers
from tmuxmcp.faces.page.codes import AccessSecrets
from tmuxmcp.faces.page.desk import desk_of
from tmuxmcp.faces.page.routes import Page
from tmuxmcp.faces.page.servers import ServedPage
from tmuxmcp.faces.tokens import Tokens, bearer
from tmuxmcp.nodes.fleet import AnyBroker

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"


async def page_beside(
    broker: AnyBroker,
    state_dir: Path,
    port: int | None = None,
    shown: Callable[[ServedPage], None] = lambda served: None,
) -> None:
    """Show the page, until cancelled.

    Args:
        port: where; `None`: any.
        shown: called once it is served; must not block.

    Raises:
        IoError: there is no port.
    """
    with listener.bind(LOOPBACK, port, only_loopback=True) if port else _bound(state_dir) as opened:
        served = listener.served_at(opened)
        page = Page(desk_of(broker), AccessSecrets(state_dir, served.port), bearer)
        app = Entrance(
            Starlette(routes=page.routes()),
            Tokens([]),
            listener.hosts_of(opened, LOOPBACK),
            lambda status, received, sent: None,
            knows_person=page.knows,
            open_paths=page.open_paths,
        )
        with servers.announced(state_dir, served):
            broker.shows_page(served.url)
            log.info("the page is at %s", served.url)
            shown(served)
            try:
                async with page.run():
                    await listener.serve_beside(app, opened, lambda: None)
            finally:
                app.stop()
                broker.shows_page("")


def _bound(state_dir: Path) -> socket.socket:
    """The port that a server before this one had, if nobody has it; so pages that are open find this one."""
    last = servers.last_port(state_dir)
    if last:
        try:
            return listener.bind(LOOPBACK, last, only_loopback=True)
        except IoError:
            pass
    opened = listener.bind(LOOPBACK, 0, only_loopback=True)
    if last not in [each.port for each in servers.running(state_dir)]:
        servers.keep_port(state_dir, opened.getsockname()[1])
    return opened
