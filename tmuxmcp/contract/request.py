"""What every request has: the facts of its operation, checked arguments, defaults from the settings, a JSON schema.

A request is a frozen dataclass below `Request`, made one by `@operation`, whose words are all that is said of the
operation anywhere: MCP tools, JSON-RPC, Python's methods and the reference documentation are made from it.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar, cast, dataclass_transform

import pydantic.dataclasses
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from tmuxmcp.contract import guesses
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.results import Result
from tmuxmcp.contract.settings import BrokerSettings, ToolSet
from tmuxmcp.contract.value import value

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

Acts = Literal["pane", "process", "file", "network", "nothing"]
"""What an operation touches: a session's terminal, processes beside it, files, the network; or it only looks."""

ACTS_BESIDE_SESSIONS: tuple[Acts, ...] = ("process", "file", "network")
"""What acts beside sessions touches."""

Whose = Literal["default", "named", "none"]
"""Whose session: the one that is named, else the caller's default session; only one that is named; no session."""

R = TypeVar("R", bound=Result, covariant=True)
T = TypeVar("T")

UNSET = -1
"""A number that is left out: the setting's is taken."""

ARGUMENT_PROBLEMS = {
    "unexpected_keyword_argument": "Extra inputs are not permitted",
    "sequence_str": "Input should be a valid list",
    "is_instance_of": "Input should be a valid list",
}
"""What is said of wrong arguments where pydantic speaks of Python's types."""

PYDANTIC_SELF = "__dataclass_self__"
"""By which name pydantic hands a request to its own constructor: as an argument it would be a TypeError."""

ALIKE_NAME = 0.7
"""How alike two names are that somebody mixes up: `timeout` and `timeout_ms` are, `lines` and `since` are not."""

MOST_PROBLEMS = 20
"""Wrong arguments that one error names."""


@value
class FromSetting:
    """Marks an argument that, left out, is what a setting says."""

    setting: str
    only_told: bool = False
    """The operation itself makes one of the argument and the setting; a schema says the setting's."""


@value
class AtMost:
    """Marks an argument that is shortened to a setting."""

    setting: str


@value
class Content:
    """Marks text that goes into a session, a process or a file: the audit counts its bytes and does not have it."""

    shown: bool = True
    """A person who is asked to confirm sees it."""


@value
class SecretValues:
    """Marks variables whose values may be secrets: names are told, values never."""


@value
class FilePath:
    """Marks the path of a file or directory, which rules of the policy are put to."""


@value
class Bound:
    """Marks how long or how much: it says nothing of what is done."""


@value
class NamesCall:
    """Marks the id that a client gives to a call: asking again with it does nothing twice."""


@value
class Seldom:
    """Marks an argument that one call in a hundred needs: it is understood, and stands in whole schemas alone."""


class Request(Generic[R]):
    """What a caller wants done, and by its type what the answer is."""

    operation: ClassVar[Operation]

    def arguments(self) -> dict[str, Any]:
        """The arguments that are not as they are when left out, by name."""
        defaults = self.operation.defaults
        given = ((name, getattr(self, name)) for name in self.operation.arguments)
        return {name: value for name, value in given if name not in defaults or value != defaults[name]}

    def filled(self, settings: BrokerSettings) -> Self:
        """The request with what the settings say in place of what was left out."""
        defaults = self.operation.defaults
        changes = {
            name: getattr(settings, mark.setting)
            for name, value, mark in self.marked(FromSetting)
            if not mark.only_told and value == defaults[name]
        }
        if not changes:
            return self
        filled = object.__new__(type(self))
        # Not checked again: that takes as long as a look at a terminal. Nor by copy(), which takes ten times as long.
        vars(filled).update(vars(self), **changes)
        return filled

    def marked(self, kind: type[T]) -> Iterator[tuple[str, Any, T]]:
        """The arguments with a mark: name, value and mark of each."""
        for name, mark in self.operation.marks(kind).items():
            yield name, getattr(self, name), mark

    @property
    def session(self) -> str:
        """Id of the session that is named; empty: none."""
        return str(getattr(self, "session_id", ""))


