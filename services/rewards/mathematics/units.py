"""The words behind a number: what multiplies it, its unit, and what is counted.

Units have one spelling here, that of their symbol; they are not converted into each other. What is
neither a unit nor has an opposite describes what is counted, and never makes a number another.
"""

import re
from collections import Counter
from dataclasses import dataclass

SCALES = {
    "hundred": 100,
    "thousand": 1_000,
    "million": 1_000_000,
    "billion": 1_000_000_000,
    "trillion": 1_000_000_000_000,
    "dozen": 12,
}
_PERCENT = {"percent", "percents", "percentage", "pct"}
_POWERS = {
    **dict.fromkeys(("square", "sq", "squared"), "^2"),
    **dict.fromkeys(("cubic", "cu", "cubed"), "^3"),
}
_BEHIND = {"squared", "cubed"}
_ANY_UNIT = "unit"
"""A word for a unit that is not named."""

_BASES = {
    **{"m": ("meter", "metre"), "g": ("gram", "gramme", "gm"), "l": ("liter", "litre")},
    **{"s": ("second", "sec"), "J": ("joule",), "W": ("watt",), "V": ("volt",), "N": ("newton",)},
    **{"Pa": ("pascal",), "Hz": ("hertz",), "mol": ("mole",), "A": ("ampere", "amp")},
    **{"B": ("byte",), "bit": (), "cal": ("calorie",), "eV": ("electronvolt",)},
    **{"\u03a9": ("ohm",), "K": ("kelvin",), "C": ("coulomb",), "F": ("farad",), "T": ("tesla",)},
    **{"H": ("henry", "henrie")},
}
_PREFIXES = {
    **{"": "", "k": "kilo", "M": "mega", "G": "giga", "T": "tera", "d": "deci", "c": "centi"},
    **{"m": "milli", "\u00b5": "micro", "n": "nano", "p": "pico"},
}
_OTHERS = {
    **{"in": ("inch", "inches"), "ft": ("foot", "feet"), "yd": ("yard",), "mi": ("mile",)},
    **{"min": ("minute",), "h": ("hr", "hour"), "d": ("day",), "wk": ("week",)},
    **{"month": ("mo",), "yr": ("year",), "decade": (), "century": ("centurie",)},
    **{"lb": ("pound",), "oz": ("ounce",), "ton": ("tonne",), "kg": ("kilo",)},
    **{"gal": ("gallon",), "qt": ("quart",), "pint": (), "cup": (), "cm^3": ("cc",)},
    **{"tbsp": ("tablespoon",), "tsp": ("teaspoon",), "atm": ("atmosphere",)},
    **{"dollar": ("usd",), "cent": (), "euro": ("eur",), "degree": ("deg",), "radian": ("rad",)},
    **{"C": ("celsius", "centigrade"), "F": ("fahrenheit",), "\u00c5": ("angstrom",)},
    **{"dB": ("decibel",), "rev": ("revolution",), "rev/min": ("rpm",), "mi/h": ("mph",)},
    **{"km/h": ("kph", "kmh", "kmph"), "mi/gal": ("mpg",), "mol/l": ("molar",)},
    **{"mM": ("millimolar",), "N\u00b7m": ("Nm",), "h\u00b7kW": ("kwh",)},
}
_SYMBOLS = {prefix + base for prefix in _PREFIXES for base in _BASES} | _OTHERS.keys()
_MEGA = ("B", "bit", "Hz", "Pa", "W", "eV")
"""Units of which "mb" in a case of its own means a million rather than a thousandth."""
_NAMES = {
    **{symbol.casefold(): symbol for symbol in sorted(_SYMBOLS) if len(symbol) > 1},
    **{f"m{base}".casefold(): f"M{base}" for base in _MEGA},
    **{
        _PREFIXES[prefix] + name: prefix + base
        for prefix in _PREFIXES
        for base, names in _BASES.items()
        for name in names
    },
    **{name: symbol for symbol, names in _OTHERS.items() for name in names},
    **{"L": "l", "M": "mol/l"},
}
_LETTERS = {"L", "M", "c", "u", "D", "G", "S"}
"""Letters that are units, too, of which some have several meanings."""
_BARE = {
    *(
        "mm",
        "cm",
        "m",
        "km",
        "in",
        "ft",
        "mi",
        "yd",
        "s",
        "h",
        "hr",
        "mg",
        "g",
        "gm",
        "kg",
        "ml",
        "l",
    ),
    *("L", "mL", "cc", "eV", "kJ", "kW", "kN", "Hz", "Pa", "MB", "GB", "TB", "lb", "oz", "yr"),
    *("am", "pm", "AM", "PM"),
}
"""Short words that are read without LaTeX's commands for text; others are names."""
_TEMPERATURES = {"C", "F", "K"}
_SHORT_WORDS = {"of", "by", "in", "at", "on", "to", "sq", "cu", "a", "an", "per"}
_NOT_BEFORE_RATES = {"of", "by", "in", "at", "on", "to", "for", "half"}
"""Words before which "an hour" is an hour rather than "per hour"."""
_BEHIND_INCHES = {"squared", "cubed", "per", "of", "by"}
"""What may follow the unit "in"; before anything else it is the preposition."""

