"""The file of brokers, and what operators' marks at its end say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import tmuxmcp
from tmuxmcp.config import load_settings
from tmuxmcp.contract.errors import InvalidArgument, IoError, PermissionDenied
from tmuxmcp.faces.tokens import load_tokens, only_token
from tmuxmcp.nodes.fleetfile import FleetFile, MachineEntry, parse

ONE = '[[brokers]]\nname = "n1"\nurl = "https://n1.example:8443/"\n'


def test_entries_have_what_was_said_of_them(tmp_path: Path):
    text = (
        ONE + 'token_file = "t"\nlabels = {region = "eu"}\nssh = "me@n1"\n[[brokers]]\nname="a"\nurl="http://[::1]:1"\n'
        'person_token_file = "p"\n'
    )
    contents = parse(text.encode(), tmp_path / "f")
    assert list(contents.entries) == ["a", "n1"]
    assert contents.entries["n1"] == MachineEntry(
        "n1", "https://n1.example:8443", tmp_path / "t", {"region": "eu"}, "me@n1"
    )
    assert contents.entries["a"] == MachineEntry("a", "http://[::1]:1", person_token_file=tmp_path / "p")


@pytest.mark.parametrize(
    "text",
    [
        "brokers = 1",
        "[[brokers]]\n",
        "[[machines]]\n",
        "brokers = [[",
        '[[brokers]]\nname = "N1"\nurl = "http://a"\n',
        '[[brokers]]\nname = "n1"\nurl = "ftp://a"\n',
        '[[brokers]]\nname = "n1"\nurl = "http://a"\nport = 1\n',
        '[[brokers]]\nname = "n1"\nurl = "http://a"\nlabels = {a = 1}\n',
        '[[brokers]]\nname = "n1"\nurl = "http://a"\nssh = "-oProxyCommand=true"\n',
        ONE + ONE,
        ONE + '[[marks]]\nnode = "n1"\nis = "dead"\n',
        ONE + "# " + "x" * (1 << 20),
    ],
)
def test_a_file_that_is_not_understood_is_refused(text: str):
    with pytest.raises(InvalidArgument):
        parse(text.encode(), Path("/f"))


def test_marks_are_added_at_the_end_and_the_last_one_counts(tmp_path: Path):
    path = tmp_path / "brokers.toml"
    path.write_text(ONE.rstrip("\n") + "  # no end of line")
    path.chmod(0o600)
    file = FleetFile(path)
    file.mark("n1", "drained")
    file.mark("n1", "forgotten", "abc")
    assert path.read_text().startswith(ONE.rstrip("\n"))
    mark = FleetFile(path).read().marks["n1"]
    assert (mark.said, mark.tombstone.machine_id) == ("forgotten", "abc")
    file.mark("n1", "open")
    assert file.read().marks["n1"].said == "open"
    with pytest.raises(InvalidArgument, match="n1"):
        file.mark("n2", "drained")


def test_only_its_owner_may_write_it(tmp_path: Path):
    path = tmp_path / "brokers.toml"
    with pytest.raises(IoError):
        FleetFile(path).read()
    path.write_text(ONE)
    path.chmod(0o666)
    with pytest.raises(PermissionDenied):
        FleetFile(path).read()


def test_the_kubernetes_folder_names_as_many_brokers_as_there_are_replicas():
    folder = Path(__file__).parents[2] / "packaging" / "kubernetes"
    names = parse((folder / "brokers.toml").read_bytes(), folder / "brokers.toml").entries
    assert f"replicas: {len(names)}\n" in (folder / "brokers.yaml").read_text()
    assert list(names) == [f"broker-{number}" for number in range(len(names))]


def test_no_token_of_the_kubernetes_folder_opens_more_than_its_own_broker(tmp_path: Path):
    """A session reads what its broker has: the hash, of that one's token, for no more than `write`."""
    folder = Path(__file__).parents[2] / "packaging" / "kubernetes"
    brokers = parse((folder / "brokers.toml").read_bytes(), tmp_path / "brokers.toml").entries
    for _ in range(2):  # again: nothing is made anew
        subprocess.run(["sh", folder / "tokens.sh"], cwd=tmp_path, check=True)
        tokens = {name: (tmp_path / f"{name}.token").read_text() for name in (*brokers, "client")}
    assert len(set(tokens.values())) == len(brokers) + 1
    for name, entry in brokers.items():
        assert str(entry.token_file) == f"/tokens/{name}.token"
        assert only_token(tmp_path / f"{name}.token") == tokens[name]
        known = load_tokens(tmp_path / f"{name}.tokens", None)
        assert known
        opens = {each for each, token in tokens.items() if known.find(f"Bearer {token}")}
        assert (opens, [each.scopes for each in known]) == ({name}, [{"read", "write"}])
        assert not any(token in (tmp_path / f"{name}.tokens").read_text() for token in tokens.values())
    clients = load_tokens(tmp_path / "gateway.tokens", None)
    assert clients
    assert clients.find(f"Bearer {tokens['client']}")
    made = "\n".join(f"{each.name}" for each in tmp_path.iterdir())
    recipe = (folder / "kustomization.yaml").read_text()
    assert all(name in recipe for name in made.split() if name != "client.token")


def test_the_recipes_put_no_secret_into_a_variable_and_name_a_version():
    root = Path(__file__).parents[2]
    for path in (root / "compose.yaml", *(root / "packaging" / "kubernetes").glob("*.yaml")):
        text = path.read_text()
        assert "TMUXMCP_TOKEN:" not in text
        assert "secretKeyRef" not in text
        assert "--token-file" in text or path.name not in ("compose.yaml", "brokers.yaml", "gateway.yaml")
    recipe = (root / "packaging" / "kubernetes" / "kustomization.yaml").read_text()
    assert f'newTag: "{tmuxmcp.__version__}"' in recipe


def test_no_sandbox_lets_anybody_write_to_it(tmp_path: Path):
    assert tmp_path / "b.toml" in load_settings({"fleet": str(tmp_path / "b.toml")}, Path("/dev/null")).own_files
    assert all(each.is_absolute() for each in load_settings({"fleet": "auto"}, Path("/dev/null")).own_files)
