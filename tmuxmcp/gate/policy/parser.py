"""The parser of shell text, in a process of its own (`serving.py`): tree-sitter is native code, and a text of two
characters crashes it. Here it takes nothing with it.

Run as `python -I -S parser.py DIRECTORY...`.
"""

import sys
from typing import Any

PARSE_CPU_S = 2.0
"""For one request, in processor time. 1 KiB of commands takes 5 ms."""

FIRST_REQUEST = {"text": "true", "cwd": None, "home": "", "fed": False}


def commands_of(request: dict[str, Any]) -> list[Any]:
    """Every command that a shell text, or a program with its arguments, would run."""
    from tmuxmcp.contract.value import replace
    from tmuxmcp.gate.policy.shelltext import MOST_GOT, SimpleCommand, parse
    from tmuxmcp.gate.policy.wrappers import of_environment, unwrapped

    cwds = (request["cwd"],)
    if "argv" in request:
        argv = tuple(request["argv"])
        commands = [
            *of_environment(request["env"], argv[0] if argv else "", request["cwd"]),
            SimpleCommand(argv, cwds=cwds),
        ]
    else:
        commands = parse(request["text"], cwds, request["home"])
    if request["fed"]:
        commands = [replace(each, fed=True) for each in commands]
    found = [each for command in commands for each in unwrapped(command)]
    got: dict[int, list[Any]] = {}  # by the words' identity: one command's output may go to many
    for each in (each for command in found for each in command.gets):
        if id(each.argv) not in got:
            got[id(each.argv)] = [(inner.argv[:1], inner.files) for inner in unwrapped(each)][:MOST_GOT]
    return [
        (
            *(each.argv, each.files, each.cwds, each.fed, each.written, each.untold),
            [one for command in each.gets for one in got[id(command.argv)]],
        )
        for each in found
    ]


if __name__ == "__main__":
    sys.path += sys.argv[1:]
    from tmuxmcp.machine.serving import serve

    serve(commands_of, FIRST_REQUEST, PARSE_CPU_S)
