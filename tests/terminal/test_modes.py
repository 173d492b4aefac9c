"""Facts and the mode that follows."""

from __future__ import annotations

from tests.kit.cases import for_each
from tmuxmcp.terminal.modes import ModeFacts, mode_of

TABLE = [
    (ModeFacts(lost=True, exited=True), "lost"),
    (ModeFacts(exited=True, at_prompt=True, waiting="secret"), "exited"),
    (ModeFacts(waiting="stopped", at_prompt=True, alternate_screen=True), "stopped"),
    (ModeFacts(waiting="secret", at_prompt=True, alternate_screen=True), "password"),
    (ModeFacts(waiting="editor", at_prompt=True, command="bash"), "shell_prompt"),
    (ModeFacts(at_prompt=True), "shell_prompt"),  # no kernel to ask: the marks know
    (ModeFacts(waiting="editor", command="zsh"), "line_input"),  # one without marks, or a question of ours
    (ModeFacts(waiting="editor", command="python3"), "line_input"),
    (ModeFacts(waiting="line", command="bash"), "line_input"),
    (ModeFacts(waiting="line", command="less"), "line_input"),
    (ModeFacts(waiting="editor", alternate_screen=True, command="less"), "pager"),
    (ModeFacts(waiting="editor", alternate_screen=True, command="pager"), "pager"),
    (ModeFacts(waiting="editor", command="more"), "pager"),
    (ModeFacts(waiting="editor", alternate_screen=True, command="ne"), "editor"),
    (ModeFacts(waiting="editor", command="elinks"), "fullscreen"),
    (ModeFacts(waiting="editor", alternate_screen=True, command="vim.basic"), "editor"),
    (ModeFacts(waiting="busy", alternate_screen=True, command="vim"), "editor"),
    (ModeFacts(waiting="editor", alternate_screen=True, command="htop"), "fullscreen"),
    (ModeFacts(waiting="editor", alternate_screen=True, command="mytool"), "fullscreen"),
    (ModeFacts(waiting="editor", command="top"), "fullscreen"),  # top never asks for the alternate screen
    (ModeFacts(waiting="editor", command="dialog"), "fullscreen"),
    (ModeFacts(waiting="busy", command="sleep"), "running"),
    (ModeFacts(waiting="busy", command="less"), "running"),
    (ModeFacts(), "unknown"),
    (ModeFacts(waiting="unknown", alternate_screen=True, command="ssh"), "fullscreen"),
    # Behind ssh only the last line can tell that a secret is asked.
    (ModeFacts(waiting="line", command="cat"), "line_input"),
]


@for_each(("facts", "mode"), TABLE)
def test_mode(facts: ModeFacts, mode: str):
    assert mode_of(facts) == mode
