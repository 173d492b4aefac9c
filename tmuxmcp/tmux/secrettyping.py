"""Types a secret into a pane: in one guarded step, by a command that nothing keeps.

The bytes go through the control client's pipe to the tmux server: they are in no buffer of tmux's, in no file and in
the arguments of no process. What we hold of them on the way is overwritten.
"""

from __future__ import annotations

import re

from tmuxmcp.contract.call import begin
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.control import command
from tmuxmcp.tmux.panes import InputLeftover, Pane, Stamp
from tmuxmcp.tmux.server import Tmux

_PROGRAM_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,64}")
"""Names of programs that may stand in a tmux format."""

PANE_ALONE = "#{?synchronize-panes,,1}"
"""A format that holds where what is typed goes to this pane alone."""


async def program_in_front(tmux: Tmux, pane: Pane) -> str:
    """What tmux calls the foreground program of a pane; empty where that name cannot stand in a condition."""
    asks = command("display-message", "-p", "-t", pane.pane_id, "#{pane_current_command}")
    printed = await panes.guarded(tmux, pane, asks)
    return printed[0] if printed and _PROGRAM_NAME.fullmatch(printed[0]) else ""


async def type_secret(
    tmux: Tmux, pane: Pane, value: bytearray, program: str, *, ends: bool = False, stamp: Stamp | None = None
) -> bool:
    """Type a value and Enter, if the same program is in front.

    Args:
        program: as `program_in_front` said; empty: tmux does not look at it.
        ends, stamp: as `panes.type_input` has them.

    Returns:
        False when nothing was typed: the pane or its program changed.

    Raises:
        SessionTaken, TmuxFailed: nothing was typed.
    """
    condition = panes.all_of(PANE_ALONE, f"#{{==:#{{pane_current_command}},{program}}}" if program else "")
    # What tmux does it would note, if somebody had set that: so before, as the next command holds the line.
    await tmux.checked(command("set-option", "-s", "message-limit", "0"))
    after = [*panes.raw_pieces(pane, bytes(value)), panes.keys(pane, ["Enter"])]
    if not ends:
        begin()
    return await panes.type_input(
        tmux, pane, b"", after=after, condition=condition, left=InputLeftover.LINE, ends=ends, stamp=stamp
    )
