# fish completion of tmuxmcp. The program makes it, at the first Tab in a shell.
command tmuxmcp completion fish 2>/dev/null | source
