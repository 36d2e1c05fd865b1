"""The words behind a number: what multiplies it, its unit, and what is counted.

Units have one spelling here, that of their symbol; they are not converted into each other.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

SCALES = {
    "hundred": 100,
    "thousand": 1_000,
    "million": 1_000_000,
    "billion": 1_000_000_000,
    "trillion": 1_000_000_000_000,
    "dozen": 12,
}
_PERCENT = {"percent", "percents", "pct"}
_POWERS = {
    **dict.fromkeys(("square", "sq", "squared"), "^2"),
    **dict.fromkeys(("cubic", "cu", "cubed"), "^3"),
}
_BEHIND = {"squared", "cubed"}
_ANY_UNIT = "unit"
"""A word for a unit that is not named."""

_BASES = {
    **{"m": ("meter", "metre"), "g": ("gram",), "l": ("liter", "litre"), "s": ("second", "sec")},
    **{"J": ("joule",), "W": ("watt",), "V": ("volt",), "N": ("newton",), "Pa": ("pascal",)},
    **{"Hz": ("hertz",), "mol": ("mole",), "A": ("ampere", "amp"), "B": ("byte",)},
    **{"cal": ("calorie",), "eV": ("electronvolt",), "\u03a9": ("ohm",)},
}
_PREFIXES = {
    **{"": "", "k": "kilo", "M": "mega", "G": "giga", "T": "tera"},
    **{"d": "deci", "c": "centi", "m": "milli", "\u00b5": "micro", "n": "nano"},
}
_OTHERS = {
    **{"in": ("inch", "inches"), "ft": ("foot", "feet"), "yd": ("yard",), "mi": ("mile",)},
    **{"min": ("minute",), "h": ("hr", "hour"), "yr": ("year",), "lb": ("pound",)},
    **{"oz": ("ounce",), "dollar": ("usd",), "degree": ("deg",), "radian": ("rad",)},
    **{"mi/h": ("mph",), "km/h": ("kph", "kmh")},
    **{"person": ("people",), "child": ("children",), "man": ("men",), "woman": ("women",)},
}
_SYMBOLS = {prefix + base for prefix in _PREFIXES for base in _BASES} | _OTHERS.keys()
_NAMES = {
    **{symbol.casefold(): symbol for symbol in sorted(_SYMBOLS) if len(symbol) > 1},
    **{
        _PREFIXES[prefix] + name: prefix + base
        for prefix in _PREFIXES
        for base, names in _BASES.items()
        for name in names
    },
    **{name: symbol for symbol, names in _OTHERS.items() for name in names},
    "L": "l",
}
_BARE = {
    *("mm", "cm", "m", "km", "in", "ft", "mi", "yd", "s", "h", "hr", "mg", "g", "kg", "ml", "l"),
}
"""Short units that are read without LaTeX's commands for text; other short words are names."""
_SHORT_WORDS = {"of", "by", "in", "at", "on", "to", "sq", "a", "per"}
_GREEK = {
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"),
    *("lambda", "mu", "nu", "xi", "omicron", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi"),
    *("psi", "omega"),
}
_SIBILANT = re.compile(r"(?:s|x|z|ch|sh)e\Z")
_MARKS = str.maketrans({".": None, **dict.fromkeys("(),;:-", " ")})


@dataclass(frozen=True, slots=True)
class Words:
    """The factor of a number, whether it is a percentage, and the other words, each once.

    A unit is one word with all its parts: ``m/s``, ``cm^2``.
    """

    scale: int = 1
    is_percent: bool = False
    unit: frozenset[str] = frozenset()


NONE = Words()
DEGREES = Words(unit=frozenset({"degree"}))


def read_words(text: str, dimension: str = "") -> Words:
    """Read the words behind a number; ``dimension`` is the exponent behind them, such as 2."""
    text = re.sub(r"\s*/\s*", "/", text.translate(_MARKS)).replace("per cent", "percent")
    words, scale = text.split(), 1
    while words and (factor := SCALES.get(words[0].casefold().removesuffix("s"))):
        words, scale = words[1:], scale * factor
    is_percent = bool(words) and words[0].casefold() in _PERCENT
    units = list(_units(words[is_percent:]))
    if units and dimension:
        units[-1] += f"^{dimension}"
    return Words(scale, is_percent, frozenset(units) - {_ANY_UNIT})


def fit(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two numbers may count the same: both have the same words, or one has them all.

    One without words fits any. "Square units" fit any unit of an area.
    """
    if any(word.startswith(f"{_ANY_UNIT}^") for word in one | other) and one and other:
        return _dimensions(one) == _dimensions(other)
    return one <= other or other <= one


def are_names(text: str) -> bool:
    """Whether words that are in no command for text are names of a formula, rather than words."""
    words = text.split()
    if _GREEK & {word.casefold() for word in words}:
        return True
    is_unit = words[-1] in _BARE or (len(words[-1]) > 2 and _spelled(words[-1]) in _SYMBOLS)
    return not is_unit and any(len(word) < 3 and word not in _SHORT_WORDS for word in words)


def is_symbol(word: str) -> bool:
    """Whether a word is the symbol of a unit."""
    return word in _SYMBOLS or word in _NAMES


def _units(words: list[str]) -> Iterator[str]:
    """Each word, with the powers and the "per" around it."""
    unit, power, is_below = "", "", False
    for word in words:
        folded = word.casefold()
        if folded in _BEHIND and unit:
            unit += _POWERS[folded]
        elif folded in _POWERS:
            power = _POWERS[folded]
        elif folded == "per" and unit:
            is_below = True
        else:
            found = "/".join(map(_spelled, filter(None, word.split("/")))) + power
            if unit and not is_below:
                yield unit
            unit = f"{unit}/{found}" if is_below else found
            power, is_below = "", False
    if unit:
        yield unit


def _spelled(word: str) -> str:
    """The symbol of a unit, and of any other word its stem."""
    if word in _SYMBOLS or len(word) == 1:
        return _NAMES.get(word, word)
    word = word.casefold()
    singular = word.removesuffix("s") if word[-2:] not in ("ss", "us", "is") else word
    return _NAMES.get(word) or _NAMES.get(singular) or _stem(singular)


def _stem(word: str) -> str:
    """A word as its singular and its plural share it: "boxes" and "box", "party", "parties"."""
    if _SIBILANT.search(word):
        return word[:-1]
    return word[:-2] + "y" if word.endswith("ie") else word


def _dimensions(words: frozenset[str]) -> set[str]:
    return {word[-2:] for word in words if word[-2:] in _POWERS.values()}