_OPPOSITES = [
    [{"am"}, {"pm"}],
    [{"st"}, {"nd"}, {"rd"}, {"th"}],
    [
        {"win", "wins", "won", "gain", "gains", "gained", "profit", "profits"},
        {"loss", "losses", "lost"},
        {"draw", "draws", "drawn", "tie", "ties"},
    ],
    [{"east"}, {"west"}, {"north"}, {"south"}],
    [{"left"}, {"right"}],
    [{"up", "upward", "upwards"}, {"down", "downward", "downwards"}],
    [{"above"}, {"below"}],
    [
        {"increase", "increased", "rise", "more", "higher", "greater"},
        {"decrease", "decreased", "fall", "less", "fewer", "lower"},
    ],
    [{"older"}, {"younger"}],
    [{"longer", "taller"}, {"shorter"}],
    [{"faster"}, {"slower"}],
    [{"before"}, {"after"}],
    [{"inside"}, {"outside"}],
    [{"bc", "bce"}, {"ad", "ce"}],
    [{"even"}, {"odd"}],
    [{"positive"}, {"negative"}],
    [{"clockwise"}, {"counterclockwise", "anticlockwise"}],
    [{"head", "heads"}, {"tail", "tails"}],
    [{"boy", "boys"}, {"girl", "girls"}],
    [{"man", "men", "male", "males"}, {"woman", "women", "female", "females"}],
    [{"adult", "adults"}, {"child", "children"}],
]
"""Words that count something else than the others of their line, whatever stands beside them."""
_GROUPS = {min(words): group for group, meanings in enumerate(_OPPOSITES) for words in meanings}
_MEANINGS = {word: min(words) for meanings in _OPPOSITES for words in meanings for word in words}
_GREEK = {
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"),
    *("lambda", "mu", "nu", "xi", "omicron", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi"),
    *("psi", "omega"),
}
_MARKS = str.maketrans(
    {
        **{".": None, "%": " percent ", "\u00b0": " degree ", "/": " per "},
        **{"\u03bc": "\u00b5", "\u2126": "\u03a9", "\u212b": "\u00c5"},
        **dict.fromkeys("(),;:-*~", " "),
    }
)
_SPELLINGS = [
    (re.compile(r"\\Omega(?![A-Za-z])"), "\u03a9"),
    (re.compile(r"\\mu(?![A-Za-z])\s*"), "\u00b5"),
    (re.compile(r"\\AA(?![A-Za-z])"), "\u00c5"),
    (re.compile(r"([^\W\d_]+)\s*\^-"), r" per \1^"),
    (re.compile(r"\^1"), ""),
    (re.compile(r"\^2"), " squared"),
    (re.compile(r"\^3"), " cubed"),
    (re.compile(r"\((e?s)\)"), r"\1"),
    (re.compile(r"\b(per|counter|electron)[ -](?=cent\b|clock|volt)"), r"\1"),
]


@dataclass(frozen=True, slots=True)
class Words:
    """The factor of a number, whether it is a percentage, and the other words that tell it apart.

    These are its units, each one word with all its parts (``m/s``, ``cm^2``), and those words
    that have an opposite (``win``). Any other word describes the number and is left out.
    """

    scale: int = 1
    is_percent: bool = False
    unit: frozenset[str] = frozenset()


NONE = Words()
DEGREES = Words(unit=frozenset({"degree"}))


def read_words(text: str) -> Words:
    """Read the words behind a number, whose powers are written like ``cm^2`` and ``s^-1``."""
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    words, scale = text.translate(_MARKS).split(), 1
    while words and (factor := SCALES.get(words[0].casefold().removesuffix("s"))):
        words, scale = words[1:], scale * factor
    is_percent = bool(words) and words[0].casefold() in _PERCENT
    units = _units(words, start=int(is_percent))
    meanings = {_MEANINGS[word.casefold()] for word in words if word.casefold() in _MEANINGS}
    return Words(scale, is_percent, frozenset({*units, *meanings}) - {_ANY_UNIT})


def fit(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two numbers may count the same: none of their words are known to differ.

    They differ if one has the opposite of the other's word, or if both have a unit that the
    other lacks. A number without units fits any.
    """
    for group in {_GROUPS[word] for word in one if word in _GROUPS}:
        meant = {word for word in other if _GROUPS.get(word) == group}
        if meant and not meant & one:
            return False
    return _has_all(one - _GROUPS.keys(), other) or _has_all(other - _GROUPS.keys(), one)


def are_names(text: str) -> bool:
    """Whether words that are in no command for text are names of a formula, rather than words."""
    words = text.split()
    if _GREEK & {word.casefold() for word in words}:
        return True
    is_temperature = (
        len(words) > 1 and _spelled(words[-2]) == "degree" and words[-1] in _TEMPERATURES
    )
    if is_temperature or is_unit(words[-1]):
        return False
    is_letter = len(words[-1]) == 1
    return is_letter or any(len(word) < 3 and word not in _SHORT_WORDS | _BARE for word in words)


def is_symbol(word: str) -> bool:
    """Whether a letter is the symbol of a unit."""
    return word in _SYMBOLS or word in _LETTERS


def is_unit(word: str) -> bool:
    """Whether a word is a unit that is read without LaTeX's commands for text."""
    return word in _BARE or (len(word) > 2 and bool(_spelled(word)))


def _has_all(units: frozenset[str], others: frozenset[str]) -> bool:
    return all(any(_is_same(unit, other) for other in others) for unit in units)


def _is_same(one: str, other: str) -> bool:
    """Whether two units are one: "per hour" is any rate by it, "unit^2" any area."""
    if one == other:
        return True
    if "/" in (one[0], other[0]):
        return one.endswith(other) or other.endswith(one)
    is_any = any(word.startswith(f"{_ANY_UNIT}^") for word in (one, other))
    return is_any and one[-2:] == other[-2:]


def _units(words: list[str], start: int) -> list[str]:
    """The units among words from ``start`` on, with the powers and the "per" around them."""
    units: list[str] = []
    power, sign = "", ""
    for place in range(start, len(words)):
        word = words[place].casefold()
        if word in _BEHIND and units:
            units[-1] += _POWERS[word]
        elif word in _POWERS:
            power = _POWERS[word]
        elif word == "per" or _is_rate(words, place):
            sign = "/"
        elif not _is_preposition(words, place):
            symbol = _spelled(words[place])
            if symbol:
                _join(units, sign, symbol + power)
            power, sign = "", "\u00b7" if symbol else ""
    return [_canonical(unit) for unit in units]


def _join(units: list[str], sign: str, unit: str) -> None:
    """Add a unit to those before it: as a factor of the last one, below it, or for itself."""
    last = units[-1] if units else ""
    is_scale = last == "degree" and unit in _TEMPERATURES
    if sign == "/" or (sign and last != unit and not is_scale):
        units[-1:] = [last + sign + unit]
    elif last != unit:
        units.append(unit)


def _canonical(unit: str) -> str:
    """A unit with its factors in their order: "J/mol/K" for "J/(mol K)", "m/s^2" for "m/s/s"."""
    above, _, below = unit.partition("/")
    factors = Counter(re.split("[/\u00b7]", below)) if below else {}
    powers = [name if number == 1 else f"{name}^{number}" for name, number in factors.items()]
    return "/".join(["\u00b7".join(sorted(above.split("\u00b7"))), *sorted(powers)])


def _is_rate(words: list[str], place: int) -> bool:
    """Whether an article means "per": "miles an hour", but not "half an hour"."""
    if words[place] not in ("a", "an") or not 0 < place < len(words) - 1:
        return False
    return words[place - 1] not in _NOT_BEFORE_RATES and bool(_spelled(words[place + 1]))


def _is_preposition(words: list[str], place: int) -> bool:
    return words[place] == "in" and not _BEHIND_INCHES.issuperset(words[place + 1 : place + 2])


def _spelled(word: str) -> str:
    """The symbol of a unit; empty for any other word."""
    if word in _NAMES and len(word) == 1:
        return _NAMES[word]
    if word in _SYMBOLS:
        return word
    if len(word) == 1:
        return ""
    folded = word.casefold()
    if folded.removesuffix("s") == _ANY_UNIT:
        return _ANY_UNIT
    return _NAMES.get(word) or _NAMES.get(folded) or _NAMES.get(folded.removesuffix("s"), "")
