"""Commands in a live shell: typed once, read whole, with their exit codes, by the marks that the shell prints.

What can happen. The shell is at its prompt, or on its way there, or runs something, or another program stands in
front of it. The prompt may be somebody else's at any moment: a person types, another broker was first, a program of
before has left keys in the terminal. The command may ask for input, never end, end its shell, start another one, or
print marks of its own. The log may be late, and a sink that was killed leaves a gap in it. This broker may be killed.

In which order:

    at_prompt      one look that shows the shell at its prompt; else wait, adopt what is in front, or say what is there
                   (`typing`, as `promptjudge` judges; `startup`)
    type_command   by file: the command is written to a file, our key and its name are typed (our own bash)
                   by key: our key is typed, the shell says that it listens, name and command are typed (the others)
    press_key      claims the prompt, by its number, in the same tmux command that types the key (`typing`)
    _finish        reads marks until one of: its end, a refusal, a question, silence, the end of time, the shell's end
    _not_done      where no end comes: a missing mark says something only once nothing is on its way (`ShellRest`)

A shell is given the command with a name, which its marks then carry. Nothing else that is typed, shown or left in
the terminal has a say. Everything in between that types is one guarded tmux command: it holds the conditions (nobody
has taken over, nobody adopts, the prompt is unclaimed, the program lives), so no check is older than the
keys that depend on it. No lock file says that a shell is busy: its marks do.

What is trusted, and why:

- An end is ours if it carries our name; where the shell takes a proof, only with that: the name can be read by every
  program in the terminal, the proof is shown by the shell alone, when it is over.
- Offsets in the log, from mark to mark, bound the output. Text of the screen bounds nothing.
- That the shell did not take the command is believed from its own mark, with a proof in use only while it does not
  run, and rests or has stood so for a second: everybody can print such a mark.
- The kernel decides whether the shell's line editor is in front; without it, marks alone.
- What is not in the log says nothing, unless its sink lives, no gap was written down there, and the shell rests.

Invariants:

- A command is typed once. What fails before the key fails with "nothing was run"; what is not known later is told as
  not known (`completed` false, no exit code), never as "not run".
- From the claim to the last byte of the command a cancelled call goes on (shielded): no shell is left listening.
- A command outlives the call: cancelled, timed out or asked for input, it goes on, and `read wait_for=command` has it.
- A call with an id writes down what it types before it types it; who takes it up finds out what became of that.
- Whoever gives up on a prompt frees its claim; a claim whose owner was killed is taken over only where the shell is
  seen at rest at that same prompt, or has listened for seconds: an owner that goes on after all types nothing, as the
  step that types asks for its claim.

`outcomes` judges what became of a command, `promptjudge` what time tells of it; `readiness/finding.py` whether it asks.
"""
