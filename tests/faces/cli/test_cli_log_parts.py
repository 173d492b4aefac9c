"""`tmuxmcp log`: parts of a log by offset, time and command, the time of each line, and what else happened."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S, SLOW, attempts, until_exists
from tests.faces.cli.test_cli_log import Following
from tests.kit.agent import Agent, eventually
from tests.kit.cli import CommandLine, a_command_line
from tmuxmcp.contract.call import iso, seconds_of
from tmuxmcp.faces.cli.log import SOON_S, TIME_UNKNOWN, PrintedAt, SeenUntil, stretches
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.past.recordings import RecordedSession
from tmuxmcp.record.past.timing import TimingStep


@pytest.fixture(scope="module")
def cli():
    """With session `a`, of which a server noted when it printed what, and `b` without one; both have ended."""
    with a_command_line() as cli:
        cli.state.mkdir(mode=0o700)
        with Agent(cli.state, "bash") as agent:
            agent.call("create_session", name="a", program="bash", args=["--norc"])
            agent.call("run", session_id="a", command="echo one")
            cli.between = a_known_time(cli, agent)
            agent.call("run", session_id="a", command="echo two; echo three; (exit 3)")
            agent.call("resize", session_id="a", rows=30, cols=100)
        cli("kill", "a", "--force")
        cli("new", "--name", "b", "bash", "--norc")
        cli("run", "-s", "b", "echo alone")
        cli.unknown = an_unknown_time(cli)
        cli("send", "b", "exit 4", "--enter", "--wait", "exit")
        yield cli


def a_known_time(cli: CommandLine, agent: Agent) -> float:
    """A time that has output before it and behind it, and 50 ms after which it is known how much had been printed.

    A busy machine holds up who writes down the times of output. Then it is not known, which `log` says.
    """
    for _ in attempts("a time at which it is known how much had been printed", PATIENCE_S):
        printed, found = cli("log", "a", "--raw").stdout, time.time()
        time.sleep(0.1)
        agent.call("send", session_id="a", keys=["C-g"])  # the bell rings
        eventually(lambda: cli("log", "a", "--raw").stdout != printed)  # noqa: B023
        with suppress(AssertionError):
            eventually(lambda: not cli("log", "a", "--until", iso(found + 0.05)).stderr, timeout=1)  # noqa: B023
            return found
    raise AssertionError


def an_unknown_time(cli: CommandLine) -> float:
    """A time with output of `b` before it and behind it that nobody was there to note."""
    go, printed, end = (cli.state / name for name in ("go", "printed", "end"))
    line = f"{until_exists(go)}; echo noted by nobody; touch {printed}; {until_exists(end)}; echo neither"
    cli("send", "b", line, "--enter", "--wait", "none")
    go.touch()
    eventually(printed.exists)
    found = time.time() + 0.1
    time.sleep(0.2)
    end.touch()
    cli("read", "b", "--wait", "ready")
    return found


def stamped(text: str) -> list[tuple[float, str, str]]:
    """Time, how exact it is, and text of each line."""
    return [(seconds_of(line[:24]), line[24], line[26:]) for line in text.splitlines()]


# ---- parts ---------------------------------------------------------------------------------------


def test_since_and_until_take_times(cli):
    middle = iso(cli.between + 0.05)
    before, after = cli.out("log", "a", "--until", middle), cli.out("log", "a", "--since", middle)
    assert "\none\n" in before
    assert "two" not in before
    assert "\ntwo\n" in after
    assert "one" not in after
    assert cli.out("log", "a").startswith(before)
    assert cli.out("log", "a").endswith(after.removeprefix("bash"))
    assert cli.out("log", "a", "--since", middle, "--until", middle) == ""
    assert cli.out("log", "a", "--since", "1h", "--until", "0s") == cli.out("log", "a")


def test_a_time_without_a_zone_is_local(cli):
    cli.env["TZ"] = "XYZ-3"
    try:
        local = datetime.fromtimestamp(cli.between + 0.05, UTC).timestamp() + 3 * 3600
        word = datetime.fromtimestamp(local, UTC).replace(tzinfo=None).isoformat()
        assert cli.out("log", "a", "--since", word) == cli.out("log", "a", "--since", iso(cli.between + 0.05))
    finally:
        del cli.env["TZ"]


def test_where_no_time_was_noted_nothing_is_left_out_and_that_is_said(cli):
    done = cli("log", "b", "--since", iso(cli.unknown))
    assert done.stdout.startswith(b"noted by nobody\nneither\n")
    assert b"not known how much had been printed" in done.stderr


def commands(cli, name: str) -> list[float]:
    """When its commands began."""
    return [seconds_of(each["started_at"]) for each in cli.json("history", name)["commands"]]


def test_an_offset_ends_it_too(cli):
    first = cli.json("history", "a")["commands"][0]
    words = ["--since", str(first["start_offset"]), "--until", str(first["end_offset"])]
    assert cli.out("log", "a", *words) == "one\n"
    assert cli.json("log", "a", *words)["content"] == "one\n"
    assert cli("log", "a", "--raw", *words).stdout == b"one\r\n"


def test_the_output_of_one_command(cli):
    number = cli.json("history", "a")["commands"][0]["number"]
    assert cli.out("log", "a", "--command", str(number)) == "one\n"
    assert cli.out("log", "a", "--command", "-1") == "two\nthree\n"
    assert cli("log", "b", "--command", "1", "--raw").stdout == b"alone\r\n"
    assert "lists them" in cli.error("log", "a", "--command", "99", status=2)
    cli.error("log", "a", "--command", "0", status=2)


@pytest.mark.parametrize(
    "words",
    [
        "--command 1 --since 0",
        "--command 1 --until 0",
        "--command 1 --tail 1",
        "--command 1 --follow",
        "--follow --until 1",
        "--raw --timestamps",
        "--raw --events",
        "--events --timestamps",
        "--since yesterday",
        "--since 2999-01-01",
        "--until 5 --since 9",
        "--until 99999999",
    ],
)
def test_what_makes_no_sense_is_wrong_usage(cli, words):
    assert cli.error("log", "a", *words.split(), status=2).startswith("INVALID_ARGUMENT: ")


# ---- times ---------------------------------------------------------------------------------------


def test_each_line_has_the_time_at_which_it_was_complete(cli):
    began = commands(cli, "a")
    lines = stamped(cli.out("log", "a", "--timestamps"))
    assert [text for _, _, text in lines] == cli.out("log", "a").splitlines()
    times = {text: at_s for at_s, _, text in lines}
    rounded_s = 0.0015  # both clocks are cut to milliseconds, each by itself
    assert began[0] - rounded_s <= times["one"] <= cli.between
    assert cli.between < began[1] - rounded_s <= times["two"] <= times["three"]
    assert [at_s for at_s, _, _ in lines] == sorted(at_s for at_s, _, _ in lines)


def test_the_last_lines_with_their_times(cli):
    lines = cli.out("log", "a", "--timestamps").splitlines()
    assert cli.out("log", "a", "--timestamps", "--tail", "3").splitlines() == lines[-3:]
    assert cli.out("log", "a", "--timestamps", "--tail", "0") == ""
    assert cli.out("log", "a", "--timestamps", "--tail", "99").splitlines() == lines


def test_a_time_that_nobody_noted_is_said_to_be_a_guess(cli):
    done = cli("log", "b", "--timestamps")
    lines = stamped(done.stdout.decode())
    assert {exact for _, exact, _ in lines} == {"~"}
    assert b"then or before" in done.stderr
    (alone,) = (at_s for at_s, _, text in lines if text == "alone")
    assert commands(cli, "b")[0] <= alone <= time.time()
    told = cli.json("log", "b", "--timestamps")["lines"]
    assert {"text": "alone\n", "exact": False, "time": iso(alone)} in told


def test_following_dates_what_it_sees(cli):
    cli("new", "--name", "c", "env", "sh", "-c", "stty -echo; echo begun; while read -r line; do echo $line; done")
    following = Following(cli, "c", "--timestamps")
    following.until(b"begun\n")
    begun = time.time()
    cli("send", "c", "now", "--enter", "--wait", "none")
    following.until(b"now\n")
    cli("kill", "c", "--force")
    following.process.communicate(PATIENCE_S * SLOW)
    (now,) = (at_s for at_s, _, text in stamped(following.seen.decode()) if text == "now")
    assert begun - 0.001 <= now <= time.time()


def test_what_was_seen_late_is_no_exact_time(monkeypatch):
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    watch = SeenUntil(lambda: 5.0)
    assert watch.stamp() == PrintedAt(5.0, exact=False)
    watch.caught_up()
    now_s += SOON_S
    assert watch.stamp() == PrintedAt(5.0, exact=True)
    now_s += 0.1  # stopped meanwhile, say
    assert watch.stamp() == PrintedAt(5.0, exact=False)


class Noted:
    """A timing index: the first ten bytes at 1.5 s, all behind them nobody knows."""

    def steps(self, start: int, end: int) -> Iterator[TimingStep]:
        return iter([TimingStep(10, 1500), TimingStep(20, 1700, known=False)])


def test_stamps_say_what_the_index_knows(tmp_path: Path):
    (tmp_path / "out.raw").write_bytes(b"x" * 20)
    recorded = RecordedSession(SessionDirectory(tmp_path), Noted())
    assert [*stretches(recorded, 1000.0, 0, 20)] == [(10, PrintedAt(1001.5, True)), (20, PrintedAt(1001.7, False))]
    assert [*stretches(recorded, None, 0, 20)] == [(10, TIME_UNKNOWN), (20, TIME_UNKNOWN)]
    assert PrintedAt(1001.5, True).text == "1970-01-01T00:16:41.500Z  "
    assert PrintedAt(1001.5, False).text == "1970-01-01T00:16:41.500Z~ "
    assert TIME_UNKNOWN.text == "?" + " " * 25


# ---- events --------------------------------------------------------------------------------------


def test_events_in_their_order(cli):
    told = cli.json("log", "a", "--events")
    assert told["session_id"] == "a"
    kinds = [each["event"] for each in told["events"]]
    assert kinds.count("command") == 2
    assert {"input", "resize", "exit", "ended"} <= {*kinds}
    offsets = [each["offset"] for each in told["events"]]
    assert offsets == sorted(offsets)
    second = [each for each in told["events"] if each["event"] == "command"][1]
    assert (second["exit_code"], second["by"], second["text"]) == (3, "agent", "echo two; echo three; (exit 3)")
    (size,) = (each for each in told["events"] if each["event"] == "resize")
    assert (size["cols"], size["rows"]) == (100, 30)
    (ended,) = (each for each in told["events"] if each["event"] == "ended")
    assert (ended["reason"], ended["by"]) == ("destroyed", "cli")


def test_events_as_lines(cli):
    lines = cli.out("log", "a", "--events").splitlines()
    told = cli.json("log", "a", "--events")["events"]
    assert [line.split()[:3] for line in lines] == [[e["time"], f"@{e['offset']}", e["event"]] for e in told]
    assert any(line.endswith(" ms, by agent: echo two; echo three; (exit 3)") for line in lines)
    assert any(line.endswith("  100x30") for line in lines)
    assert cli.out("log", "a", "--events", "--tail", "2").splitlines() == lines[-2:]
    assert any(line.endswith("  exit code 4") for line in cli.out("log", "b", "--events").splitlines()[-2:])


def test_events_of_a_part(cli):
    middle = iso(cli.between + 0.05)
    early = cli.json("log", "a", "--events", "--until", middle)["events"]
    late = cli.json("log", "a", "--events", "--since", middle)["events"]
    assert early + late == cli.json("log", "a", "--events")["events"]
    assert [each["text"] for each in early if each["event"] == "command"] == ["echo one"]
    offset = next(each["offset"] for each in late if each["event"] == "resize")
    assert {each["offset"] for each in cli.json("log", "a", "--events", "--since", str(offset))["events"]} >= {offset}


def test_events_as_they_come(cli):
    cli("new", "--name", "d", "bash", "--norc")
    following = Following(cli, "d", "--events", "--json")
    cli("run", "-s", "d", "echo x; (exit 5)", status=5)
    following.until(b'"command"')
    cli("take", "d")
    following.until(b'"taken"')
    cli("kill", "d", "--force")
    told = [json.loads(line) for line in following.end().splitlines()]
    kinds = [each["event"] for each in told]
    assert sorted(kinds) == sorted([*{*kinds}, *["input"] * (kinds.count("input") - 1)])  # each once
    assert {"input", "command", "taken", "exit", "ended"} <= {*kinds}
    (command,) = (each for each in told if each["event"] == "command")
    assert (command["text"], command["exit_code"]) == ("echo x; (exit 5)", 5)