@value
class Operation:
    """What is known of one operation, beside its arguments."""

    request: type[Request[Result]]
    result: type[Result]
    title: str
    tools: ToolSet | None
    """The set of tools that it is offered in; None: in none but `all`."""
    acts: Acts
    session: Whose
    types: bool
    """It has a session do what the caller says."""
    read_only: bool
    destructive: bool
    repeatable: bool
    """Asking twice does and tells no more and no less than asking once: no cursor moves, nothing counts as told."""
    open_world: bool
    """The call can reach beyond this machine: whatever a terminal runs."""
    long: bool
    """Its result can be as long as a caller wants."""

    @cached_property
    def name(self) -> str:
        """Name of the MCP tool, the JSON-RPC method, the Python method."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.request.__name__).lower()

    @cached_property
    def description(self) -> str:
        """What a model needs to know of it."""
        return " ".join((self.request.__doc__ or "").partition("\n\n")[0].split())

    @property
    def scope(self) -> str:
        """The scope that a caller needs: `read` to look at sessions, and at nothing else of the machine."""
        return "read" if self.read_only and self.acts == "nothing" else "write"

    def complete(self) -> None:
        """Make the request's class what pydantic makes of it: not at import, as most commands make one or two requests.

        Whoever makes one calls this before, as two threads may do so at once.
        """
        with _LOCK:
            if "__is_pydantic_dataclass__" not in vars(self.request):
                strict = ConfigDict(extra="forbid", strict=True, defer_build=True)
                pydantic.dataclasses.dataclass(self.request, frozen=True, config=strict)

    @cached_property
    def arguments(self) -> Mapping[str, FieldInfo]:
        """Name and meaning of each argument, in order."""
        self.complete()
        return cast("Mapping[str, FieldInfo]", self.request.__pydantic_fields__)  # type: ignore[attr-defined]  # set by pydantic

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """What an argument is that is left out, by name."""
        known = ((name, field) for name, field in self.arguments.items() if not field.is_required())
        return {name: field.get_default(call_default_factory=True) for name, field in known}

    @cached_property
    def _marks(self) -> dict[type, dict[str, Any]]:
        found: dict[type, dict[str, Any]] = {}
        for name, field in self.arguments.items():
            for mark in field.metadata:
                found.setdefault(type(mark), {})[name] = mark
        return found

    def marks(self, kind: type[T]) -> Mapping[str, T]:
        """The marks of one kind, by argument."""
        return self._marks.get(kind, {})

    def parse(self, arguments: Mapping[str, Any]) -> Request[Result]:
        """Make the request of arguments that came from outside.

        Raises:
            InvalidArgument: naming every argument that is wrong, and why.
        """
        if PYDANTIC_SELF in arguments:
            raise InvalidArgument(
                f"{PYDANTIC_SELF}: {ARGUMENT_PROBLEMS['unexpected_keyword_argument']}.", hint=self.takes
            )
        if wrong := [name for name, value in arguments.items() if not _is_sound(value)]:
            problem = "Input should hold no half of a surrogate pair, NaN or infinity"
            problems = [{"argument": name, "problem": problem} for name in wrong]
            raise InvalidArgument(f"{', '.join(wrong)}: {problem}.", hint=self.takes, problems=problems)
        self.complete()
        try:
            return self.request(**arguments)
        except ValidationError as error:
            raise self.invalid(error) from None

    @property
    def takes(self) -> str:
        """The names of its arguments, for people."""
        return f"{self.name} takes: {', '.join(self.arguments) or 'none'}."

    def invalid(self, error: ValidationError) -> InvalidArgument:
        """What a caller is told whose arguments are wrong."""
        names = list(self.arguments)
        problems = [
            {
                "argument": _argument(item["loc"], names) or "(all)",
                "problem": ARGUMENT_PROBLEMS.get(item["type"], item["msg"]),
            }
            for item in error.errors(include_url=False, include_input=False)
        ][:MOST_PROBLEMS]
        return InvalidArgument(
            "; ".join(f"{p['argument']}: {p['problem']}" for p in problems) + ".",
            hint=self.takes + self._meant(error),
            problems=problems,
        )

    def _meant(self, error: ValidationError) -> str:
        """What wrong arguments were probably meant to be, and the right way to give it; empty where nothing is near."""
        said = []
        for item in error.errors(include_url=False)[:MOST_PROBLEMS]:
            name = _argument(item["loc"], list(self.arguments))
            if item["type"] == "unexpected_keyword_argument":
                known = guesses.advice(self.name, self.arguments, name, item["input"])
                near = "" if known else self._nearest(name)
                said.append(known or (guesses.did_you_mean(near, name, item["input"]) if near else ""))
            else:
                said.append(guesses.of_value(self.name, name, item["input"], item["type"]))
        return "".join(f" {each}" for each in dict.fromkeys(said) if each)

    def _nearest(self, name: str) -> str:
        """The argument that somebody means who writes `name`; empty: none is near."""
        names = list(self.arguments)
        short = name.lower().replace("-", "_").strip("_")
        parts = re.compile(".*".join(map(re.escape, short)))
        near = [each for each in names if short in each.split("_") or short == each.replace("_", "")]
        near = near or get_close_matches(short, names, n=1, cutoff=ALIKE_NAME)
        return next(iter(near or [each for each in names if short and parts.match(each)]), "")

    @cached_property
    def _schema(self) -> dict[str, Any]:
        self.complete()
        schema = TypeAdapter(self.request).json_schema()
        for name in self.arguments.keys() & self.defaults.keys():
            schema["properties"][name]["default"] = self.defaults[name]
        return {name: value for name, value in schema.items() if name not in ("title", "description")}

    @cached_property
    def result_schema(self) -> dict[str, Any]:
        """The JSON schema of its result."""
        return self.result.adapter().json_schema(mode="serialization")

    def schema(self, settings: BrokerSettings, *, whole: bool = True) -> dict[str, Any]:
        """The JSON schema of its arguments, with the defaults that these settings make.

        Args:
            whole: also with the arguments that are seldom needed.
        """
        properties = {name: dict(each) for name, each in self._schema.get("properties", {}).items()}
        for name, mark in self.marks(FromSetting).items():
            properties[name]["default"] = getattr(settings, mark.setting)
        for name, most in self.marks(AtMost).items():
            properties[name]["default"] = min(properties[name]["default"], getattr(settings, most.setting))
        left_out = () if whole else self.marks(Seldom)
        return self._schema | {"properties": {name: each for name, each in properties.items() if name not in left_out}}


def _is_sound(value: Any) -> bool:
    """Whether a value has only finite numbers, and text that can be written down: bytes that are not UTF-8 escaped."""
    match value:
        case float():
            return math.isfinite(value)
        case str():
            try:
                value.encode("utf-8", "surrogateescape")
            except UnicodeEncodeError:
                return False
        case Mapping():
            return all(_is_sound(key) and _is_sound(each) for key, each in value.items())
        case list() | tuple():
            return all(map(_is_sound, value))
    return True


def _argument(loc: tuple[str | int, ...], names: list[str]) -> str:
    """An argument's name; one that was given by its position is called by it."""
    first, *rest = loc or ("",)
    if isinstance(first, int) and first < len(names):
        first = names[first]
    return ".".join(str(part) for part in (first, *rest))


_LOCK = threading.Lock()

REGISTERED: dict[str, Operation] = {}
"""The operations whose requests were imported, by name."""


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
def operation(
    title: str,
    result: type[Result],
    *,
    tools: ToolSet | None = None,
    acts: Acts,
    repeatable: bool,
    session: Whose = "none",
    types: bool = False,
    read_only: bool = False,
    destructive: bool = False,
    open_world: bool = False,
    long: bool = False,
) -> Callable[[type[T]], type[T]]:
    """Make a class the request of an operation: exact types, unknown arguments refused.

    The first paragraph of its docstring is what a model reads.

    Args:
        acts, session, ...: as `Operation` has them.
    """

    def made(cls: type[T]) -> type[T]:
        request = cast("type[Any]", cls)
        row = Operation(
            request, result, title, tools, acts, session, types, read_only, destructive, repeatable, open_world, long
        )

        def __init__(__dataclass_self__: Any, *args: Any, **named: Any) -> None:
            row.complete()
            request.__init__(__dataclass_self__, *args, **named)

        request.__init__ = __init__
        request.operation = REGISTERED[row.name] = row
        return cls

    return made
