"""MCP prompts: three ways of working that need several tools in the right order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.types import (
    INVALID_PARAMS,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
)

from tmuxmcp.contract.latedataclass import dataclass

Context = ServerRequestContext[Any, Any]

SESSION = ("session_id", "Session to use; left out: your default session", False)


@dataclass(frozen=True)
class Recipe:
    """A prompt: its arguments as (name, description, required), and its text with their names in braces."""

    title: str
    description: str
    arguments: tuple[tuple[str, str, bool], ...]
    text: str


RECIPES: dict[str, Recipe] = {
    "run-and-fix": Recipe(
        "Run and fix",
        "Run a command, and mend what makes it fail until it succeeds.",
        (("command", "The command that has to succeed, such as a test run", True), SESSION),
        """\
Make this command succeed: {command}
{session}
1. Run it with `run`. exit_code 0 means it succeeded: stop and report.
2. completed=false means that it still runs: `read` with wait_for=command goes on waiting and gives its exit code.
   mode=password or line_input means that it asks for something: look with `read` view=screen before you type.
3. If it failed, read the output up to the first real error; if the middle was left out, fetch it with the offsets
   that the result names. Find the cause, change one thing, and run the same command again.
4. Stop after five attempts that bring nothing new, and say what you know.
Never hide a failure (`|| true`, skipped tests). Say at the end what was wrong and what you changed.""",
    ),
    "drive-tui": Recipe(
        "Drive a full-screen program",
        "Work with a program that draws on the whole screen: an editor, a menu, an installer.",
        (
            ("program", "The program and its arguments", True),
            ("goal", "What is to be reached in it", False),
            SESSION,
        ),
        """\
Use this full-screen program: {program}
{goal}{session}
1. Start it with `send` text and enter=true in a shell, or give it a session of its own with `create_session`.
2. Look with `read` view=screen before each step. `highlights` says what stands in reverse video: the chosen row of
   a menu. `cursor` says where typing goes.
3. Press keys by name (`send` key=Down, F10, Escape, C-x; Down*5 repeats) and check the screen that comes back before
   the next ones. Type text with `send` text.
4. If the screen is not what you expect, stop and look again; Escape or q leaves most menus.
5. Leave the program by its own way out, so that mode is shell_prompt again, and report what you reached.""",
    ),
    "debug-with-gdb": Recipe(
        "Debug with gdb",
        "Find out with gdb why a program crashes or does the wrong thing.",
        (
            ("program", "The program to debug", True),
            ("args", "Its arguments", False),
            ("problem", "What goes wrong", False),
            SESSION,
        ),
        """\
Find out with gdb what is wrong with: {program}{args}
{problem}{session}
1. Start `gdb -q -nx --args {program}{args}` with `send` (enter=true): gdb is a prompt, so `run` does not fit it.
   Then `set pagination off` and `set confirm off`.
2. `run` in gdb; wait with wait_for=ready and a timeout_ms that fits. A program that hangs is stopped with key=C-c.
3. After a stop: `bt`, then `frame N`, `info locals`, `print EXPRESSION`. Set breakpoints where the state is still
   good, run again, and narrow down where it goes bad.
4. No symbols? Say so, and rebuild with -g -O0 if you may.
5. End with `quit`. Report the line at fault, the evidence, and a fix.""",
    ),
}


async def list_prompts(ctx: Context, params: PaginatedRequestParams | None) -> ListPromptsResult:
    """All prompts."""
    return ListPromptsResult(
        prompts=[
            Prompt(
                name=name,
                title=recipe.title,
                description=recipe.description,
                arguments=[
                    PromptArgument(name=argument, description=description, required=required)
                    for argument, description, required in recipe.arguments
                ],
            )
            for name, recipe in RECIPES.items()
        ]
    )


async def get_prompt(ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
    """One prompt, with its arguments filled in."""
    recipe = RECIPES.get(params.name)
    if recipe is None:
        raise MCPError(INVALID_PARAMS, f"There is no prompt {params.name[:100]!r}; there are: {', '.join(RECIPES)}.")
    text = fill(recipe, params.arguments or {})
    message = PromptMessage(role="user", content=TextContent(type="text", text=text))
    return GetPromptResult(description=recipe.description, messages=[message])


def fill(recipe: Recipe, given: Mapping[str, str]) -> str:
    """A prompt's text.

    Raises:
        MCPError: an argument is missing or unknown.
    """
    names = [name for name, _, _ in recipe.arguments]
    missing = [name for name, _, required in recipe.arguments if required and not given.get(name)]
    unknown = sorted(set(given) - set(names))
    if missing or unknown:
        said = f"{missing[0]} is missing" if missing else f"{unknown[0][:100]!r} is unknown"
        raise MCPError(INVALID_PARAMS, f"{said}; the arguments are: {', '.join(names)}.")
    session = f"Work in the session {given['session_id']}.\n" if given.get("session_id") else ""
    lines = {name: f"{name.capitalize()}: {given[name]}\n" if given.get(name) else "" for name in ("goal", "problem")}
    words = {name: given.get(name, "") for name in ("command", "program")}
    words["args"] = f" {given['args']}" if given.get("args") else ""
    return recipe.text.format(session=session, **lines, **words)
