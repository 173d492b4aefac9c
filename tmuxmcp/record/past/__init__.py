"""The past of a session: what its screen showed at any moment, and films of it, rebuilt from the log.

What can happen. A session printed a gigabyte, of which the first half is gone. A full-screen program drew one row a
minute. Nobody was there to write down times. The size changed in the middle. What was printed is foreign: it may be
made to take long, or to draw what never was. And whoever asks may ask for a moment long past, or for one just now.

In which order:

    timing        offset <-> time: one broker of a state directory writes it, as the log grows
    checkpoints   whole screens at offsets, by the same broker, where a replay from the one before would take long
    replaying     from the nearest checkpoint, or from where the log begins, the bytes up to the offset are fed to the
                  terminal of `terminal/emulator`, in a process of its own with a bound on time and memory (`replayer`)
    recordings    from a screen at its beginning, the bytes with their times, and what else happened, are a film
    exporting     a film becomes a file: asciicast, text, GIF, SVG

What is trusted: the bytes of the log, and sizes where events give them an offset. A checkpoint only with its checksum,
and only of the same form and session; without one, or with a torn one, the same screen is rebuilt from further back.

What is not known is said: a screen whose beginning is gone is approximate until it was cleared or drawn anew
(`terminal/emulator/uncertain`), and bytes without a time stand at the next time that is known.

Invariants:

- The past never changes what is: it moves no cursor of a caller, and nothing counts as told.
- The same offset gives the same screen, whichever checkpoint the replay begins at.
- What was not written down is said not to be known, and never guessed.
- Nothing holds more than a bounded piece of a log in memory.
"""
