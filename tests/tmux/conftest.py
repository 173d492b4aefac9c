"""Launchers and sinks run in panes, without a broker."""

from tests.kit.panes import tmux

__all__ = ["tmux"]
