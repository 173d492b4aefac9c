"""Which commands have ended: one file, several writers, a bounded size."""

from __future__ import annotations

import pytest

from tmuxmcp.contract.value import replace
from tmuxmcp.machine.locks import open_lock, take
from tmuxmcp.record import commands as module
from tmuxmcp.record.commands import CommandFile, EndedCommand, TypedInput
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.terminal.marks import Promise


def command(number: int) -> EndedCommand:
    return EndedCommand(number, f"echo {number}", "agent", 0, 1.5, None, "/a", number * 100, number * 100 + 50)


def read(directory: SessionDirectory) -> CommandFile:
    file = CommandFile(directory)
    file.read_on()
    return file


def test_another_broker_reads_what_was_written(directory: SessionDirectory) -> None:
    file = CommandFile(directory)
    file.type(TypedInput(7, "echo ä\n", True))
    file.type(TypedInput(9, None))
    assert file.end([command(2), command(5)])
    found = read(directory)
    assert [found.ended[number] for number in found.numbers] == [command(2), command(5)]
    assert [*found.typed] == [TypedInput(7, "echo ä\n", True), TypedInput(9, None)]
    assert found.forgotten == 0


def test_a_reader_reads_on(directory: SessionDirectory) -> None:
    file, reader = CommandFile(directory), read(directory)
    for number in (1, 2, 3):
        file.end([command(number)])
        reader.read_on()
        assert reader.numbers == [*range(1, number + 1)]


def test_two_brokers_write_each_command_once(directory: SessionDirectory) -> None:
    one, other = CommandFile(directory), CommandFile(directory)
    assert one.end([command(1), command(2)])
    assert other.end([replace(command(1), began=1.501), command(2), command(3)])
    assert directory.commands.read_text().count('"number"') == 3


def test_the_last_end_of_a_number_counts(directory: SessionDirectory) -> None:
    file = CommandFile(directory)
    file.end([command(1)])
    file.end([replace(command(1), exit_code=7, end=180)])
    file.end([command(2)])
    assert read(directory).ended == {1: replace(command(1), exit_code=7, end=180), 2: command(2)}


def test_an_older_number_that_comes_late_stands_where_it_belongs(directory: SessionDirectory) -> None:
    file = CommandFile(directory)
    file.end([command(4)])
    file.end([command(2)])
    assert read(directory).numbers == file.numbers == [2, 4]


def test_while_another_writes_nothing_is_written(directory: SessionDirectory) -> None:
    file = CommandFile(directory)
    assert file.end([command(1)])
    fd = open_lock(directory.commands)
    assert take(fd)
    assert not file.end([command(2)])
    assert read(directory).numbers == [1]


def test_a_torn_line_harms_no_other(directory: SessionDirectory) -> None:
    directory.commands.write_bytes(b'{"number": 1, "te')
    file = CommandFile(directory)
    file.type(TypedInput(1, "ls"))
    file.end([command(2)])
    with directory.commands.open("ab") as text:
        text.write(b'[]\nnull\n{}\n{"number": 9}\n{"typed": "x"}\n{"forg')
    found = read(directory)
    assert (found.numbers, [*found.typed]) == ([2], [TypedInput(1, "ls")])


def test_it_is_bounded_and_counts_what_it_forgot(directory: SessionDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMMANDS_FILE_BYTES", 2000)
    file, reader = CommandFile(directory), CommandFile(directory)
    for number in range(1, 101):
        assert file.end([command(number)])
        if number % 7 == 0:
            reader.read_on()
    reader.read_on()
    for each in (file, reader, read(directory)):
        assert each.numbers[-1] == 100
        assert each.forgotten + len(each.numbers) == 100
        assert [*each.ended] == each.numbers == [*range(each.numbers[0], 101)]
        assert len(each.numbers) > 5
    assert directory.commands.stat().st_size + directory.commands_before.stat().st_size < 5000


def test_what_is_forgotten_is_not_written_down_again(
    directory: SessionDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMMANDS_FILE_BYTES", 2000)
    file, late = CommandFile(directory), CommandFile(directory)
    late.end([command(1)])
    for number in range(1, 101):
        assert file.end([command(number)])
    for number in range(1, 101):  # it scans the same log, after the other one
        assert late.end([command(number)])
    for each in (file, late, read(directory)):
        each.read_on()
        assert each.numbers == [*range(each.forgotten + 1, 101)]
        assert len(each.numbers) > 5


def test_a_late_older_command_keeps_no_gap_alive(directory: SessionDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMMANDS_FILE_BYTES", 2000)
    file = CommandFile(directory)
    for number in [*range(2, 41), 1, *range(41, 61)]:
        assert file.end([command(number)])
    assert file.numbers == read(directory).numbers == [*range(file.numbers[0], 61)]
    assert file.forgotten == read(directory).forgotten


def test_what_is_typed_does_not_drive_commands_out(
    directory: SessionDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMMANDS_FILE_BYTES", 4000)
    file, reader = CommandFile(directory), read(directory)
    assert file.end([command(number) for number in range(1, 9)])
    for number in range(1000):
        file.type(TypedInput(number, f"print({number})"))
        if number % 70 == 0:
            reader.read_on()
    reader.read_on()
    assert directory.commands.stat().st_size < 5000
    for each in (reader, read(directory)):
        assert (each.numbers, each.forgotten) == ([*range(1, 9)], 0)
        assert each.typed[-1] == TypedInput(999, "print(999)")
        offsets = [typed.offset for typed in each.typed]
        assert offsets[-10:] == [*range(990, 1000)]
    assert file.end([command(9)])
    assert read(directory).numbers == [*range(1, 10)]


def test_an_input_of_our_own_is_not_read_again(directory: SessionDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    file = CommandFile(directory)
    file.type(TypedInput(1, "a"))
    file.read_on()
    taken: list[int] = []
    original = CommandFile._take
    monkeypatch.setattr(CommandFile, "_take", lambda *given: taken.append(1) or original(*given))
    second = TypedInput(2, "ä\udcff", True, "j1", Promise("c", "d"), "person")
    file.type(second)
    file.read_on()
    assert (file.typed[-1], taken) == (second, [])
    monkeypatch.undo()
    assert [*file.typed] == [*read(directory).typed]


def test_what_another_broker_wrote_in_between_is_read(directory: SessionDirectory) -> None:
    one, other = CommandFile(directory), CommandFile(directory)
    one.type(TypedInput(1, "a"))
    one.read_on()
    other.type(TypedInput(2, "b"))
    one.type(TypedInput(3, "c"))
    one.read_on()
    assert [each.offset for each in one.typed] == [1, 2, 3]
