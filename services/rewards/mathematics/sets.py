"""Sets of real numbers: intervals, unions of them, and inequalities of one name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cmp_to_key

from services.rewards.mathematics.evaluation import Unevaluable
from services.rewards.mathematics.notation import Split, is_name
from services.rewards.mathematics.syntax import parse
from services.rewards.mathematics.tree import Node, Unparsable
from services.rewards.mathematics.values import value_of

INFINITY = Node("name", name="∞")
MINUS_INFINITY = Node("neg", (INFINITY,))
_FLIPPED = {"<": ">", ">": "<", "≤": "≥", "≥": "≤", "≠": "≠"}
_NUMBERS = "fieldR"


@dataclass(frozen=True, slots=True)
class Interval:
    """From ``low`` to ``high``, each in it where it is closed."""

    low: Node
    high: Node
    low_closed: bool
    high_closed: bool


Intervals = tuple[Interval, ...]
ALL: Intervals = (Interval(MINUS_INFINITY, INFINITY, low_closed=False, high_closed=False),)


def intervals_of(tree: Node) -> Intervals | None:
    """The intervals of a formula; None where it is not a set of real numbers."""
    if tree.kind == "name" and tree.name == _NUMBERS:
        return ALL
    if tree.kind == "row" and len(tree.parts) == 2 and tree.name != "[[":
        low, high = tree.parts
        return (Interval(low, high, tree.name[0] == "[", tree.name[1] == "]"),)
    if tree.kind == "set":
        return tuple(Interval(each, each, low_closed=True, high_closed=True) for each in tree.parts)
    if tree.kind in ("⊔", "⊖"):
        left, right = map(intervals_of, tree.parts)
        if left is None or right is None:
            return None
        return joined((*left, *right)) if tree.kind == "⊔" else _without(left, right)
    return None


def inequality(split: Split) -> tuple[str, Intervals] | None:
    """The name and the values of an inequality like ``1 < x ≤ 2``, ``x ≠ 1`` or ``x ∈ (1, 2]``."""
    sides, signs = split.parts, split.signs
    places = [place for place, side in enumerate(sides) if is_name(side)]
    if not signs or len(places) != 1 or "=" in signs:
        return None
    (place,) = places
    name = "".join(sides[place].split())
    if signs == ["∈"] and place == 0:
        found = intervals_of(parse(sides[1]))
        return None if found is None else (name, found)
    if "∈" in signs or len(signs) > 2 or (len(signs) == 2 and place != 1):
        return None
    values = ALL
    for at, sign in enumerate(signs):
        bound = parse(sides[at] if place > at else sides[at + 1])
        values = _both(values, _half(bound, _FLIPPED[sign] if place > at else sign))
    return name, values


def joined(intervals: Sequence[Interval]) -> Intervals:
    """The union of intervals, from low to high; as they are where their ends are not numbers."""
    try:
        ordered = sorted(intervals, key=cmp_to_key(_by_low))
        found: list[Interval] = []
        for each in ordered:
            if found and _touches(found[-1], each):
                found[-1] = _merged(found[-1], each)
            elif not _is_empty(each):
                found.append(each)
    except Unevaluable:
        return tuple(intervals)
    return tuple(found)


def both(one: Intervals, other: Intervals) -> Intervals:
    """The values in both of two sets."""
    return _both(one, other)


def are_same_sets(
    one: Intervals, other: Intervals, are_equal: Callable[[Node, Node], bool]
) -> bool:
    """Whether two sets have the same intervals."""
    one, other = joined(one), joined(other)
    return len(one) == len(other) and all(
        (a.low_closed, a.high_closed) == (b.low_closed, b.high_closed)
        and are_equal(a.low, b.low)
        and are_equal(a.high, b.high)
        for a, b in zip(one, other, strict=True)
    )


def _half(bound: Node, sign: str) -> Intervals:
    if sign == "≠":
        return _without(ALL, (Interval(bound, bound, low_closed=True, high_closed=True),))
    closed = sign in "≤≥"
    if sign in "<≤":
        return (Interval(MINUS_INFINITY, bound, low_closed=False, high_closed=closed),)
    return (Interval(bound, INFINITY, low_closed=closed, high_closed=False),)


def _both(one: Intervals, other: Intervals) -> Intervals:
    if one is ALL:
        return other
    found = []
    for a in one:
        for b in other:
            low = a if _compared(a.low, b.low) > 0 or _is_tighter(a, b, low=True) else b
            high = a if _compared(a.high, b.high) < 0 or _is_tighter(a, b, low=False) else b
            found.append(Interval(low.low, high.high, low.low_closed, high.high_closed))
    return joined(found)


def _is_tighter(a: Interval, b: Interval, *, low: bool) -> bool:
    if low:
        return _compared(a.low, b.low) == 0 and not a.low_closed
    return _compared(a.high, b.high) == 0 and not a.high_closed


def _without(one: Intervals, points: Intervals) -> Intervals:
    """A set without single points; raises `Unparsable` for others."""
    found = list(one)
    for point in points:
        if point.low != point.high:
            raise Unparsable("the difference of intervals")
        left: list[Interval] = []
        for each in found:
            if _is_inside(point.low, each):
                left.append(replace(each, high=point.low, high_closed=False))
                left.append(replace(each, low=point.low, low_closed=False))
            else:
                left.append(each)
        found = left
    return tuple(each for each in found if not _is_empty(each))


def _is_inside(point: Node, interval: Interval) -> bool:
    if (interval.low, interval.high) == (MINUS_INFINITY, INFINITY):
        return True
    return _compared(interval.low, point) <= 0 <= _compared(interval.high, point)


def _is_empty(interval: Interval) -> bool:
    if interval.low == interval.high:
        return not (interval.low_closed and interval.high_closed)
    return _is_infinite(interval) is False and _compared(interval.low, interval.high) > 0


def _is_infinite(interval: Interval) -> bool:
    return interval.low == MINUS_INFINITY or interval.high == INFINITY


def _compared(one: Node, other: Node) -> int:
    """Below, equal or above; raises `Unevaluable` where an end is not a number."""
    if one == other:
        return 0
    if MINUS_INFINITY in (one, other):
        return -1 if one == MINUS_INFINITY else 1
    if INFINITY in (one, other):
        return 1 if one == INFINITY else -1
    a, b = value_of(one), value_of(other)
    return int(a > b) - int(a < b)


def _by_low(one: Interval, other: Interval) -> int:
    return _compared(one.low, other.low) or other.low_closed - one.low_closed


def _touches(one: Interval, other: Interval) -> bool:
    between = _compared(other.low, one.high)
    return between < 0 or (between == 0 and (one.high_closed or other.low_closed))


def _merged(one: Interval, other: Interval) -> Interval:
    order = _compared(one.high, other.high)
    if order == 0:
        return replace(one, high_closed=one.high_closed or other.high_closed)
    return one if order > 0 else replace(one, high=other.high, high_closed=other.high_closed)
