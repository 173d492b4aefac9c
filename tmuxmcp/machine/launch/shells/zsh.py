"""zsh: listens for commands after our key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tmuxmcp.machine.launch.shells.record import START_UP, Integration, Shell


def _integrate(args: Sequence[str], environment: Mapping[str, str]) -> Integration | None:
    options = _options(args)
    if options is None:
        return None
    rest, reads_files = options
    env = {"ZDOTDIR": str(START_UP / "zsh")}
    if "ZDOTDIR" in environment:
        env["TMUXMCP_ZDOTDIR"] = environment["ZDOTDIR"]
    if not reads_files:
        env["TMUXMCP_NORCS"] = "1"
    return Integration(rest, env, True)


def _options(args: Sequence[str]) -> tuple[list[str], bool] | None:
    """Read zsh's options (zshoptions(1)): those without NO_RCS, which would keep ours out, and whether it was absent.

    None when the shell will not be interactive, or reads no file that we could stand in for.
    """
    rest: list[str] = []
    reads_files = True
    words = iter(args)
    for word in words:
        if word in ("-o", "+o"):
            name = next(words, "")
            if _option_name(name) in ("norcs", "rcs"):
                reads_files = reads_files and (word == "-o") == (_option_name(name) == "rcs")
                continue
            if _option_name(name) in ("privileged", "shinstdin", "singlecommand", "nozle"):
                return None
            rest += [word, name]
        elif word in ("-", "--") or not word or word[0] not in "-+":
            return None  # a script
        elif word.startswith("--"):
            if _option_name(word) == "norcs":
                reads_files = False
                continue
            if word in ("--help", "--version", "--emulate") or _option_name(word) in ("privileged", "singlecommand"):
                return None
            rest.append(word)
        elif set(word[1:]) & set("cbpton") or ("s" in word and "i" not in word):
            return None
        else:
            reads_files = reads_files and not (word[0] == "-" and "f" in word)
            word = word.replace("f", "")
            if len(word) > 1:
                rest.append(word)
    return rest, reads_files


def _option_name(word: str) -> str:
    """Blanks of every kind do not count in an option's name."""
    return word.lower().replace("_", "").replace("-", "")


ZSH = Shell(
    "zsh",
    _integrate,
    leaves_refused=True,
    prompt_hook="precmd_functions",
    editor_on="setopt zle",
    temporary_prefix="TMPPREFIX",
    files=("zsh", "zsh5"),
    valued=("-o", "+o", "--emulate"),
    reads_lines=True,
    without_files=("-f",),
    bare=lambda lines: [("-f", "+Z") if lines else ("-f", "-i")],
)
