"""JSON with comments: what is changed is what was asked for, and all else stays byte by byte."""

from __future__ import annotations

import pytest

from tests.kit.cases import for_each
from tmuxmcp.faces.cli import clients

ENTRY = {"command": "c", "args": ["serve", "// no comment", ",}"]}
ZED = """\
// Zed settings
{
  "theme": "One", /* "context_servers": { */
  "url": "http://a//b,}",
  // mine
  "context_servers": {
    "mine": { "command": "x", "args": [1,2,], }, // keep
  },
}
"""
TEXTS = [ZED, "{}", "// c\n{}\n", '{ "a": 1 }', '{"a":1,\n "context_servers":{}}\n',
         '{\n\t"context_servers": { "z": 1 } // last\n}', '{\n  "context_servers": {\n    // none yet\n  }\n}\n',
         '{\r\n  "a": [\r\n  ],\r\n}\r\n']  # fmt: skip


@for_each("text", TEXTS)
def test_member_comes_changes_and_goes(text: str) -> None:
    wanted = clients.loads(text)
    wanted.setdefault("context_servers", {})["t"] = ENTRY
    added = clients.put(text, ["context_servers"], "t", ENTRY)
    assert clients.loads(added) == wanted
    assert clients.put(added, ["context_servers"], "t", ENTRY) == added
    changed = clients.put(added, ["context_servers"], "t", 1)
    wanted["context_servers"]["t"] = 1
    assert clients.loads(changed) == wanted
    del wanted["context_servers"]["t"]
    gone = clients.drop(changed, ["context_servers"], "t")
    assert clients.loads(gone) == wanted
    assert clients.drop(gone, ["context_servers"], "t") == gone


def test_all_else_stays_byte_by_byte() -> None:
    added = clients.put(ZED, ["context_servers"], "t", ENTRY)
    head, tail = ZED.split('    "mine"')
    assert added.startswith(head)
    assert added.endswith('    "mine"' + tail)
    assert clients.drop(added, ["context_servers"], "t") == ZED


def test_last_member_goes_with_the_comma_before_it() -> None:
    assert clients.drop('{"a": 1, /* two */ "b": 2}', [], "b") == '{"a": 1 /* two */}'


@pytest.mark.parametrize("text", ["{", "// c", "{'a': 1}", '{"a" 1}', "[1]", '{"context_servers": 3}'])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # of json, or ours
        clients.put(text, ["context_servers"], "t", 1)
