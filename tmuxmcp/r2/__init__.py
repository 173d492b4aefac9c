"""radare2 and rizin behind their pipes."""
