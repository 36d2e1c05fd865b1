"""Whether an answer equals a gold mathematically.

A text is split at its outermost commas and relations; what is left are formulas, which are parsed
and compared by their values: exactly where both are rational, else to many digits, and at several
points where they have names. What the grammar of `syntax` lacks, such as integrals, is compared by
math-verify.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from services.rewards.answers.writing import without_text_commands
from services.rewards.mathematics.evaluation import Unevaluable
from services.rewards.mathematics.notation import (
    RELATIONS,
    Split,
    is_name,
    is_words,
    normal,
    split,
    words_of,
)
from services.rewards.mathematics.numbers import Quantity, read_quantity, without_words
from services.rewards.mathematics.sets import (
    Intervals,
    are_same_sets,
    both,
    inequality,
    intervals_of,
    joined,
)
from services.rewards.mathematics.syntax import parse
from services.rewards.mathematics.tree import Node, TooDeep, Unparsable
from services.rewards.mathematics.units import DEGREES, fit
from services.rewards.mathematics.values import are_proportional, are_same, difference

MAX_ITEMS = 100
_LOGIC = "⋏⋎"
_LINKS = f",;⊕⊗{_LOGIC}"
_LIBRARY = re.compile(r"\\(?:i{0,3}int|oint|lim|over|choose|begin|mod|pmod|bmod|det)(?![A-Za-z])")
"""What the library reads beyond our grammar; anything else that is not read equals nothing."""
_TRIGONOMETRIC = {"sin", "cos", "tan", "cot", "sec", "csc"}
Item = TypeVar("Item")


def are_equal(gold: str, answer: str, *, ordered: bool = False) -> bool:
    """Whether an answer means the same as the gold; both without their box.

    A gold that is a number is equal to a number alone: an answer that leaves the arithmetic to
    the reader (``81 + 535``) is wrong. Equations are equal as equations, except that ``x = 5``
    equals 5. A gold of words is compared as text, ignoring case and white space: as a product of
    letters "tea" would equal "eat". With ``ordered``, lists equal only in the same order.
    """
    if is_words(gold):
        return words_of(gold) == words_of(answer)
    return _texts_equal(normal(gold), normal(answer), ordered=ordered)


def _texts_equal(gold: str, answer: str, *, ordered: bool) -> bool:
    if gold == answer != "":
        return True
    golds, answers = _items(gold), _items(answer)
    if not 0 < len(golds.parts) <= MAX_ITEMS or not 0 < len(answers.parts) <= MAX_ITEMS:
        return False
    expected, given = _real_numbers(golds), _real_numbers(answers)
    if expected is not None or given is not None:
        pair = expected or _interval(golds), given or _interval(answers)
        return _sets_equal(*pair)
    if len(golds.parts) > 1 or len(answers.parts) > 1 or (golds.brackets and answers.brackets):
        return _lists_equal(golds, answers, ordered=ordered)
    return _statements_equal(golds.parts[0], answers.parts[0])


@dataclass(frozen=True, slots=True)
class _Items:
    """The parts of a list, the signs between them, and the brackets around it."""

    parts: list[str]
    signs: list[str]
    brackets: str


def _items(text: str) -> _Items:
    """The items of a list, or of a set or pair; two for each item with a sign like ``±``."""
    brackets = ""
    inner = _inside(text)
    if inner is not None:
        condition = [split(inner, sign).parts for sign in "|:"]
        if text[0] == "⦃" and (stated := [each[1] for each in condition if len(each) == 2]):
            return _items(stated[0])
        if text[0] == "⦃" or len(split(inner, ",;").parts) > 1:
            brackets, text = text[0] + text[-1], inner
    found = split(text, _LINKS)
    parts = [each for part in found.parts if part for each in _both_signs(part)]
    return _Items(parts, found.signs, brackets)


def _inside(text: str) -> str | None:
    """What is in a bracket that encloses the whole text."""
    if len(text) < 2 or text[0] not in "([⦃" or text[-1] not in ")]⦄":
        return None
    depth = 0
    for position, character in enumerate(text):
        depth += (character in "([{⦃") - (character in ")]}⦄")
        if depth == 0:
            return text[1:-1] if position == len(text) - 1 else None
    return None


def _both_signs(item: str) -> list[str]:
    if "±" not in item and "∓" not in item:
        return [item]
    return [
        item.replace("±", "+").replace("∓", "-"),
        item.replace("±", "-").replace("∓", "+"),
    ]


def _lists_equal(golds: _Items, answers: _Items, *, ordered: bool) -> bool:
    """Pairs and rows equal in their order, also without brackets; lists and sets in any order."""
    if len(golds.parts) != len(answers.parts):
        return False
    rows = [each.brackets not in ("", "⦃⦄") for each in (golds, answers)]
    if all(rows) and golds.brackets != answers.brackets:
        return False
    if not _is_same_logic(golds, answers):
        return False
    if any(rows) and {"⦃⦄", "[)", "(]"} & {golds.brackets, answers.brackets} and not all(rows):
        return False
    equal = partial(_texts_equal, ordered=ordered)
    return _match(golds.parts, answers.parts, equal, ordered=ordered or any(rows))


def _is_same_logic(golds: _Items, answers: _Items) -> bool:
    """Whether no "and" of logic is an "or"; where both occur, they bind in their order."""
    one, other = ([sign for sign in each.signs if sign in _LOGIC] for each in (golds, answers))
    if len({*one, *other}) < 2:
        return True
    return not (one and other) or (one == other and golds.parts == answers.parts)


def _match(
    golds: Sequence[Item],
    answers: Sequence[Item],
    equal: Callable[[Item, Item], bool],
    *,
    ordered: bool,
) -> bool:
    if ordered:
        return all(map(equal, golds, answers))
    left, others = list(answers), []
    for gold in golds:
        if gold in left:
            left.remove(gold)  # before another gold takes it that equals it, too
        else:
            others.append(gold)
    for gold in others:
        found = next((place for place, each in enumerate(left) if equal(gold, each)), None)
        if found is None:
            return False
        left.pop(found)
    return True


# Sets of real numbers

_NamedSet = tuple[str | None, Intervals]


def _real_numbers(items: _Items) -> _NamedSet | None:
    """The set that a union, a difference or inequalities state; None for anything else."""
    try:
        only = items.parts[0] if len(items.parts) == 1 and not items.brackets else ""
        if any(sign in only for sign in "⊔⊖") or only == "\\fieldR":
            found = intervals_of(parse(only)) if not split(only, RELATIONS).signs else None
            return None if found is None else (None, found)
        stated = [inequality(split(part, RELATIONS)) for part in items.parts]
        if any(each is None or items.brackets for each in stated):
            return None
        names = {each[0] for each in stated if each}
        parts = [each[1] for each in stated if each]
        if len(names) != 1:
            return None
        if items.signs and set(items.signs) <= {"⊗", "⋏"}:
            values = parts[0]
            for each in parts[1:]:
                values = both(values, each)
        else:
            values = joined([interval for part in parts for interval in part])
        return names.pop(), values
    except (Unparsable, Unevaluable, RecursionError):
        return None


def _interval(items: _Items) -> _NamedSet | None:
    """The interval that a pair like ``(1, 2]`` may also be, or a set of numbers."""
    if len(items.brackets) != 2:
        return None
    try:
        inner = tuple(map(parse, items.parts))
        tree = (
            Node("set", inner)
            if items.brackets == "⦃⦄"
            else Node("row", inner, name=items.brackets)
        )
        found = intervals_of(tree)
    except (Unparsable, RecursionError):
        return None
    return None if found is None else (None, found)


def _sets_equal(expected: _NamedSet | None, given: _NamedSet | None) -> bool:
    if expected is None or given is None:
        return False
    (name, values), (other, found) = expected, given
    is_same_name = name == other or None in (name, other)
    return is_same_name and are_same_sets(values, found, _nodes_equal)


# Equations and inequalities


def _statements_equal(gold: str, answer: str) -> bool:
    if gold == answer:
        return True
    golds, answers = split(gold, RELATIONS), split(answer, RELATIONS)
    if golds.signs and answers.signs:
        if _is_equation(golds) and _is_equation(answers):
            return _equations_equal(_shortened(golds.parts), _shortened(answers.parts))
        return _inequalities_equal(golds, answers)
    if _is_equation(answers):
        return _is_assigned(gold, _shortened(answers.parts))
    if _is_equation(golds):
        return _is_assigned(answer, golds.parts[:1] + golds.parts[-1:], is_gold=True)
    return not golds.signs and not answers.signs and _values_equal(gold, answer)


def _is_equation(statement: Split) -> bool:
    return bool(statement.signs) and set(statement.signs) == {"="}


def _shortened(sides: Sequence[str]) -> Sequence[str]:
    """``x = 10/2 = 5`` as ``x = 5``, and ``10/2 = 5`` as 5, if their sides are equal."""
    first = 1 if is_name(sides[0]) else 0
    values = sides[first:]
    if len(values) < 2 or (len(values) == 2 and not first and not _is_number(sides[0])):
        return sides
    equal = all(_trees_equal(each, values[-1]) for each in values[:-1])
    return [*sides[:first], values[-1]] if equal else sides


def _is_number(text: str) -> bool:
    return not re.search(r"(?<!\\)\b[A-Za-z]\b", text) and any(map(str.isdigit, text))


def _is_assigned(value: str, sides: Sequence[str], *, is_gold: bool = False) -> bool:
    """Whether ``x = 5``, or a chain of equal numbers that ends with it, is 5."""
    if len(sides) == 1:
        return _values_equal(value, sides[0])
    if len(sides) != 2 or not is_name(sides[0]) or _mentions(value, sides[0]):
        return False
    return _values_equal(sides[1], value) if is_gold else _values_equal(value, sides[1])


def _mentions(text: str, name: str) -> bool:
    return bool(re.search(rf"(?<![A-Za-z\\]){re.escape(name.strip())}(?![A-Za-z])", text))


def _equations_equal(golds: Sequence[str], answers: Sequence[str]) -> bool:
    if len(golds) != 2 or len(answers) != 2:
        return False
    is_same_name = "".join(golds[0].split()) == "".join(answers[0].split())
    if is_same_name and _values_equal(golds[1], answers[1]):
        return True
    return _are_proportional(golds, answers, positive=False)


def _inequalities_equal(golds: Split, answers: Split) -> bool:
    """Inequalities of several names: the differences of their sides are proportional."""
    if len(golds.signs) != 1 or len(answers.signs) != 1:
        return False
    sign, other = golds.signs[0], answers.signs[0]
    flipped = {"<": ">", ">": "<", "≤": "≥", "≥": "≤"}
    if sign not in flipped:
        return sign == other == "≠" and _are_proportional(
            golds.parts, answers.parts, positive=False
        )
    if other == flipped[sign]:
        return _are_proportional(golds.parts, answers.parts[::-1], positive=True)
    return other == sign and _are_proportional(golds.parts, answers.parts, positive=True)


def _are_proportional(golds: Sequence[str], answers: Sequence[str], *, positive: bool) -> bool:
    try:
        one, other = (difference(parse(left), parse(right)) for left, right in (golds, answers))
        return are_proportional(one, other, positive=positive)
    except (Unparsable, Unevaluable, RecursionError):
        return False


# Values


def _values_equal(gold: str, answer: str) -> bool:
    expected, given = read_quantity(gold), read_quantity(answer)
    if expected is not None and given is not None:
        return expected.equals(given)
    if _as_written(gold) == _as_written(answer):
        return True
    if expected is not None and _leaves_arithmetic(answer, expected):
        return False
    one, unit = _without_unit(gold)
    other, its_unit = _without_unit(answer)
    return fit(unit, its_unit) and _trees_equal(one, other)


def _as_written(text: str) -> list[str]:
    written = without_text_commands(text).casefold().strip(" .")
    return re.sub(r"(?<=\d)(?=[a-z])", " ", written).split()  # 5kg, 5 kg


def _without_unit(text: str) -> tuple[str, frozenset[str]]:
    """A formula with the factor that the words behind it name, and the other words."""
    without, words = without_words(text)
    if words == DEGREES:
        return text, frozenset()
    if words.scale != 1:
        without = f"({without})*{words.scale}"
    return f"({without})%" if words.is_percent else without, words.unit


def _leaves_arithmetic(answer: str, expected: Quantity) -> bool:
    """Whether an answer leaves a number to be computed from it."""
    try:
        tree = parse(answer)
    except (Unparsable, RecursionError):
        return True
    if tree.kind in _TRIGONOMETRIC | {"binom", "based"}:
        return False
    return not ("degree" in expected.unit and "pi" in answer)


def _trees_equal(gold: str, answer: str) -> bool:
    if not gold or not answer:
        return False
    try:
        return _nodes_equal(parse(gold), parse(answer))
    except (TooDeep, RecursionError):
        return False
    except Unparsable:
        if not _LIBRARY.search(gold + answer):
            return False
        from services.rewards.mathematics.library import mean_the_same  # noqa: PLC0415 - slow

        return mean_the_same(gold, answer)


def _nodes_equal(gold: Node, answer: Node) -> bool:
    if gold == answer:
        return True
    kinds = {gold.kind, answer.kind}
    if "based" in kinds:
        return _digits_equal(gold, answer)
    if kinds & {"row", "set"}:
        same = gold.kind == answer.kind and gold.name == answer.name
        is_ordered = gold.kind == "row"
        return (
            same
            and len(gold.parts) == len(answer.parts)
            and _match(gold.parts, answer.parts, _nodes_equal, ordered=is_ordered)
        )
    try:
        return are_same(gold, answer)
    except Unevaluable:
        return False


def _digits_equal(gold: Node, answer: Node) -> bool:
    """A number in a base equals the same digits in the same base, or without one."""
    if gold.kind == answer.kind and gold.value != answer.value:
        return False
    digits = [each.name.lstrip("0") or str(each.value) for each in (gold, answer)]
    return digits[0] == digits[1]
