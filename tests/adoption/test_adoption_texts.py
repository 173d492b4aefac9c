"""The texts that adopt a shell, as bytes; `test_adopted_shells.py` has real shells read them."""

from __future__ import annotations

import re

import pytest

from tmuxmcp.machine.launch.shells import adoption
from tmuxmcp.machine.launch.shells.adoption import Dialect

NONCE = "00112233aabbccdd"

ANSWERS = [
    ("5.2.15(1)-release,,,77,himBHs,tr", "bash", "5.2.15(1)-release", Dialect.BASH),
    ("5.2.15(1)-release,,,77,himrBHs,tr", "rbash", "5.2.15(1)-release", Dialect.POSIX),
    ("4.3.0(1)-release,,,77,himBHs,tr", "bash", "4.3.0(1)-release", Dialect.POSIX),
    (",5.9,,77,569XZfims,tr", "zsh", "5.9", Dialect.ZSH),
    (",5.0.8,,77,569XZfims,tr", "zsh", "5.0.8", None),
    (",,Version AJM 93u+m/1.0.4 2022-10-22,77,imsBEG,tr", "ksh93", "93u+m/1.0.4", Dialect.POSIX),
    (",,@(#)MIRBSD KSH R59 2023/04/29 +Debian,77,imsU,tr", "mksh", "59", Dialect.POSIX),
    (",,,77,smi,t", "sh", "", Dialect.POSIX),
    (",,,77,sm,tr", "ash", "", Dialect.POSIX),
    ("fish,3.6.0,,77,,t", "fish", "3.6.0", Dialect.FISH),
    ("fish,3.3.1,,77,,t", "fish", "3.3.1", None),
]


@pytest.mark.parametrize(("said", "name", "version", "dialect"), ANSWERS)
def test_an_answer_tells_what_shell_it_is(said: str, name: str, version: str, dialect: Dialect | None) -> None:
    kind = adoption.who(said)
    assert (kind.name, kind.version, kind.pid, kind.dialect) == (name, version, 77, dialect)
    assert kind.has_devices


@pytest.mark.parametrize("said", ["", ",", "x", ",,,9999999999999,,", "\ufffd" * 9])
def test_an_answer_of_any_shape_is_read(said: str) -> None:
    assert adoption.who(said).pid == 0


def test_the_line_that_is_typed_is_one_line_with_a_leading_blank() -> None:
    line = adoption.line(NONCE)
    assert re.fullmatch(rb" [ -~]{1,1000}", line)
    assert b"!" not in line  # an earlier command, for bash and csh


@pytest.mark.parametrize("said", [answer[0] for answer in ANSWERS if answer[3]])
def test_a_body_runs_nothing_where_it_should_not_land(said: str) -> None:
    body = adoption.body(adoption.who(said), NONCE, 7)
    *lines, last = body.rstrip(b"\0").splitlines(keepends=True)
    assert re.fullmatch(rb": \.[0-9]+\n", last)
    for line in lines:
        assert re.fullmatch(rb": '[ -~]*' :\n", line)
        assert line.count(b"'") == 2
        assert b"!" not in line
        assert len(line) <= adoption.ADOPTION_LINE_BYTES
