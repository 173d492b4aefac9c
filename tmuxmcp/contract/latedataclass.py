"""Dataclasses whose methods are made when the first object of them is.

Python writes the source of each dataclass's methods and compiles it: a third of a millisecond for each class, and a
third of the start of a command that makes objects of a few. A class made here is a dataclass of the standard library in
all that can be seen of it; only `InitVar` is not for it.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass

    changed = dataclasses.replace
else:

    def dataclass(cls: type | None = None, /, **how: Any) -> Any:
        """As `dataclasses.dataclass`; what is wrong with the class is told when it is first used."""
        return partial(_delayed, how=how) if cls is None else _delayed(cls, how)

    def changed(each: Any, **values: Any) -> Any:
        """As `dataclasses.replace`, in a tenth of the time: the copy is not made by the class's `__init__`.

        For classes without slots, `__post_init__` and cached properties.
        """
        made = object.__new__(type(each))
        vars(made).update(vars(each), **values)
        return made


_LOCK = threading.RLock()
"""Two threads may need a class at once; completing one completes those that it is made of."""


_UNUSED: list[_Late] = []
"""Classes whose methods are not made yet, and some whose are."""


def make_ready() -> Iterator[None]:
    """Make the methods of all classes that are known by now; after each of them the caller may do something else."""
    while _UNUSED:
        _UNUSED.pop().complete()
        yield


class _LeftOut:
    """In place of an argument that a factory makes, and by its own name in signatures."""

    def __repr__(self) -> str:
        return "<factory>"


class _Late:
    """What is still to be done to a class."""

    def __init__(self, cls: Any, how: dict[str, Any]) -> None:
        self._cls, self._how, self._done = cls, how, False

    def complete(self) -> Any:
        """Give the class its methods: `__init__` last and at once, so that no thread ever finds none."""
        with _LOCK:
            if not self._done:
                self._cls.__doc__ = self._cls.__doc__ or self._cls.__name__  # else its signature, which takes long
                made = dataclasses.dataclass(**self._how | {"init": False})(self._cls)
                made.__init__ = _init_of(made)
                self._done = True
        return self._cls


class _DataclassMarker:
    """An attribute by which dataclasses are known, until somebody asks for it."""

    def __init__(self, late: _Late, name: str) -> None:
        self._late, self._name = late, name

    def __get__(self, each: object, owner: type | None = None) -> Any:
        return getattr(self._late.complete(), self._name)


def _delayed(cls: Any, how: dict[str, Any]) -> Any:
    if how.get("slots") or "__init__" in vars(cls):
        return dataclasses.dataclass(**how)(cls)
    late = _Late(cls, how)
    _UNUSED.append(late)

    def __init__(self: Any, *args: Any, **named: Any) -> None:
        late.complete().__init__(self, *args, **named)

    cls.__init__ = __init__
    for name in ("__dataclass_fields__", "__dataclass_params__"):
        setattr(cls, name, _DataclassMarker(late, name))
    return cls


def _init_of(cls: Any) -> Any:
    """The `__init__` of a dataclass, which `dataclasses` makes only where there is none yet."""
    places: list[str] = []
    named: list[str] = []
    lines: list[str] = []
    known: dict[str, Any] = {"_left_out": _LeftOut()}
    frozen = cls.__dataclass_params__.frozen
    if frozen:  # a third of the time of object.__setattr__ for each field
        lines.append("_values = self.__dict__")
    for field in dataclasses.fields(cls):
        name, value = field.name, field.name
        if field.default_factory is not dataclasses.MISSING:
            known[f"_made_{name}"] = field.default_factory
            value = f"_made_{name}() if {name} is _left_out else {name}" if field.init else f"_made_{name}()"
            default = " = _left_out"
        elif field.default is not dataclasses.MISSING:
            known[f"_default_{name}"] = field.default
            default = f" = _default_{name}"
        else:
            default = ""
        if field.init:
            (named if field.kw_only else places).append(name + default)
        elif field.default_factory is dataclasses.MISSING:
            continue
        lines.append(f'_values["{name}"] = {value}' if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    words = ", ".join(["self", *places, *["*"][: len(named)], *named])
    exec(f"def __init__({words}):\n " + "\n ".join(lines or ["pass"]), known)
    made = known["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {each.name: each.type for each in dataclasses.fields(cls) if each.init} | {"return": None}
    return made
