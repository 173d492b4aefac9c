from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.cases import for_each
from tmuxmcp.gate.audit import MOST_SECRETS, REDACTED_TEXT, Redactor, hide_arguments, hide_options

SECRET = "s3cr3t.value+/="


@pytest.fixture
def redactor() -> Redactor:
    return Redactor({"API_TOKEN": SECRET, "HOME": "/home/me", "DEBUG_KEY": "true", "DB_PASS": "abc", "PWD": "/srv/dir"})


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (SECRET, REDACTED_TEXT),
        (f"a{SECRET}b {SECRET}", f"a{REDACTED_TEXT}b {REDACTED_TEXT}"),
        ("s3cr3t.value", "s3cr3t.value"),
        ("s3cr3t\n.value+/=", REDACTED_TEXT),
        ("s3cr3t.va\r\n   lue+/=", REDACTED_TEXT),
        ("s3cr3t.va\\\nlue+/=", REDACTED_TEXT),
        ("/home/me true abc /srv/dir", "/home/me true abc /srv/dir"),
    ],
)
def test_known_values_are_taken_out(redactor: Redactor, text: str, clean: str):
    assert redactor.text(text) == clean


def test_values_inside_of_other_values(redactor: Redactor):
    value = {"argv": ["x", f"--token={SECRET}"], SECRET: 1, "n": None, "deep": ({"a": SECRET},)}
    assert redactor.value(value) == {
        "argv": ["x", f"--token={REDACTED_TEXT}"],
        REDACTED_TEXT: 1,
        "n": None,
        "deep": [{"a": REDACTED_TEXT}],
    }


def test_longer_secret_goes_first():
    redactor = Redactor()
    redactor.learn(["secret", "secret-and-more"])
    assert redactor.text("secret-and-more secret") == f"{REDACTED_TEXT} {REDACTED_TEXT}"


def test_long_secret_goes_whole():
    long = "".join(chr(97 + number % 26) + str(number) for number in range(200))
    redactor = Redactor({"PRIVATE_KEY": long})
    assert redactor.text(f"<{long}>").replace(REDACTED_TEXT, "") == "<>"


def test_secret_in_json_text():
    redactor = Redactor({"A_TOKEN": 'a"b\\cdef'})
    assert redactor.text(json.dumps({"x": 'a"b\\cdef'})) == json.dumps({"x": REDACTED_TEXT})


def test_only_so_many_are_kept():
    redactor = Redactor()
    redactor.learn(f"secret-{number}" for number in range(MOST_SECRETS + 10))
    assert redactor.text("<secret-0>") == "<secret-0>"
    assert redactor.text(f"<secret-{MOST_SECRETS + 9}>") == f"<{REDACTED_TEXT}>"


@for_each(
    ("text", "clean"),
    [
        ("x --password=hunter2 y", f"x --password={REDACTED_TEXT} y"),
        ("x --api-key 'a b' y", f"x --api-key {REDACTED_TEXT} y"),
        ("GITHUB_TOKEN=abc make", f"GITHUB_TOKEN={REDACTED_TEXT} make"),
        ("export MY_KEY=abc; ls", f"export MY_KEY={REDACTED_TEXT}; ls"),
        ("git clone https://me:pw@host/x", f"git clone https://me:{REDACTED_TEXT}@host/x"),
        ("curl -H 'Authorization: Bearer abc' x", f"curl -H 'Authorization: Bearer {REDACTED_TEXT}' x"),
        ("x --token-file f; cat token; echo TOKEN x", "x --token-file f; cat token; echo TOKEN x"),
        ("ls http://host:80/a@b", "ls http://host:80/a@b"),
    ],
)
def test_what_a_command_line_itself_calls_a_secret(text: str, clean: str):
    assert hide_options(text) == clean


def test_arguments_behind_their_option():
    assert hide_arguments(["x", "--token", "abc", "-v", "y"]) == ["x", "--token", REDACTED_TEXT, "-v", "y"]
    assert hide_arguments(["x", "--token=abc", "--token"]) == ["x", f"--token={REDACTED_TEXT}", "--token"]


@given(st.text(alphabet="abc.*(\\\n ", min_size=5), st.text(), st.text())
def test_no_secret_stays_whatever_it_holds(secret: str, before: str, after: str):
    redactor = Redactor()
    redactor.learn([secret])
    if len(secret.strip()) >= 5:
        assert secret.strip() not in redactor.text(before + secret + after).replace(REDACTED_TEXT, "\0")
