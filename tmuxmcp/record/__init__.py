"""The record of a session: all that is kept of it in files, and the only room that opens them.

What can happen. The sink appends what the terminal prints, whoever is there. Several brokers, of several versions, read
and write beside it, and so do the launcher and the shells. Each of them may be killed at any moment, the disk may be
full or read-only, the directory may be removed or given to a session of the same name while somebody reads, and who
can write there may be hostile: a link, a pipe or another file stands where one of ours is expected.

What is there, and who owns it:

    log             `out.raw`, the bytes that the terminal printed: the one truth, written by the sink alone
    events          what else happened, and at which offset: input, sizes, lost output, persons, the end
    commands        which commands have ended, and what callers typed
    levels          the shells that stand one in front of the other
    meta            small documents: what the session is, how it began and ended, what it records; how far each caller
                    has read, and what it was told
    inputrequests   what agents ask a person, and what became of that
    notedcalls      calls with a `request_id`: what they are about to do, and what came of it
    past/           screens and films of earlier moments

`directory` opens files, and spells their names; `documents` says how a value gets into a file and out of it;
`excerpt` and `search` make text of the log.

In which order. What must be known after a kill is written before it is done: a shell before the line that adopts it, a
call before what it types, a command before the checkpoint behind its end. What can be found out again from the log,
from tmux or from the kernel is not written at all.

What is trusted:

- An offset. It counts bytes of the log from its first one and means the same for ever, also once those are given back.
- The place of a line in a file that only grows, and the identity of a file (device, inode, size, time of change).
- That rename(2) and one write(2) at the end of a file are whole or not at all; not that a write has reached the disk.

What is not trusted: that a file is there, is ours, is whole, or is of a version that we know; a time of day.

Invariants:

- A reader takes what it knows, of whatever version, and never writes over what it does not know.
- Two writers never mix: a file has one writer, a lock, or lines that are appended whole.
- A line that is torn is the last one; the next writer ends it, and readers pass over it.
- Nothing here waits for a session, types, or asks tmux. Every file has a bound.
"""
