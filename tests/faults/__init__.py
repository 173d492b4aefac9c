"""What goes wrong outside of us, done on purpose to real processes; docs/explanation/faults.md is the table of it."""
