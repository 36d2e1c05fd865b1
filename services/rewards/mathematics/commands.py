"""The commands of LaTeX in formulas: fractions, roots, functions, series and matrices."""

from abc import ABC, abstractmethod

from services.rewards.mathematics.tokens import PREFIX, Tokens
from services.rewards.mathematics.tree import Node, Unparsable, number, signed, text_of

_INVERSE = {"sin": "arcsin", "cos": "arccos", "tan": "arctan"}
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


class Commands(Tokens, ABC):
    """Parses a command and its arguments, which are expressions."""

    @abstractmethod
    def set_expression(self) -> Node:
        """Expressions joined by unions, intersections and differences."""

    @abstractmethod
    def _product(self) -> Node: ...

    @abstractmethod
    def _power(self) -> Node: ...

    @abstractmethod
    def _exponent(self) -> Node: ...

    @abstractmethod
    def _factor(self) -> Node: ...

    @abstractmethod
    def _starts_factor(self) -> bool: ...

    @abstractmethod
    def _indexed(self, tree: Node) -> Node: ...

    def _command(self, command: str) -> Node:  # noqa: PLR0911 - one return for each form
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
        if name in PREFIX:
            return self._function(name)
        if command in _DECORATIONS:
            return self._indexed(Node("name", name=f"{name} {text_of(self._argument())}"))
        if command in _TEXTS:
            return self._indexed(self._argument())
        if name in _GREEK:
            return self._angle() if name == "angle" else self._indexed(Node("name", name=name))
        raise Unparsable(command)

    def _angle(self) -> Node:
        """An angle by its points as one name: those on its sides have no order."""
        is_grouped = self._take("{") is not None
        points: list[str] = []
        while len(points) < 3 and self._peek()[0] in ("name", "number"):
            kind, text = self._next()
            points.append(text_of(self._indexed(Node("name", name=text))))
            if kind == "number":
                break
        if is_grouped:
            self._expect("}")
        if len(points) == 3 and points[2] < points[0]:
            points.reverse()
        return Node("name", name=" ".join(["angle", *points]))

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
            return signed(text, self._argument())
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
        return signed(sign, argument)

    def _starts_function(self) -> bool:
        kind, text = self._peek()
        return text in ("(", "[", "⦃") or (
            kind in ("command", "word") and text.lstrip("\\") in {*PREFIX, "sum", "prod"}
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
