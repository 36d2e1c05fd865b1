"""The trees of formulas."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final


class Unparsable(Exception):
    """A formula is not in the grammar."""


class TooDeep(Unparsable):
    """A formula is nested too deeply."""


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a formula: ``kind`` with its parts, a number with its value, or a name.

    Kinds are ``number``, ``name``, the operations ``+ * / ^ neg pm mp``, the functions of
    `FUNCTIONS`, ``sum`` and ``product`` (index, first, last, term), ``based`` (the digits in
    ``name``, the base in ``value``), and collections: ``set``, and ``row`` with its brackets in
    ``name``, of which ``[[`` is a matrix.
    """

    kind: str
    parts: tuple["Node", ...] = ()
    value: Fraction | None = None
    name: str = ""


FUNCTIONS: Final = frozenset(
    {
        *("sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh"),
        *("tanh", "ln", "log", "lg", "exp", "sqrt", "abs", "floor", "ceil", "factorial", "binom"),
        *("root", "max", "min", "gcd", "lcm"),
    }
)


def number(value: int | Fraction) -> Node:
    """The tree of a number."""
    return Node("number", value=Fraction(value))


def names_of(tree: Node) -> frozenset[str]:
    """The names in a tree, without the indexes of its sums."""
    if tree.kind == "name":
        return frozenset({tree.name})
    found = frozenset().union(*map(names_of, tree.parts))
    return found - {tree.parts[0].name} if tree.kind in ("sum", "product") else found


def signed(sign: str | None, tree: Node) -> Node:
    """The tree behind a sign."""
    kinds = {"-": "neg", "±": "pm", "∓": "mp"}
    return Node(kinds[sign], (tree,)) if sign in kinds else tree


def text_of(tree: Node) -> str:
    """A tree as a part of a name."""
    own = tree.name or (str(tree.value) if tree.value is not None else tree.kind)
    return own + "".join(map(text_of, tree.parts))
