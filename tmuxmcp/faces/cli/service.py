"""The verbs that are about tmuxmcp itself: serve, demo, doctor, config."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.arguments import program_words

if TYPE_CHECKING:
    from tmuxmcp.config import Settings
    from tmuxmcp.faces.page.codes import ServedPage


def flags(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that were given as flags, by name."""
    given = {name.removeprefix("set_"): value for name, value in vars(options).items() if name.startswith("set_")}
    return {
        name: dict(value) if isinstance(value, list) else value for name, value in given.items() if value is not None
    }


def config_file(options: argparse.Namespace) -> Path | None:
    """The settings file that was named."""
    return Path(options.config).expanduser() if options.config else None


def effective(options: argparse.Namespace) -> tuple[Settings, dict[str, str]]:
    """The settings, and where each came from; read once for each command."""
    known: tuple[Settings, dict[str, str]] | None = getattr(options, "effective", None)
    if known is None:
        from tmuxmcp.config import load_with_origins

        known = options.effective = load_with_origins(flags(options), config_file(options))
    return known


def serve(options: argparse.Namespace) -> int:
    """Serve MCP on stdio until the client goes, or over HTTP until a signal comes."""
    from tmuxmcp.app import run_http, run_stdio
    from tmuxmcp.config import load_settings
    from tmuxmcp.machine import ownprocess

    words = program_words(options)
    given = flags(options)
    if words:  # another program than the settings', so not with their arguments
        given |= {"program": words[0], "program_args": words[1:]}
    settings = load_settings(given, config_file(options))
    if words:
        _check_program(settings)
    ownprocess.withhold()
    ownprocess.refuse_to_be_looked_into()
    if settings.http in ("", "off"):
        if options.no_token:
            raise InvalidArgument("--no-token is for --http.", hint="On stdio there is no token.")
        run_stdio(settings)
    else:
        run_http(settings, no_token=options.no_token, shown=partial(_tell_page, settings.state_dir))
    return 0


def _tell_page(state_dir: Path, served: ServedPage) -> None:
    """Tell the person at the terminal an address that lets a browser in; it gets into no file and into no session."""
    from tmuxmcp.faces.page.codes import make_address
    from tmuxmcp.machine.ownprocess import in_a_session

    if sys.stderr.isatty() and not in_a_session():
        output.note(f"open {make_address(state_dir, served)[0]} in a browser; it is good once, for a minute")


def _check_program(settings: Settings) -> None:
    """Say at once what the first call would say: a person who starts a server looks at it now.

    Raises:
        ProgramNotFound, CwdNotFound
    """
    from tmuxmcp.machine.environment import find_cwd, find_program, session_environment

    environment = session_environment(
        os.environ, allow=settings.env_allow, settings_env=settings.env, env={}, term=settings.term
    )
    find_program(settings.program, environment["PATH"], find_cwd(settings.cwd))


def demo(options: argparse.Namespace) -> int:
    """Show what tmuxmcp does."""
    from tmuxmcp.faces.cli.demo import main

    effective(options)  # a wrong setting is the user's, not the demo's
    settings = ["--config", str(config_file(options))] if options.config else []
    for name, value in flags(options).items():
        for each in [f"{key}={text}" for key, text in value.items()] if isinstance(value, dict) else [value]:
            settings += [f"--{name.replace('_', '-')}={each}"]
    return main(settings, keep=options.keep, as_json=options.json)


def doctor(options: argparse.Namespace) -> int:
    """Look at what sessions need, and say what to do where it is not there."""
    from tmuxmcp.app import setup_logging
    from tmuxmcp.contract.value import asdict
    from tmuxmcp.faces.cli.doctor import diagnose

    setup_logging("error")
    gc.freeze()
    gc.enable()
    checks = diagnose(flags(options), config_file(options))
    if options.json:
        output.write_json({"checks": [asdict(check) for check in checks]})
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            mark = output.bold("ok  ", sys.stdout, "32") if check.ok else output.bold("FAIL", sys.stdout, "1;31")
            output.write(f"{mark}  {check.name.ljust(width)}  {output.visible(check.message)}\n")
            if check.fix:
                output.write(f"{' ' * (width + 8)}{output.visible(check.fix)}\n")
    return 0 if all(check.ok for check in checks) else 1


def config(options: argparse.Namespace) -> int:
    """Print each setting and where it came from."""
    settings, origins = effective(options)
    values = settings.model_dump(mode="json")
    fields = type(settings).model_fields
    if options.json:
        made = {name: field.get_default(call_default_factory=True) for name, field in fields.items()}
        defaults = type(settings).model_construct(**made).model_dump(mode="json")
        output.write_json(
            {
                name: {
                    "value": value,
                    "origin": origins[name],
                    "default": defaults[name],
                    "description": fields[name].description,
                }
                for name, value in values.items()
            }
        )
        return 0
    rows = [(name, word(value), origins[name]) for name, value in values.items()]
    output.write_table([("SETTING", "VALUE", "FROM"), *rows])
    return 0


def word(value: Any) -> str:
    """A value as a table shows it."""
    match value:
        case None:
            return "-"
        case bool():
            return str(value).lower()
        case list():
            return ",".join(each if isinstance(each, str) else json.dumps(each) for each in value) or "-"
        case dict():
            return (
                ",".join(f"{key}={json.dumps(each) if isinstance(each, dict) else each}" for key, each in value.items())
                or "-"
            )
        case _:
            return str(value) if value != "" else "-"
