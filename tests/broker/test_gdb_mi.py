"""Records of GDB/MI: what gdb 13 printed, and what is no record."""

from __future__ import annotations

from typing import Any

import pytest

from tmuxmcp.broker.programs.gdb import MiRecord, line_of, parse


@pytest.mark.parametrize(
    ("line", "record"),
    [
        ("(gdb) ", MiRecord("prompt")),
        ("12^done", MiRecord("result", "done", 12)),
        (r'7^error,msg="No \"x\"."', MiRecord("result", "error", 7, {"msg": 'No "x".'})),
        (r'~"\303\274 a\tb\\n\n"', MiRecord("console", text="ü a\tb\\n\n")),
        (r'&"\377\n"', MiRecord("log", text="\\xff\n")),
        ('*running,thread-id="all"', MiRecord("exec", "running", None, {"thread-id": "all"})),
        ("=x,a=[],b={}", MiRecord("notify", "x", None, {"a": [], "b": {}})),
        ("hello", MiRecord("other", text="hello")),
        ("", MiRecord("other")),
        ('~"no end', MiRecord("other", text='~"no end')),
        ('^done,a="1"rest', MiRecord("other", text='^done,a="1"rest')),
        ('^done,a={"1",b="2"}', MiRecord("other", text='^done,a={"1",b="2"}')),
        ("^done,a=" + "[" * 5000, MiRecord("other", text="^done,a=" + "[" * 5000)),
    ],
)
def test_lines(line: str, record: MiRecord):
    assert parse(line) == record


@pytest.mark.parametrize(
    ("results", "value"),
    [
        (
            'stack=[frame={a="0"},frame={a="1"}]',
            {"stack": [{"frame": {"a": "0"}}, {"frame": {"a": "1"}}]},
        ),
        ('bkpt={number="1",script={"silent","p 1"}}', {"bkpt": {"number": "1", "script": ["silent", "p 1"]}}),
        ('ids={thread-id="1",thread-id="2"}', {"ids": {"thread-id": ["1", "2"]}}),
        ('groups=["i1","i2"],n="x,y={z}"', {"groups": ["i1", "i2"], "n": "x,y={z}"}),
    ],
)
def test_values(results: str, value: dict[str, Any]):
    assert parse(f"^done,{results}") == MiRecord("result", "done", None, value)


def test_commands():
    assert line_of(3, "-exec-run") == "3-exec-run\n"
    assert line_of(4, 'p "a\\n"') == '4-interpreter-exec console "p \\"a\\\\n\\""\n'
