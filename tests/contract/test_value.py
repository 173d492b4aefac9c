"""Values are what dataclasses of the standard library are, in all that can be seen of them."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, ClassVar

import pytest

from tmuxmcp.contract import value as values


def point(made: Any, field: Any, **how: Any) -> Any:
    """The same two classes, one made of the other, by either decorator."""

    @made(**how)
    class Point:
        """A place."""

        kind: ClassVar[str] = "point"
        x: int
        y: int = 2
        names: list[str] = field(default_factory=list)
        unset: int = field(init=False, default=7)
        hidden: int = field(default=1, repr=False, compare=False)

    @made(**how | {"kw_only": False})
    class Named(Point):
        y: int = 3
        label: str = "p"

        def __post_init__(self) -> None:
            object.__setattr__(self, "posted", True)

    return Named


USES: list[Any] = [
    lambda cls, _: repr(cls(x=1)).partition("<locals>")[2],
    lambda cls, _: repr(cls(x=1, y=3, names=["a"], label="q")).partition("<locals>")[2],
    lambda cls, _: (cls(x=1) == cls(x=1), cls(x=1) == cls(x=2), cls(x=1) != cls(x=1, label="o"), cls(x=1) == 1),
    lambda cls, _: (cls(x=1, hidden=1) == cls(x=1, hidden=2), cls(x=1).posted),
    lambda cls, of: of.asdict(of.replace(cls(x=1), y=5)),
    lambda cls, of: of.replace(cls(x=1), z=5),
    lambda cls, _: cls.__match_args__,
    lambda cls, _: [(each.name, each.kind) for each in inspect.signature(cls).parameters.values()],
    lambda cls, _: (cls.__mro__[1].__doc__, cls.y, cls.unset),
    lambda cls, _: vars(cls(x=1)),
    lambda cls, _: vars(cls(1, 4, ["a"])),
    lambda cls, _: cls(x=1).names is cls(x=1).names,
    lambda cls, _: cls.names,
    lambda cls, _: cls(),
    lambda cls, _: cls(x=1, unset=2),
    lambda cls, _: setattr(cls(x=1), "x", 2),
    lambda cls, _: delattr(cls(x=1), "x"),
    lambda cls, _: len({cls(x=1, names=()), cls(x=1, names=())}),
]


def outcome(cls: Any, use: Any, of: Any) -> object:
    try:
        return use(cls, of)
    except (TypeError, AttributeError) as error:
        return TypeError if isinstance(error, TypeError) else AttributeError


@pytest.mark.parametrize("how", [{}, {"eq": False}, {"kw_only": True}])
@pytest.mark.parametrize("frozen", [True, False])
def test_it_is_as_the_standard_library_makes_it(frozen: bool, how: dict[str, Any]):
    made = point(values.value, values.field, frozen=frozen, **how)
    theirs = point(dataclasses.dataclass, dataclasses.field, frozen=frozen, **how)
    for use in USES:
        assert outcome(made, use, values) == outcome(theirs, use, dataclasses)


def test_values_are_frozen_unless_it_is_said():
    @values.value
    class Point:
        x: int

    with pytest.raises(AttributeError, match="Point is frozen: x cannot be changed"):
        Point(1).x = 2  # type: ignore[misc]


def test_a_value_is_told_as_json_with_the_values_inside_of_it():
    made = point(values.value, values.field)
    one = values.asdict(made(1))
    told = values.asdict(made(made(1), {"a": made(1)}, [(made(1),)]))
    assert [told["x"], told["y"], told["names"]] == [one, {"a": one}, [(one,)]]


def test_a_changed_copy_leaves_the_value_as_it_is():
    made = point(values.value, values.field)
    one = made(1, names=["a"])
    assert values.replace(one, y=5, names=[]) == made(1, y=5)
    assert one == made(1, names=["a"])
