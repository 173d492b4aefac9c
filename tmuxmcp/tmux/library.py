"""A pane of ours as a `libtmux.Pane`, for Python programs that want what tmux can do and no operation does.

libtmux starts a process of tmux for each command and waits for it without a limit, and a line feed in a pane's working
directory breaks its listings. So nothing of ours goes through these objects: only the program they were made for.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import anyio

from tmuxmcp.contract.errors import TmuxFailed
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.server import Tmux

if TYPE_CHECKING:
    import libtmux

LIBTMUX_ANSWER_S = 5.0
"""Longest wait for libtmux, which has no limit of its own."""


async def pane_of(tmux: Tmux, pane: Pane) -> libtmux.Pane | None:
    """The pane as libtmux's object, on our socket; None: it is gone.

    Raises:
        TmuxFailed: tmux did not answer, or libtmux did not understand it.
    """
    with anyio.move_on_after(LIBTMUX_ANSWER_S):
        return await anyio.to_thread.run_sync(partial(_pane_of, tmux, pane), abandon_on_cancel=True)
    raise TmuxFailed(
        f"tmux did not answer libtmux within {LIBTMUX_ANSWER_S:g} s.", hint="It may be stopped or busy: try again."
    )


def _pane_of(tmux: Tmux, pane: Pane) -> libtmux.Pane | None:
    import libtmux
    from libtmux import exc

    server = tmux.library()
    try:
        return libtmux.Pane.from_pane_id(server, pane.pane_id)
    except exc.TmuxObjectDoesNotExist:
        return None
    except exc.LibTmuxException as error:
        raise TmuxFailed(f"libtmux cannot find pane {pane.pane_id}: {error}") from None
    except ValueError:  # a line feed in the listing: the ids are enough for all that the pane can do
        return libtmux.Pane(server, pane_id=pane.pane_id, window_id=pane.window_id, session_id=pane.tmux_session_id)
