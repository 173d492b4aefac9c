"""Launchers and sinks run in panes, without a broker."""

from tests.tmux.conftest import tmux

__all__ = ["tmux"]
