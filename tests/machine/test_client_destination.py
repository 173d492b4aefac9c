"""How a caller names another machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.machine.ssh.client import Destination, matches_any, parse

GOOD = [
    ("box", Destination("box"), ["--", "box"]),
    ("me@box", Destination("box", "me"), ["--", "me@box"]),
    ("me@box.example:2222", Destination("box.example", "me", 2222), ["-p", "2222", "--", "me@box.example"]),
    ("box:22", Destination("box", port=22), ["-p", "22", "--", "box"]),
    ("10.1.2.3", Destination("10.1.2.3"), ["--", "10.1.2.3"]),
    ("fe80::1", Destination("fe80::1"), ["--", "fe80::1"]),
    ("me@::1", Destination("::1", "me"), ["--", "me@::1"]),
    ("me@[::1]:2222", Destination("::1", "me", 2222), ["-p", "2222", "--", "me@::1"]),
    ("[2001:db8::7]", Destination("2001:db8::7"), ["--", "2001:db8::7"]),
]

BAD = [
    *(
        "-oProxyCommand=id",
        "me@-oProxyCommand=id",
        "-l@box",
        "@box",
        "me@",
        "a@b@c",
        "box;id",
        "box id",
        "$(id)",
        "box\n",
    ),
    *(
        "box:",
        "box:0",
        "box:65536",
        "box:-1",
        "[box]:22",
        "[::1",
        "::1]",
        "me@[::1]x",
        "b\u00f6x",
        "box/../x",
        "[::1]:x",
    ),
    *("me@box:port", "box\0", "fe80::1%eth0", "x" * 400, "::ffff:x", "me@box:\u0662\u0662"),
]

OTHER_KINDS = ["docker:web", "k8s:pod/web", "k8s://pod", "sftp:me@box", "ssh://me@box:22", "serial:/dev/ttyS0"]


@pytest.mark.parametrize(("text", "meant", "words"), GOOD)
def test_a_host_is_understood(text: str, meant: Destination, words: list[str]):
    assert parse(text) == meant
    assert parse(str(meant)) == meant
    assert meant.ssh_words == words


@pytest.mark.parametrize("text", BAD)
def test_what_cannot_be_a_host_is_refused(text: str):
    with pytest.raises(TmuxMcpError) as refused:
        parse(text)
    assert refused.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("text", OTHER_KINDS)
def test_another_kind_of_host_is_not_supported(text: str):
    with pytest.raises(TmuxMcpError) as refused:
        parse(text)
    assert refused.value.code == "UNSUPPORTED"
    assert repr(text.partition(":")[0]) in refused.value.message


@given(st.text(alphabet="abz09.-_@:[]%/$; \n'\"", max_size=30))
def test_whatever_is_given_no_word_is_an_option(text: str):
    try:
        words = parse(text).ssh_words
    except TmuxMcpError:
        return
    name = words[-1]
    assert words[-2] == "--"
    assert not name.startswith("-")
    assert not name.rpartition("@")[2].startswith("-")
    assert not set(name) & set("%/$; \n'\"[]")


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("box", ["box"], ["me@box", "box:22", "box2", "Box", "box.evil.example"]),
        ("me@box", ["me@box"], ["box", "root@box", "xme@box", "me@box:22"]),
        ("*@box", ["me@box", "root@box"], ["box", "box@evil"]),
        ("*@box:*", ["me@box:22"], ["me@box", "box:22"]),
        ("dev*", ["dev", "dev1", "dev.example.org"], ["dev@evil", "dev:22", "adev"]),
        ("me@*.example.org", ["me@a.example.org", "me@a.b.example.org"], ["me@example.org", "me@aXexample.org"]),
        ("db?", ["db1"], ["db", "db12"]),
        ("box:22", ["box:22"], ["box", "box:2222"]),
        ("::1", ["::1"], ["::2", "me@::1"]),
        ("me@[::1]:22", ["me@[::1]:22"], ["me@[::1]:23", "me@::1"]),
        ("*", ["box", "::1"], ["me@box", "box:22"]),
        ("", [], ["box", "me@box"]),
    ],
)
def test_a_pattern_names_destinations_part_by_part(pattern: str, yes: list[str], no: list[str]):
    assert [text for text in (*yes, *no) if matches_any(parse(text), [pattern])] == yes
