"""Readiness put to the torture: what a server says of a hundred programs, against what the programs themselves show.

`scripts/bench torture` starts each program of `programs.toml`, sends its steps and notes when the server said that it
was ready. When it was truly ready the runner finds out by itself: from the answer and the prompt in the terminal's log,
or from a file that the program writes at the end of its work. Any MCP server can be measured that a table in
`adapters/` describes. Nothing of tmuxmcp is imported here.
"""
