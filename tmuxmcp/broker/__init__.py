"""The broker: what each operation does, in whose name, and what its caller is told.

What can happen. A call comes from an agent over MCP, from a person's command line or page, from a program or from a
gateway. The session that is meant may be gone, another one by now, held by a person, paused, or not yet made. The
policy may refuse the call, or have a person asked, who takes minutes. The caller may go away, or ask again with the
same id, of another broker. Other brokers act on the same sessions meanwhile, and this one may be killed.

In which order. Every call goes through one list of stages (`stages`): its caller, its id, its session, the policy, its
client's limits and who holds the session are settled first; then the verb acts; then what else the caller should know
is added. A verb is a function with `@verb` above it, in the module of what it does:

    run, send        commands; text and keys (`sending`), secrets
    reading          what a session shows or printed (`views`, `past`, `screenshot`)
    waiting          one wait over several sessions
    lifecycle        sessions are made, resized, signalled, ended, restored
    recorder         recordings and exports
    userinput        a person is asked (`answering`, `pageinput`: how a person does it)
    programs/        files and processes of the machine, git, gdb, r2

`again` answers calls with an id that were made before. `broker` opens and closes all of it, with its background jobs.

What is trusted: what tmux, the log and the kernel say at this moment. What is remembered of an earlier look counts only
where tmux checks it in the very step that acts; where it does not hold any more, nothing was done, and the session is
found anew.

Invariants:

- A broker keeps nothing that it cannot rebuild: sessions lie in tmux, output in logs, the rest in files.
- What is refused before its verb began has done nothing, and says so.
- A call acts in the session for which it was judged, or is judged again.
- What a caller is told counts as told only once the answer is on its way; else it is told again.
- An answer names who says so (`evidence`). What cannot be known is null, or a `note`, and never a guess.
- Every wait has an end, every answer a size.
"""
