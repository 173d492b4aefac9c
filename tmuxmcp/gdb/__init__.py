"""What gdb says to programs: GDB/MI. Pure."""
