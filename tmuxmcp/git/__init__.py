"""Looks at git repositories that anybody may have made: reads them, runs nothing that they name."""
