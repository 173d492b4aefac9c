"""What git prints, as values, and which of a repository's configuration is kept."""

from __future__ import annotations

from tmuxmcp.broker.programs import gitparse, gitwork


def test_what_was_cut_off_is_left_out():
    whole = b"# branch.head main\x001 .M N... 1 1 1 a b kept\x002 R. N... 1 1 1 a b R100 new\x00old\x00? x\x00"
    assert [each["path"] for each in gitparse.status(whole)["files"]] == ["kept", "new", "x"]
    for end in range(len(whole)):
        found = [each["path"] for each in gitparse.status(whole[:end])["files"]]
        assert found == ["kept", "new", "x"][: len(found)]
    one = b"c\0p q\0n\0e\0d\0s\0b\n\0\n"
    assert [each["parents"] for each in gitparse.commits(one + one[:-3])] == [["p", "q"]]


def test_only_harmless_values_are_kept():
    listed = b"core.filemode\nfalse\0core.fsmonitor\n/evil\0core.eol\nlf]\nx\0core.autocrlf\nINPUT\0core.symlinks\0"
    assert gitwork.configuration(listed) == {"core.filemode": "false", "core.autocrlf": "input"}
