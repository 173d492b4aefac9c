"""`meta.json`: what a session is, for when its pane is gone."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import field, fields
from typing import Any

from tmuxmcp.contract.errors import Unsupported
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine.ownfiles import make_empty, write_atomically
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.formats import is_newer, numbered, read_values

META_FORMAT = 1
"""The newest format of `meta.json` that is known here."""


@dataclass
class Meta:
    """What a session is; from the pane's options, or from `meta.json` when the pane is gone."""

    session_id: str
    program: str
    args: list[str]
    created_at: str
    owner: str
    nonce: str
    marks: bool
    """Its program was given our start-up file."""
    cwd: str
    cols: int
    rows: int
    scrollback_lines: int
    destroyed: bool = False
    generation: int = 0
    """Which session of that name it is, from 1; 0: that was not written down."""
    bounds: dict[str, Any] = field(default_factory=dict)
    """As `SessionBounds`."""
    host: str = ""
    """The machine that it runs on, as the caller named it; empty: this one."""
    control: str = ""
    """Where the control socket of its ssh is."""
    proofs: bool = False
    """Its shell takes a proof with a command."""
    function_key: bool = False
    """Its shell knows `FUNCTION_KEY`, if it is fish."""
    booted: dict[str, Any] = field(default_factory=dict)
    """`created_at` as `Booted`: by a clock that nobody sets."""

    env_names: list[str] | None = None
    """Names of the variables that it was given, for a later session made from it; None: that was not written down."""
    tmux: str = ""
    """The version of tmux that it runs in, as tmux says it; empty: that was not written down."""
    request: str = ""
    """What its pane was born with as `@tmuxmcp_request`: by which call with an id it was made."""
    made_by: str = ""
    """The caller who made it; empty: that was not written down."""

    def save(self, directory: SessionDirectory) -> None:
        """Write `meta.json`; keys that another version of the same format added stay.

        Raises:
            Unsupported: the file is of a newer format, and what is not known here would be lost.
        """
        there = read_values(directory.meta)
        if is_newer(there, META_FORMAT):
            raise Unsupported(
                f"{directory.meta} was written by a newer tmuxmcp, and is not replaced by this one.",
                hint="Use that version for this session, or upgrade this one.",
                session_id=self.session_id,
            )
        self.destroyed = self.destroyed or bool(there.get("destroyed"))  # by another broker: nothing undoes that
        write_atomically(directory.meta, json.dumps({**there, **numbered(META_FORMAT), **vars(self)}, indent=1))

    def destroy(self, directory: SessionDirectory) -> None:
        """Write down that it was destroyed: beside a `meta.json` of a newer format, which is not replaced."""
        self.destroyed = True
        if not directory.is_there:
            return
        try:
            self.save(directory)
        except Unsupported:
            make_empty(directory.destroyed)

    def disown(self, directory: SessionDirectory) -> None:
        """It is nobody's default session any more; in a newer format its owner's newest session counts instead."""
        self.owner = ""
        if not directory.is_there:
            return
        with suppress(Unsupported):
            self.save(directory)

    @classmethod
    def load(cls, directory: SessionDirectory) -> Meta | None:
        """Read `meta.json`, of whatever format; None when there is none that can be read."""
        there = read_values(directory.meta)
        try:
            meta = cls(**{each.name: there[each.name] for each in fields(cls) if each.name in there})
        except TypeError:
            return None
        meta.destroyed = bool(meta.destroyed) or directory.destroyed.exists()
        return meta
