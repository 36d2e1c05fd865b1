"""Parses formulas into trees. The grammar is that of final answers, not of all LaTeX."""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

MAX_DEPTH = 60
"""Brackets within brackets; a formula that is deeper is not read."""


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
_PREFIX = FUNCTIONS - {"abs", "floor", "ceil", "factorial", "binom", "root", "sqrt"}
_INVERSE = {"sin": "arcsin", "cos": "arccos", "tan": "arctan"}
_WORDS = sorted(
    {*_PREFIX, "sqrt", "pi", "infinity", "inf", "oo", "abs", "floor", "ceil", "binom"},
    key=len,
    reverse=True,
)
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+(?![A-Za-z\d]))?)"
    rf"|(?P<command>\\[A-Za-z]+)|(?P<word>{'|'.join(_WORDS)})(?![a-z])"
    r"|(?P<name>[^\W\d_])|(?P<sign>[-+*/^_(){}\[\]⦃⦄|,;!'%°±∓∞⊔∩⊖&:=]))"
)
_DECORATIONS = {"\\overline", "\\vec", "\\hat", "\\bar", "\\overrightarrow", "\\tilde", "\\dot"}
_TEXTS = {
    "\\text",
    "\\textbf",
    "\\textit",
    "\\textrm",
    "\\mathrm",
    "\\mathbf",
    "\\mathit",
    "\\mbox",
}
_GREEK = {
    *("alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "kappa"),
    *("vartheta", "iota", "lambda", "mu", "nu", "xi", "rho", "sigma", "tau", "upsilon", "phi"),
    *("varphi", "chi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Xi", "Sigma", "Phi"),
    *("Psi", "Omega", "ell", "angle", "triangle", "pi", "fieldR", "fieldZ", "fieldN", "fieldQ"),
    *("fieldC", "hbar", "Pi", "prime", "partial"),
}
_MATRICES = {"pmatrix", "bmatrix", "matrix", "vmatrix", "Bmatrix"}
_STOPS = {
    *("+", "-", "*", "/", "^", "_", "!", "'", "%", "°", "±", "∓", "=", ":", "&", ",", ";"),
    *(")", "]", "}", "⦄", "⊔", "∩", "⊖", "\\newrow", "\\end", "\\rfloor", "\\rceil"),
}


def parse(text: str) -> Node:
    """The tree of a formula without relations; raises `Unparsable`."""
    parser = _Parser(_tokens(text))
    tree = parser.set_expression()
    parser.expect_end()
    return tree


def number(value: int | Fraction) -> Node:
    """The tree of a number."""
    return Node("number", value=Fraction(value))


def names_of(tree: Node) -> frozenset[str]:
    """The names in a tree, without the indexes of its sums."""
    if tree.kind == "name":
        return frozenset({tree.name})
    found = frozenset().union(*map(names_of, tree.parts))
    return found - {tree.parts[0].name} if tree.kind in ("sum", "product") else found


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position, text = 0, text.rstrip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise Unparsable(text[position : position + 20])
        tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
        position = found.end()
    return tokens


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._bars = 0

    # Tokens

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else ("end", "")

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        self._at += 1
        return token

    def _take(self, *signs: str) -> str | None:
        kind, text = self._peek()
        if kind not in ("end", "number") and text in signs:
            self._at += 1
            return text
        return None

    def _expect(self, *signs: str) -> str:
        found = self._take(*signs)
        if found is None:
            raise Unparsable(f"{self._peek()[1]!r} in place of {signs}")
        return found

    def expect_end(self) -> None:
        """Raise `Unparsable` unless the whole formula is read."""
        if self._peek()[0] != "end":
            raise Unparsable(self._peek()[1])

    # Sets and sums

    def set_expression(self) -> Node:
        """Expressions joined by unions, intersections and differences."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TooDeep("nested too deeply")
        left = self._sum()
        while sign := self._take("⊔", "∩", "⊖"):
            left = Node(sign, (left, self._sum()))
        self._depth -= 1
        return left

    def _sum(self) -> Node:
        sign = self._take("+", "-", "±", "∓")
        left = _signed(sign, self._product())
        while sign := self._take("+", "-", "±", "∓"):
            left = Node("+", (left, _signed(sign, self._product())))
        return left

    def _product(self) -> Node:
        left = self._power()
        while True:
            if self._take("*"):
                left = Node("*", (left, self._signed_power()))
            elif self._take("/"):
                left = Node("/", (left, self._signed_power()))
            elif self._starts_factor():
                is_written_fraction = self._peek()[1] == "\\frac"
                right = self._power()
                if is_written_fraction and _is_fraction(right) and _is_whole(left):
                    left = Node("+", (left, right))  # a mixed number
                elif right.kind == "number" and self._tokens[self._at - 1][0] == "number":
                    raise Unparsable("two numbers without a sign between them")
                else:
                    left = Node("*", (left, right))
            else:
                return left

    def _signed_power(self) -> Node:
        sign = self._take("+", "-")
        return _signed(sign, self._power())

    def _starts_factor(self) -> bool:
        kind, text = self._peek()
        return kind != "end" and text not in _STOPS and not (text == "|" and self._bars)

    # Powers and what stands behind a factor

    def _power(self) -> Node:
        base = self._postfixed(self._factor())
        if self._take("^"):
            exponent = self._exponent()
            return self._postfixed(Node("^", (base, exponent)))
        return base

    def _exponent(self) -> Node:
        sign = self._take("+", "-")
        if self._peek()[1] == "{":
            return _signed(sign, self._argument())
        exponent = self._argument(whole=True)
        if self._take("^"):
            exponent = Node("^", (exponent, self._exponent()))
        return _signed(sign, exponent)

    def _postfixed(self, tree: Node) -> Node:
        while sign := self._take("!", "%", "°"):
            if sign == "!":
                tree = Node("factorial", (tree,))
            elif sign == "%":
                tree = Node("/", (tree, number(100)))
            else:
                tree = Node("*", (tree, Node("/", (Node("name", name="pi"), number(180)))))
        return tree

    # Factors

    def _factor(self) -> Node:  # noqa: PLR0911
        kind, text = self._next()
        match kind:
            case "number":
                return self._number(text)
            case "name":
                return self._name(text)
            case "word":
                return self._command("\\" + text)
            case "command":
                return self._command(text)
        match text:
            case "(" | "[":
                return self._row(text)
            case "⦃":
                return self._set()
            case "{":
                inner = self.set_expression()
                self._expect("}")
                return self._indexed(inner)
            case "|":
                return self._absolute()
            case "∞":
                return Node("name", name="∞")
        raise Unparsable(text or "the end")

    def _number(self, digits: str) -> Node:
        mantissa, _, exponent = digits.lower().partition("e")
        if self._peek()[1] == "\\overline" and "." in mantissa:
            self._at += 1
            return _repeating(mantissa, self._digits())
        value = Node("number", value=Fraction(mantissa.rstrip(".") or "0"))
        if exponent:
            power = Node("^", (number(10), number(int(exponent))))
            return Node("*", (value, power))
        return self._based(mantissa) if self._peek()[1] == "_" else value

    def _based(self, digits: str) -> Node:
        self._expect("_")
        base = self._argument()
        if base.kind == "row" or base.value is None or not 2 <= base.value <= 36:
            raise Unparsable("a base that is not a number from 2 to 36")
        try:
            int(digits, int(base.value))
        except ValueError:
            raise Unparsable(f"{digits} in base {base.value}") from None
        return Node("based", value=base.value, name=digits)

    def _name(self, name: str) -> Node:
        return self._indexed(Node("name", name=name))

    def _indexed(self, tree: Node) -> Node:
        """A name with its index and primes, which belong to it."""
        name = tree.name
        if tree.kind == "name" and self._take("_"):
            name += "_" + _text(self._argument())
        if tree.kind == "name":
            while self._take("'"):
                name += "'"
            return Node("name", name=name)
        return tree

    def _absolute(self) -> Node:
        self._bars += 1
        inner = self._sum()
        self._bars -= 1
        self._expect("|")
        return Node("abs", (inner,))

    def _row(self, opening: str) -> Node:
        bars, self._bars = self._bars, 0
        items = self._items()
        closing = self._expect(")", "]")
        self._bars = bars
        if len(items) == 1 and (opening + closing) in ("()", "[]"):
            return items[0]
        return Node("row", tuple(items), name=opening + closing)

    def _set(self) -> Node:
        bars, self._bars = self._bars, 0
        items = [] if self._peek()[1] == "⦄" else self._items()
        self._expect("⦄")
        self._bars = bars
        return Node("set", tuple(items))

    def _items(self) -> list[Node]:
        items = [self.set_expression()]
        while self._take(",", ";"):
            items.append(self.set_expression())
        return items

    # Commands

    def _command(self, command: str) -> Node:  # noqa: PLR0911
        name = command[1:]
        if name == "frac":
            return Node("/", (self._argument(), self._argument()))
        if name in ("binom", "choose"):
            return Node("binom", self._two_arguments())
        if name == "sqrt":
            return self._root()
        if name in ("sum", "prod"):
            return self._series("sum" if name == "sum" else "product")
        if name in ("lfloor", "lceil"):
            inner = self.set_expression()
            self._expect("\\rfloor" if name == "lfloor" else "\\rceil")
            return Node("floor" if name == "lfloor" else "ceil", (inner,))
        if name in ("infinity", "inf", "oo"):
            return Node("name", name="∞")
        if name in ("abs", "floor", "ceil"):
            return Node(name, (self._argument(whole=True),))
        if name == "begin":
            return self._matrix()
        if name in _PREFIX:
            return self._function(name)
        if command in _DECORATIONS:
            return self._indexed(Node("name", name=f"{name} {_text(self._argument())}"))
        if command in _TEXTS:
            return self._indexed(self._argument())
        if name in _GREEK:
            return self._indexed(Node("name", name=name))
        raise Unparsable(command)

    def _two_arguments(self) -> tuple[Node, Node]:
        if self._peek()[1] != "(":
            return self._argument(), self._argument()
        pair = self._argument(whole=True)
        if pair.kind != "row" or len(pair.parts) != 2:
            raise Unparsable("a binomial of other than two numbers")
        return pair.parts[0], pair.parts[1]

    def _argument(self, *, whole: bool = False) -> Node:
        """What is in braces, or one character of a number, or one factor."""
        kind, text = self._peek()
        if text == "{":
            self._at += 1
            inner = self.set_expression()
            self._expect("}")
            return inner
        if kind == "number" and not whole:
            self._tokens[self._at] = (kind, text[1:])
            if len(text) == 1:
                self._at += 1
            return number(int(text[0])) if text[0].isdigit() else self._factor()
        if text in ("-", "+") and not whole:
            self._at += 1
            return _signed(text, self._argument())
        return self._factor()

    def _root(self) -> Node:
        if self._take("["):
            degree = self.set_expression()
            self._expect("]")
            return Node("root", (self._argument(), degree))
        return Node("sqrt", (self._argument(whole=self._peek()[1] == "("),))

    def _function(self, name: str) -> Node:
        base = None
        if name == "log" and self._take("_"):
            base = self._argument(whole=self._peek()[1] == "10")
        power = self._exponent() if self._take("^") else None
        argument = self._applied_to()
        if power is not None and power.kind == "neg" and power.parts[0] == number(1):
            name, power = _INVERSE.get(name, ""), None
            if not name:
                raise Unparsable("the inverse of a function without one")
        parts = argument.parts if argument.kind == "row" else (argument,)
        tree = Node(name, (*parts, base) if base is not None else parts)
        return tree if power is None else Node("^", (tree, power))

    def _applied_to(self) -> Node:
        """The argument of a function: a bracket, or the factors up to the next sign or function."""
        if self._peek()[1] in ("(", "{", "["):
            return self._argument(whole=True)
        sign = self._take("-", "+")
        argument = self._power()
        while self._starts_factor() and not self._starts_function():
            argument = Node("*", (argument, self._power()))
        while self._take("/"):
            argument = Node("/", (argument, self._power()))
        return _signed(sign, argument)

    def _starts_function(self) -> bool:
        kind, text = self._peek()
        return text in ("(", "[", "⦃") or (
            kind in ("command", "word") and text.lstrip("\\") in {*_PREFIX, "sum", "prod"}
        )

    def _series(self, kind: str) -> Node:
        self._expect("_")
        self._expect("{")
        index = self._factor()
        if index.kind != "name":
            raise Unparsable("a sum without an index")
        self._expect("=")
        first = self.set_expression()
        self._expect("}")
        self._expect("^")
        last = self._argument()
        return Node(kind, (index, first, last, self._product()))

    def _matrix(self) -> Node:
        kind = self._words()
        if kind not in _MATRICES:
            raise Unparsable(kind)
        rows, row = [], [self.set_expression()]
        while True:
            if self._take("&"):
                row.append(self.set_expression())
            elif self._take("\\newrow"):
                rows.append(Node("row", tuple(row), name="[["))
                if self._peek()[1] == "\\end":
                    break
                row = [self.set_expression()]
            else:
                rows.append(Node("row", tuple(row), name="[["))
                break
        self._expect("\\end")
        if self._words() != kind:
            raise Unparsable("a matrix without its end")
        return Node("row", tuple(rows), name="[[")

    def _words(self) -> str:
        self._expect("{")
        text = ""
        while self._peek()[0] in ("name", "word"):
            text += self._next()[1]
        self._expect("}")
        return text

    def _digits(self) -> str:
        self._expect("{")
        kind, digits = self._next()
        self._expect("}")
        if kind != "number" or not digits.isdigit():
            raise Unparsable("a repeating decimal of other than digits")
        return digits


def _signed(sign: str | None, tree: Node) -> Node:
    kinds = {"-": "neg", "±": "pm", "∓": "mp"}
    return Node(kinds[sign], (tree,)) if sign in kinds else tree


def _is_whole(tree: Node) -> bool:
    return tree.value is not None and tree.value.denominator == 1


def _is_fraction(tree: Node) -> bool:
    return tree.kind == "/" and all(map(_is_whole, tree.parts))


def _repeating(head: str, tail: str) -> Node:
    places = len(head.partition(".")[2])
    value = Fraction(head.rstrip(".") or "0")
    return number(value + Fraction(int(tail), (10 ** len(tail) - 1) * 10**places))


def _text(tree: Node) -> str:
    """A tree as a part of a name."""
    own = tree.name or (str(tree.value) if tree.value is not None else tree.kind)
    return own + "".join(map(_text, tree.parts))
