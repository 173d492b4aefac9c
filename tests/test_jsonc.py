"""JSON with comments: what is changed is what was asked for, and all else stays byte by byte."""

from __future__ import annotations

import pytest

from tests.cases import for_each
from tmuxmcp.faces.cli import jsonc

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
    wanted = jsonc.loads(text)
    wanted.setdefault("context_servers", {})["t"] = ENTRY
    added = jsonc.put(text, ["context_servers"], "t", ENTRY)
    assert jsonc.loads(added) == wanted
    assert jsonc.put(added, ["context_servers"], "t", ENTRY) == added
    changed = jsonc.put(added, ["context_servers"], "t", 1)
    wanted["context_servers"]["t"] = 1
    assert jsonc.loads(changed) == wanted
    del wanted["context_servers"]["t"]
    gone = jsonc.drop(changed, ["context_servers"], "t")
    assert jsonc.loads(gone) == wanted
    assert jsonc.drop(gone, ["context_servers"], "t") == gone


def test_all_else_stays_byte_by_byte() -> None:
    added = jsonc.put(ZED, ["context_servers"], "t", ENTRY)
    head, tail = ZED.split('    "mine"')
    assert added.startswith(head)
    assert added.endswith('    "mine"' + tail)
    assert jsonc.drop(added, ["context_servers"], "t") == ZED


def test_last_member_goes_with_the_comma_before_it() -> None:
    assert jsonc.drop('{"a": 1, /* two */ "b": 2}', [], "b") == '{"a": 1 /* two */}'


@pytest.mark.parametrize("text", ["{", "// c", "{'a': 1}", '{"a" 1}', "[1]", '{"context_servers": 3}'])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # of json, or ours
        jsonc.put(text, ["context_servers"], "t", 1)
