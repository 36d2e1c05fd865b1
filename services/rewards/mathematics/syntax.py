"""Parses formulas into trees. The grammar is that of final answers, not of all LaTeX."""

from fractions import Fraction

from services.rewards.mathematics.commands import Commands
from services.rewards.mathematics.tree import Node, TooDeep, Unparsable, number, signed, text_of

MAX_DEPTH = 60
"""Brackets within brackets; a formula that is deeper is not read."""

_STOPS = {
    *("+", "-", "*", "/", "^", "_", "!", "'", "%", "°", "±", "∓", "=", ":", "&", ",", ";"),
    *(")", "]", "}", "⦄", "⊔", "∩", "⊖", "\\newrow", "\\end", "\\rfloor", "\\rceil"),
}


def parse(text: str) -> Node:
    """The tree of a formula without relations; raises `Unparsable`."""
    parser = _Parser(text)
    tree = parser.set_expression()
    parser.expect_end()
    return tree


class _Parser(Commands):
    """Sets, sums, products, powers and factors, in the order in which they bind."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._bars = 0

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
        left = signed(sign, self._product())
        while sign := self._take("+", "-", "±", "∓"):
            left = Node("+", (left, signed(sign, self._product())))
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
        return signed(sign, self._power())

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
            return signed(sign, self._argument())
        exponent = self._argument(whole=True)
        if self._take("^"):
            exponent = Node("^", (exponent, self._exponent()))
        return signed(sign, exponent)

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

    def _factor(self) -> Node:  # noqa: PLR0911 - one return for each form
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
            name += "_" + text_of(self._argument())
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


def _is_whole(tree: Node) -> bool:
    return tree.value is not None and tree.value.denominator == 1


def _is_fraction(tree: Node) -> bool:
    return tree.kind == "/" and all(map(_is_whole, tree.parts))


def _repeating(head: str, tail: str) -> Node:
    places = len(head.partition(".")[2])
    value = Fraction(head.rstrip(".") or "0")
    return number(value + Fraction(int(tail), (10 ** len(tail) - 1) * 10**places))
