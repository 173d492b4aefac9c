"""What gdb and radare2 have a shell run, in whatever spelling: a rule about a program holds behind them, too."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import SLOW, Parsed
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.gate.actions import ShellContext, action_of
from tmuxmcp.gate.policy.debuggertext import gdb_texts
from tmuxmcp.gate.policy.judge import judge, parse_policy

SHELLS = """
shell touch x
she touch x
shel touch x
! touch x
!touch x
make -f /dev/null; touch x
mak -v >/dev/null; touch x
pipe help | touch x
pip help | touch x
| help | touch x
pipe -d @ help @ touch x
interpreter-exec console "shell touch x"
interp console "echo a" "she touch x"
interpreter-exec mi2 "-interpreter-exec console \\"shell touch x\\""
with print pretty -- shell touch x
w print pretty on -- with print pretty off -- !touch x
maint with dwarf max-cache-age 5 -- shell touch x
with print pretty on --!touch x
with print pretty on--shell touch x
pipe shell touch x | cat
python import os; os.system("touch x")
py import os; os.system("touch x")
pi __import__("os").system("touch x")
target remote | touch x
tar ext | touch x
"""
"""gdb itself has a shell run `touch x` by each."""

UNSEEN = """
shell
sh touch x
SHELL touch x
source x
so x
define x
def x
alias x = shell
eval "shell touch %s", x
print $_shell("touch x")
call (int)system("touch x")
p ((int(*)(char*))system)("touch x")
compile code system("touch x")
guile 1
run $(touch x)
r > x; touch x
set args $(touch x)
start `touch x`
set exec-wrapper touch x
set environment LD_PRELOAD ./x.so
set env LD_PRELOAD=./x.so
set dprintf-function system
add-auto-load-safe-path /
set auto-load safe-path /
thread apply all -q shell touch x
frame apply all she touch x
taas !touch x
with print pretty -- thread apply all -q shell touch x
thread apply all frame apply all shell touch x
exec-file /bin/touch
file touch
add-inferior -exec /bin/touch
edit
no-such-command
-interpreter-exec console "shell touch x"
-interpreter-exec --thread 1 console "shel touch x"
-target-select remote | touch x
-exec-arguments $(touch x)
-file-exec-and-symbols /bin/touch
-gdb-set args $(touch x)
-break-commands 1 "print 1" "shell touch x"
-no-such-command
"""
"""So it may by these, or by what they make possible."""

KEEPS = """

break main
b *0x1234 if a > 1
tb main
run
r a b --c=d
start
c
n
s
si
p x | 1
p/x $rip
print touch("x")
x/4i $pc
info registers
i r
bt
bt full
d 1
do
f 2
frame apply all bt
thread 1
thread apply all bt
taas p x
set var x = 1
set $a = 5
set args a b
set environment DEBUG 1
with print pretty -- p x
with print pretty -- thread apply all bt
thread apply all frame apply all bt
pipe info functions | grep main
interpreter-exec console "bt"
disas main
fin
until
watch x
display x
info sharedlibrary
maint info sections
target remote localhost:1234
symbol-file x
core-file x
echo touch
help shell
interrupt
quit
-stack-list-frames
-break-insert main
-exec-run
-data-evaluate-expression x
-data-read-memory-bytes 0x1 1
-break-commands 1 "print x" "continue"
-interpreter-exec console "info locals"
-gdb-set args a b
-var-create - * x
-gdb-exit
"""

R2_RUNS = """
!touch x
!!touch x
pd;!touch x
pd | touch x
pd 1|touch x
pd | cat; touch x
?e ! ' ; !touch x ; '
#!pipe touch x
#!python x.py
. x.r2
.!touch x
pd;. x
`cat x`
o exec://touch
e cmd.bp=x
$a=x
"""
R2_KEEPS = """
pd 10
aaa;afl
s main
s..10
px 16 @ 0x10
iz~touch
?e touch
pd | head -3
!ls
"""


def lines(text: str) -> list[str]:
    return text.split("\n")[1:-1]


@pytest.fixture
def decision(commands: Parsed):
    def judged(tool: str, rules: object, **arguments: object) -> str:
        request = OPERATIONS[tool].parse(arguments)
        action = commands.portal.call(action_of, request, ShellContext(cwd="/w"), commands.parsing)
        return judge(action, parse_policy(rules)).decision  # type: ignore[arg-type]

    return judged


TOUCH = [{"program": "touch", "action": "deny"}]


def test_shells_behind_gdb_are_seen_through(decision):
    for expected, texts in (("deny", lines(SHELLS) + lines(UNSEEN)), ("allow", lines(KEEPS))):
        found = {each: decision("gdb_cmd", TOUCH, gdb_id="g", command=each) for each in texts}
        assert found == dict.fromkeys(texts, expected)


def test_no_command_of_gdb_takes_long_to_be_judged():
    """The parser's time is bounded, too, and then nothing at all would be known."""
    texts = [
        "with a -- " * 400,
        "thread apply all " * 230,
        "t w -- " * 570,
        "pipe " * 800,
        "frame apply all with a -- " * 150,
    ]
    begun = time.process_time()
    for each in texts:
        list(gdb_texts(each))
    assert time.process_time() - begun < 2 * SLOW


@pytest.mark.skipif(not shutil.which("gdb"), reason="there is no gdb")
def test_gdb_has_a_shell_run_each(tmp_path: Path):
    """The table says what gdb does: it takes any beginning of a name."""
    texts = [each.replace("touch x", f"touch {number}") for number, each in enumerate(lines(SHELLS))]
    argv = ["gdb", "-nx", "-batch", *(word for each in texts for word in ("-ex", each))]
    done = subprocess.run(argv, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    missing = [each for number, each in enumerate(texts) if not (tmp_path / str(number)).exists()]
    assert not missing, done.stderr


def test_shells_behind_radare2_are_seen_through(decision):
    for expected, texts in (("deny", lines(R2_RUNS)), ("allow", lines(R2_KEEPS))):
        found = {each: decision("r2_cmd", TOUCH, r2_id="r", command=each) for each in texts}
        assert found == dict.fromkeys(texts, expected)


def test_command_lines_of_debuggers_are_seen_through(decision):
    runs = [
        "gdb -batch -ex 'shell touch x'",
        "gdb -q --eval-command='she touch x' prog",
        "gdb -iex '!touch x'",
        "gdb -ex bt -ex 'with print pretty -- shell touch x'",
        "gdb -x cmds",
        "gdb --command=cmds",
        "gdb --args touch x",
        "gdb -ex run touch",
        "echo shell touch x | gdb",
        "gdb <cmds",
        "gdb-multiarch -ex 'shell touch x'",
        'gdb -ex "$X"',
        "r2 -c '!touch x' /bin/ls",
        "radare2 -qc 'pd | touch x' /bin/ls",
        "r2 -i cmds /bin/ls",
        "r2 -d touch",
        "rizin -c 'pd;!touch x' -",
    ]
    keeps = ["gdb", "gdb -q -batch -ex bt prog core", "gdb -p 5", "gdb --args ls touch", "r2 -A -c 'pd 3' touch"]
    for expected, texts in (("deny", runs), ("allow", keeps)):
        assert {each: decision("run", TOUCH, command=each) for each in texts} == dict.fromkeys(texts, expected)
