"""Values: classes whose annotated fields are the arguments of their constructor.

Python's own `dataclasses` writes and compiles up to six methods for each class. Here only `__init__` is compiled, and
all classes share the other methods: a command line makes some three hundred classes, and objects of few of them.
"""

from __future__ import annotations

from itertools import repeat
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform, get_origin

MISSING: Any = type("Missing", (), {"__repr__": lambda _: "<factory>"})()
"""No default; in a signature the default of an argument that a factory makes."""


class Field:
    """What is known of one field."""

    def __init__(self, default: Any, default_factory: Any, init: bool, compare: bool, repr: bool) -> None:
        self.default, self.default_factory = default, default_factory
        self.init, self.compare, self.repr = init, compare, repr
        self.kw_only = False
        self.type: Any = None
        """Its annotation: text where all annotations of the module are."""


if TYPE_CHECKING:  # mypy checks the names and types of what these two are given
    from dataclasses import field as field
    from dataclasses import replace as replace
else:

    def field(*, default=MISSING, default_factory=MISSING, init=True, compare=True, repr=True):
        """A field of which more is to be said than its default. Without `init` it is no argument."""
        return Field(default, default_factory, init, compare, repr)

    def replace(each, /, **changes):
        """A copy of a value with some fields changed, made by its constructor."""
        names = each.__value_arguments__
        return type(each)(**dict(zip(names, map(getattr, repeat(each), names), strict=True)) | changes)


def fields(each: Any) -> dict[str, Field]:
    """The fields of a value, or of a class of values, by name and in order."""
    known: dict[str, Field] = each.__value_fields__
    return known


def asdict(each: Any) -> dict[str, Any]:
    """The fields of a value by name, and of the values inside of it: what JSON takes."""
    return {name: _plain(getattr(each, name)) for name in fields(each)}


def _plain(each: Any) -> Any:
    if hasattr(type(each), "__value_fields__"):
        return asdict(each)
    if isinstance(each, list | tuple):
        inside = [_plain(inner) for inner in each]
        return inside if isinstance(each, list) else tuple(inside)
    return {key: _plain(inner) for key, inner in each.items()} if isinstance(each, dict) else each


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: Any = None, /, *, frozen: bool = True, eq: bool = True, kw_only: bool = False) -> Any:
    """Make a class one of values, as `dataclasses.dataclass` does: frozen, unless it is said otherwise."""
    if cls is None:
        return lambda cls: value(cls, frozen=frozen, eq=eq, kw_only=kw_only)
    known = {name: each for base in cls.__mro__[:0:-1] for name, each in vars(base).get("__value_fields__", {}).items()}
    for name, kind in cls.__annotations__.items():
        if not (kind.startswith("ClassVar") if isinstance(kind, str) else get_origin(kind) is ClassVar):
            known[name] = _field_of(cls, name, kind, kw_only)
    compared = [name for name, each in known.items() if each.compare]
    made: dict[str, Any] = {
        "__value_fields__": known,
        "__value_arguments__": tuple(name for name, each in known.items() if each.init),
        "__value_key__": attrgetter(*compared) if compared else type,
        "__match_args__": tuple(name for name, each in known.items() if each.init and not each.kw_only),
        "__init__": _init_of(cls, known, frozen),
        "__repr__": _repr,
    }
    if eq:
        made |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
    if frozen:
        made |= {"__setattr__": _refuse, "__delattr__": _refuse}
    for name in made.keys() - vars(cls).keys():
        setattr(cls, name, made[name])
    return cls


def _field_of(cls: Any, name: str, kind: Any, kw_only: bool) -> Field:
    """The field of one annotation. As an attribute of the class stays its default alone."""
    given = vars(cls).get(name, MISSING)
    made = given if isinstance(given, Field) else Field(given, MISSING, True, True, True)
    made.type, made.kw_only = kind, kw_only
    if made.default is not MISSING:
        setattr(cls, name, made.default)
    elif given is made:
        delattr(cls, name)
    return made


def _init_of(cls: Any, known: dict[str, Field], frozen: bool) -> Any:
    """The one method that is compiled for each class."""
    names: dict[str, Any] = {"_MISSING": MISSING}
    words, named = ["self"], ["*"]
    lines = ["_values = self.__dict__"] if frozen else []  # a third of the time of object.__setattr__ for each field
    for name, each in known.items():
        if not each.init:
            continue
        word = given = name
        if each.default_factory is not MISSING:
            names[f"_make_{name}"] = each.default_factory
            word, given = f"{name}=_MISSING", f"_make_{name}() if {name} is _MISSING else {name}"
        elif each.default is not MISSING:
            names[f"_default_{name}"] = each.default
            word = f"{name}=_default_{name}"
        (named if each.kw_only else words).append(word)
        lines.append(f'_values["{name}"] = {given}' if frozen else f"self.{name} = {given}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    words += named if len(named) > 1 else []
    exec(f"def __init__({', '.join(words)}):\n " + "\n ".join(lines or ["pass"]), names)
    made = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{name}={getattr(self, name)!r}" for name, each in fields(self).items() if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: Any) -> Any:
    return self.__value_key__(self) == self.__value_key__(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(self.__value_key__(self))


def _refuse(self: Any, name: str, *_: object) -> None:
    raise AttributeError(f"{type(self).__qualname__} is frozen: {name} cannot be changed")
