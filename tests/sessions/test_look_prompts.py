"""Which lines are taken for prompts that were seen before."""

from __future__ import annotations

from tmuxmcp.sessions.look import MOST_PROGRAMS, REMEMBERED_PROMPTS, SeenPrompts


def test_a_prompt_is_known_again_with_other_digits_and_paths():
    seen = SeenPrompts()
    seen.learn(7, "joe@far:~/src$ ", False)
    assert seen.knows(7, "joe@far:/tmp$ ", False)
    assert not seen.knows(7, "root@far:/tmp# ", False)
    assert not seen.knows(8, "joe@far:~/src$ ", False)
    assert seen.begins(7, "joe@far:~/src$ ls -l")
    assert not seen.begins(7, "ls -l")


def test_what_is_no_prompt_is_not_learnt():
    seen = SeenPrompts()
    for line in ("45%", "Receiving objects: 45%", "Continue? [y/N] ", "Password: ", "", "   ", "words"):
        seen.learn(7, line, False)
        assert not seen.knows(7, line, False), line


def test_only_the_last_prompts_are_kept():
    seen = SeenPrompts()
    for name in "abcdefghij":
        seen.learn(7, f"{name}> ", False)
    kept = [name for name in "abcdefghij" if seen.knows(7, f"{name}> ", False)]
    assert kept == list("abcdefghij"[-REMEMBERED_PROMPTS:])
    for pid in range(100, 100 + MOST_PROGRAMS):
        seen.learn(pid, "x> ", False)
    assert not seen.knows(7, "j> ", False)
    assert seen.knows(100, "x> ", False)


def test_a_prompt_that_came_with_a_line_editor_is_known_with_one_alone():
    seen = SeenPrompts()
    seen.learn(7, "far$ ", True)
    assert seen.knows(7, "far$ ", True)
    assert not seen.knows(7, "far$ ", False)
    seen.learn(7, "sh$ ", False)
    assert seen.knows(7, "sh$ ", True)
    assert seen.knows(7, "sh$ ", False)
