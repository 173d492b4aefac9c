"""Many machines: with whose broker a session lives, and the ways to get there.

`names` says what an id means, `transport` what a way has to do, `wire` how a call travels. Nothing of a session is kept
here: whoever asks finds each session where it lies.
"""
