from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmuxmcp.contract.errors import InvalidArgument, IoError, PermissionDenied
from tmuxmcp.faces import tokens as module
from tmuxmcp.faces.tokens import Tokens, load_tokens, only_token, parse_tokens

SECRET = "0123456789abcdef-secret"


def file_of(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / "tokens"
    path.touch(mode=0o600)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_line_names_a_token_and_its_scopes(tmp_path: Path):
    text = f"# comment\n\n  viewer  read   {SECRET}1\nagent write {SECRET}2\nboss admin {SECRET}3\n"
    found = load_tokens(file_of(tmp_path, text), None)
    assert [(each.name, sorted(each.scopes)) for each in found] == [
        ("viewer", ["read"]),
        ("agent", ["read", "write"]),
        ("boss", ["admin", "read", "write"]),
    ]
    assert found.find(f"Bearer {SECRET}2").name == "agent"
    assert found.find(f"bearer  {SECRET}2 ").name == "agent"


def test_a_single_word_may_do_everything(tmp_path: Path):
    found = load_tokens(file_of(tmp_path, f"{SECRET}\n"), None)
    assert [(each.name, sorted(each.scopes)) for each in found] == [("default", ["admin", "read", "write"])]


@pytest.mark.parametrize("line", ["agent write {}", "{}"])
def test_a_hash_stands_for_its_token(tmp_path: Path, line: str):
    """What a session reads that runs as the same user is of no use then."""
    hashed = f"sha256:{hashlib.sha256(SECRET.encode()).hexdigest()}"
    found = load_tokens(file_of(tmp_path, line.format(hashed)), None)
    assert found.find(f"Bearer {SECRET}")
    for other in (hashed, hashed.removeprefix("sha256:"), SECRET[1:]):
        assert found.find(f"Bearer {other}") is None
    assert not any(each.short for each in found)
    with pytest.raises(InvalidArgument, match="hash"):
        only_token(tmp_path / "tokens")


@pytest.mark.parametrize("token", ["sha256:", "sha256:abc", f"sha256:{'g' * 64}", f"sha256:{'a' * 65}"])
def test_a_hash_that_is_none_is_refused(token: str):
    """It would be a token that is known to all who read the file."""
    with pytest.raises(InvalidArgument, match="64 hexadecimal digits"):
        parse_tokens(f"agent write {token}", "x")


def test_a_variable_adds_to_the_file(tmp_path: Path):
    file = file_of(tmp_path, f"agent write {SECRET}1")
    assert [each.name for each in load_tokens(file, f"{SECRET}2\nother read {SECRET}3")] == [
        "agent",
        "default",
        "other",
    ]
    assert [each.name for each in load_tokens(None, SECRET)] == ["default"]
    assert load_tokens(None, None) is None
    assert load_tokens(None, "") is None


@pytest.mark.parametrize(
    "line",
    [f"agent {SECRET}", f"agent all {SECRET}", f"agent read, {SECRET}", f"a/b read {SECRET}", f"a read {SECRET} x"],
)
def test_a_wrong_line_is_named_and_not_shown(tmp_path: Path, line: str):
    with pytest.raises(InvalidArgument) as raised:
        load_tokens(file_of(tmp_path, f"# first\n{line}\n"), None)
    assert "line 2" in str(raised.value)
    assert SECRET not in str(raised.value)


def test_a_name_is_there_once():
    with pytest.raises(InvalidArgument, match="'a'"):
        Tokens(parse_tokens(f"a read {SECRET}\na write {SECRET}2", "x"))


def test_an_empty_file_is_an_error(tmp_path: Path):
    with pytest.raises(InvalidArgument, match="holds no token"):
        load_tokens(file_of(tmp_path, "# nothing\n"), None)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602, 0o610])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int):
    with pytest.raises(PermissionDenied, match="chmod 600"):
        load_tokens(file_of(tmp_path, SECRET, mode), None)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path):
    with pytest.raises(IoError):
        load_tokens(tmp_path / "none", None)
    with pytest.raises(IoError):
        load_tokens(tmp_path, None)


def test_a_pipe_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(InvalidArgument):
        load_tokens(tmp_path / "pipe", None)


def test_tokens_are_in_no_text_of_theirs(tmp_path: Path):
    found = load_tokens(None, SECRET)
    for each in found:
        assert SECRET not in repr(each)
        assert each.digest.hex() not in repr(each)
    assert SECRET not in repr(vars(found))


def test_each_token_is_compared_whatever_was_found(monkeypatch: pytest.MonkeyPatch):
    found = Tokens(parse_tokens("\n".join(f"n{number} read {SECRET}{number}" for number in range(5)), "x"))
    compared = []

    def counting(a: bytes, b: bytes) -> bool:
        compared.append(len(a) == len(b) == 32)
        return a == b

    monkeypatch.setattr(module.hmac, "compare_digest", counting)
    for header in (f"Bearer {SECRET}0", f"Bearer {SECRET}4", "Bearer x"):
        compared.clear()
        found.find(header)
        assert compared == [True] * 5


@given(st.text(max_size=60))
def test_no_other_header_is_accepted(text: str):
    found = Tokens(parse_tokens(SECRET, "x"))
    if text.strip() != SECRET:
        assert found.find(f"Bearer {text}") is None
    assert found.find(text) is None


def test_a_short_token_is_known_as_such():
    assert [each.short for each in Tokens(parse_tokens(f"a read short\nb read {SECRET}", "x"))] == [True, False]
