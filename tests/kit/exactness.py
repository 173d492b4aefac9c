"""What `run` gives exactly, as tables: command, output, exit code. None: the output is the shell's own business.

And what the tests of it share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.conftest import SLOW, newest_fish
from tests.kit.agent import Agent, ToolFailed, eventually
from tests.kit.programs import where_installed

Row = tuple[str, str | None, int]
Run = Callable[..., dict]

SOON_MS = int(1000 * SLOW)
"""Time in which a shell begins a command."""

LONG_MS = int(15_000 * SLOW)
"""Time in which a command that does little is over, also on a busy machine."""

OTHER_SHELLS = [*where_installed("zsh", "fish"), newest_fish]


def session_of(shell: Run) -> str:
    return shell("true")["session_id"]


def answered(call: Callable[[], dict]) -> dict | str:
    """The result, or the code of the error."""
    try:
        return call()
    except ToolFailed as failed:
        return failed.code


def begin(agent: Agent, session: str, command: str, program: str) -> Any:
    """Start a `run` that is not waited for; what is in front begins with `program` when this returns."""
    running = agent.portal.start_task_soon(
        lambda: agent.client.call_tool("run", {"command": command, "session_id": session})
    )
    eventually(lambda: agent.in_front(session).startswith(program))
    return running


def in_shell(program: str, *, zsh: str, fish: str) -> str:
    """A command as a shell has it: bash has it as zsh."""
    return zsh if program in ("bash", "zsh") else fish


THROUGH_OTHERS = [
    "exec > >(tee -a log) 2>&1",
    "exec > >(tee -a log)",
    "exec 2> >(tee -a log >&2)",
    "exec > >(tee log | grep --line-buffered -v noise) 2>&1",
    'exec > >(while read -r line; do sleep 0.1; echo "$line"; done) 2>&1',
]
"""What has bash and zsh print through other programs."""

UNICODE = "äöü ß € 漢字 かな 한글 🙂 👍🏽 👨‍👩‍👧 ❤️ é नमस्ते"

ANY_SHELL: list[Row] = [
    ("true", "", 0),
    ("false", "", 1),
    ("echo hi", "hi\n", 0),
    ("printf hi", "hi", 0),
    ("printf 'a\\n\\n\\nb'", "a\n\n\nb", 0),
    ("echo 'a   '", "a   \n", 0),
    ("echo; echo", "\n\n", 0),
    ("printf 'a\\tb\\n'", "a\tb\n", 0),
    ("echo -n 'tab\there'", "tab\there", 0),
    (f"echo '{UNICODE}'", f"{UNICODE}\n", 0),
    ("echo a; echo b;", "a\nb\n", 0),
    ("echo a # a comment", "a\n", 0),
    ("# nothing but a comment", "", 0),
    ("echo one\necho two\necho three", "one\ntwo\nthree\n", 0),
    ("echo a &&\n  echo b", "a\nb\n", 0),
    ("echo err >&2", "err\n", 0),
    ("printf '\\033[31mred\\033[0m\\n'", "red\n", 0),
    ("printf '\\033]0;title\\007x\\n'", "x\n", 0),
    ("printf 'abc\\b\\bX\\n'", "aXc\n", 0),
    ("sh -c 'kill -9 $$'", None, 137),
    ("sh -c 'kill -TERM $$'", None, 143),
    ("echo 'single line' | cat", "single line\n", 0),
    ("test -t 1 && echo tty", "tty\n", 0),
    ("echo '}'", "}\n", 0),
    ("echo 'a;b' \\;", "a;b ;\n", 0),
    ("echo '%H #S #{pid} #(id)'", "%H #S #{pid} #(id)\n", 0),
    ('echo "it\'s"', "it's\n", 0),
    ("\n\necho leading\n\n", "leading\n", 0),
    ("  echo indented", "indented\n", 0),
    ("echo crlf\r\necho second\r\n", "crlf\nsecond\n", 0),
    ("sh -c 'echo a; echo b; exit 7'", "a\nb\n", 7),
]

LIKE_SH: list[Row] = [
    *ANY_SHELL,
    ("(exit 7)", "", 7),
    ("(exit 255)", "", 255),
    ("for i in 1 2 3\ndo\n  echo $i\ndone", "1\n2\n3\n", 0),
    ("cat <<END\nx $((1+1))\n  y\nEND", "x 2\n  y\n", 0),
    ("cat <<'END'\n$x `y`\nEND\n", "$x `y`\n", 0),
    ("cat <<-'END'\n\ttab\n\tEND", "tab\n", 0),
    ("f() {\n  echo in f: \"$1\"\n  return 3\n}\nf 'a b'", "in f: a b\n", 3),
    ("if true; then\n  echo yes\nfi", "yes\n", 0),
    ("for i in 10 50 100; do printf '\\r%3d%%' $i; done; echo", "100%\n", 0),
    ('seq 3 | while read x; do echo "<$x>"; done', "<1>\n<2>\n<3>\n", 0),
]

BASH: list[Row] = [
    *LIKE_SH,
    ("echo )", "bash: syntax error near unexpected token `)'\n", 2),
    ("echo )\necho b", "bash: syntax error near unexpected token `)'\nb\n", 0),
    ("echo )\necho )\nfalse", "bash: syntax error near unexpected token `)'\n" * 2, 1),
    ("-x", "bash: -x: command not found\n", 127),
    ("--help-me", "bash: --help-me: command not found\n", 127),
    ("nosuchcommand", "bash: nosuchcommand: command not found\n", 127),
    ("echo '$HOME `id` \"q\" \\\\'", '$HOME `id` "q" \\\\\n', 0),
]

ZSH: list[Row] = [
    *LIKE_SH,
    ("echo )", "zsh: parse error near `)'\n", 1),
    ("echo one\necho )", "zsh: parse error near `)'\n", 1),
    ("echo " + "x" * 60 + "\n)", "zsh: parse error near `)'\n", 1),
    *[("echo " + "x" * n + " )", "zsh: parse error near `)'\n", 1) for n in (*range(60, 80), 5000)],
    ("-x", "zsh: command not found: -x\n", 127),
    ("--help-me", "zsh: command not found: --help-me\n", 127),
    ("nosuchcommand", "zsh: command not found: nosuchcommand\n", 127),
    ("echo /nosuch*file", "zsh: no matches found: /nosuch*file\n", 1),
    ("print -r '$HOME `id` \"q\" \\\\'", '$HOME `id` "q" \\\\\n', 0),
    ('echo "hi!there" a!b !!', "hi!there a!b !!\n", 0),
    ("print -P '%B%F{red}x%f%b'", "x\n", 0),
    ("repeat 3 print -n x", "xxx", 0),
]

FISH: list[Row] = [
    *ANY_SHELL,
    ("echo )", "fish: Unexpected ')' for unopened parenthesis\necho )\n     ^\n", 127),
    ("echo one\nend", "fish: 'end' outside of a block\nend\n^~^\n", 127),
    ("nosuchcommand", "fish: Unknown command: nosuchcommand\n", 127),
    ("sh -c 'exit 255'", "", 255),
    ("for i in 1 2 3\n    echo $i\nend", "1\n2\n3\n", 0),
    ("function f\n  echo in f: $argv[1]\n  return 3\nend\nf 'a b'", "in f: a b\n", 3),
    ("if true\n  echo yes\nend", "yes\n", 0),
    ("for i in 10 50 100; printf '\\r%3d%%' $i; end; echo", "100%\n", 0),
    ('seq 3 | while read x; echo "<$x>"; end', "<1>\n<2>\n<3>\n", 0),
    ("false | true", "", 0),
    ("echo 'a\tb'\n\techo c\n", "a\tb\nc\n", 0),
    ("echo '$HOME (id) \"q\" \\\\ \\'x\\''", "$HOME (id) \"q\" \\ 'x'\n", 0),
    ('echo "hi!there"', "hi!there\n", 0),
    ("set x (echo a b)\necho $x[1]", "a b\n", 0),
]
