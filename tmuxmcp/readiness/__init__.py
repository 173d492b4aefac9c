"""Readiness: whether the program in a terminal waits for input, and who says so.

What can happen. A program computes, sleeps for something else than input, reads a line, reads keys, reads a secret,
is stopped, ends, hands its terminal to another. All of that goes on while it is looked at. No program says "done", so
each answer names its witness.

In which order. Each look (`sessions/look.py`) is one pass, and each step covers the one before it:

    tty       asks the kernel: modes and unread input of the terminal, its foreground group, what each member sleeps in
    relays    where a member passes input on to another terminal of this machine: the same of that one, three deep;
              where the foreground group only waits for somebody outside it: that one
    remote    for a session on another host: what the kernel there said of the terminal there
    kernel    judges the facts of that one terminal: `Verdict`
    judge     whether a program that listens may be at work all the same (`may_be_working`); the looks of a wait, one
              after the other (`Settling`), and those of a command that runs (`AskingJudge`)

All but `judge` are in `machine/witness`, below a session. There `foreground` tells, apart from that, whether a shell
waits at its prompt and nowhere else: only then is something typed into it without being asked for.

`kernel`, `remotekernel` and `judge` are pure: facts, looks and times come in as values, and a test holds that they read
no file and no clock. The others read, and judge only what leads them from one terminal to the next.

What is trusted, and why:

- The thread that sleeps in a read of this terminal. It can do nothing but wait for input; its children may work, and
  do not read for it.
- A poll of nothing else, by the only thread and without a time-out, is worth as much: nothing but a key ends it.
- Any other poll says less: an event loop listens while it works. It counts where nothing tells that it works: no
  time-out, no other thread asleep in work, no child, its prompt back. Otherwise the cursor's line or silence decides;
  on a screen that a program draws whole, after Enter, silence alone.
- A terminal that does not echo says what becomes of what is typed, not that somebody asks: who listens is doubted there
  as well.
- Marks, once the shell has the terminal: a shell prints them, not the program that it runs, and they carry its nonce.
- A count of sleeps ("wakes"). The same count at two moments means the same sleep: nothing was read in between.
- tmux's answers are in order. Two of them, and a sink that sleeps, mean that all that was printed is in the log.

What is not trusted: silence (it ends a wait as `idle`, never as `ready`), text alone (a prompt is believed where it
was described, or was seen at rest before), the name of a program, but for what hides others and for the full-screen
programs that are known.

Invariants:

- What the kernel sees waiting is `ready` after two looks: one when it has settled, and one after all that it had
  printed is in the log. Both find it waiting, at the same size of the log.
- A fact that cannot be had is None, and a verdict on it `unknown`: never "waits" and never "works".
- Unread input, output that is held up and a change of the foreground group each mean busy, whoever else sleeps.
- A described prompt that is missing holds `ready` off wherever marks do not decide.
- A judgement given the same facts at a later time either stands or changes at the time that it told. So who waits may
  sleep until then, but for what programs do without telling: hence the short steps of `readiness/wait.py`.
- Nothing here types into a session, starts a program at its terminal, or keeps a terminal open behind a relay.
"""
