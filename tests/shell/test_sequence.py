"""What `send` types behind its text: keys, and texts between them."""

from __future__ import annotations

import base64

import pytest

from tests.conftest import eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import InvalidArgument, InvalidKey, NoInput
from tmuxmcp.contract.requests import Send
from tmuxmcp.gate.actions import pending_after
from tmuxmcp.shell.sequence import TEXTS_BYTES, KeySequence, Text, items_of, pressed, text_of


def asked(**arguments: object) -> Send:
    request = Send.operation.parse(arguments)
    assert isinstance(request, Send)
    return request


@pytest.mark.parametrize(
    ("arguments", "items"),
    [
        ({}, []),
        ({"keys": "C-c"}, [KeySequence(["C-c"])]),
        ({"keys": ["Up", "Up"]}, [KeySequence(["Up", "Up"])]),
        ({"keys": [{"text": "Up"}]}, [Text("Up")]),
        ({"text": "a\n"}, [KeySequence(["Enter"])]),
        ({"text": "a\r\n", "key": "Up", "enter": True}, [KeySequence([key]) for key in ("Enter", "Up", "Enter")]),
        ({"text": "a\n", "enter": True}, [KeySequence(["Enter"])]),
        ({"keys": [{"text": "a\nb\r\n"}], "enter": True}, [Text("a\nb"), KeySequence(["Enter"])]),
        ({"keys": [{"text": "\n"}, "Up"]}, [KeySequence(["Enter"]), KeySequence(["Up"])]),
        (
            {"key": "c", "ctrl": True, "keys": ["F1", {"text": "a b"}, "Down*2", {"text": "é"}], "enter": True},
            [
                KeySequence(["C-c"]),
                KeySequence(["F1"]),
                Text("a b"),
                KeySequence(["Down", "Down"]),
                Text("é"),
                KeySequence(["Enter"]),
            ],
        ),
    ],
)
def test_keys_and_texts_keep_their_order(arguments: dict, items: list):
    assert items_of(asked(**arguments)) == items


@pytest.mark.parametrize(
    "keys", [[{"text": 1}], [{"txt": "a"}], [{"text": "a", "key": "b"}], [{}], [["a"]], {"a": "b"}]
)
def test_other_items_are_refused(keys: object):
    with pytest.raises(InvalidArgument, match="keys"):
        asked(keys=keys)


def test_a_wrong_key_refuses_all():
    with pytest.raises(InvalidKey):
        items_of(asked(keys=[{"text": "ls"}, "NoSuchKey"]))


def test_texts_among_keys_are_short():
    items_of(asked(keys=[{"text": "x" * TEXTS_BYTES}]))
    with pytest.raises(InvalidArgument, match="4,096 bytes"):
        items_of(asked(keys=[{"text": "x" * TEXTS_BYTES}, {"text": "y"}]))


def test_the_policy_sees_each_key_and_character():
    assert pressed(items_of(asked(keys=[{"text": "rm x\n"}, "Up"]))) == ["r", "m", "Space", "x", "Enter", "Up"]
    assert pending_after("", asked(keys=["C-u", {"text": "sudo"}])) == "sudo"
    assert pending_after("", asked(text="one\r\ntwo")) == "two"
    assert pending_after("su", asked(text="do\r\n")) == ""
    assert pending_after("su", asked(data_base64=base64.b64encode(b"do").decode())) == "sudo"


def test_bytes_are_decoded_and_come_alone():
    data = bytes(range(256))
    assert text_of(asked(data_base64=base64.b64encode(data).decode())).data == data
    for wrong in ({"data_base64": "!"}, {"data_base64": "YQ==", "text": "a"}):
        with pytest.raises(InvalidArgument):
            text_of(asked(**wrong))


async def test_all_of_it_arrives_in_order_and_exact(broker: Broker, tmp_path):
    got = tmp_path / "got"
    data = bytes(range(256))
    wanted = data + b"a b;\x1b[A" + b"\xc3\xa9-\x00" + b"\r"
    script = f"stty raw -echo; echo here; head -c {len(wanted)} >{got}; echo done; sleep 60"
    await broker.create_session("sh", ["-c", script], name="a")
    await broker.read(session_id="a", wait_for="pattern", pattern="here")
    keys = [{"text": "a b;"}, "Up", {"text": "é-\0"}]
    encoded = base64.b64encode(data).decode()
    sent = await broker.send(data_base64=encoded, keys=keys, enter=True, session_id="a", read="none")
    assert sent.sent_bytes == 256 + 4 + 1 + 4 + 1
    await eventually(lambda: got.exists() and got.stat().st_size == len(wanted))
    assert got.read_bytes() == wanted
    with pytest.raises(NoInput):
        await broker.send(keys=[{"text": ""}], session_id="a")
