"""What a report consists of, whichever format it is written in."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class Verdict:
    """A cell with a judgment, which formats with colors show in one."""

    text: str
    tone: Literal["good", "fair", "bad"]


@dataclass(frozen=True, slots=True)
class Gain:
    """A difference with its 95 % interval; ``scale`` is the largest end of any in its column."""

    difference: float
    ci95: tuple[float, float]
    scale: float

    def __str__(self) -> str:
        return gain_text(self.difference, self.ci95)


Cell = str | int | float | None | Verdict | Gain


@dataclass(frozen=True, slots=True)
class Fold:
    """A heading whose content a reader unfolds: further folds, or pairs of heading and text."""

    heading: str
    content: Iterable["Fold | tuple[str, str]"]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows; ``folds`` are what a format that can fold shows in place of the rows."""

    columns: Sequence[str]
    rows: Iterable[Sequence[Cell]]
    folds: Iterable[Fold] | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with their values."""

    pairs: Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Points:
    """A list of texts."""

    texts: Iterable[str]


@dataclass(frozen=True, slots=True)
class Command:
    """A command for a shell."""

    text: str


class Plot(Protocol):
    """A plot; formats without graphics leave it out, so a table has its values too."""

    def svg(self) -> str:
        """The plot as one SVG element, with a description."""


Block = str | Facts | Points | Command | Table | Plot
"""A part of a section; a text is a paragraph."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what is below it."""

    title: str
    blocks: Iterable[Block]


@dataclass(frozen=True, slots=True)
class Document:
    """A report. It is read once: rows may come from iterators.

    ``opening`` comes before the first section. ``data`` returns the document of the JSON format.
    """

    title: str
    opening: Iterable[Block]
    sections: Iterable[Section]
    data: Callable[[], Any]


def cell_text(value: Cell) -> str:
    """A cell as text; fractions have four decimals."""
    match value:
        case None:
            return ""
        case float():
            return f"{value:.4f}"
        case Verdict():
            return value.text
        case _:
            return str(value)


def gain_text(difference: float, ci95: tuple[float, float]) -> str:
    """A difference with its interval, all with their signs."""
    return f"{difference:+.4f} ({ci95[0]:+.4f} to {ci95[1]:+.4f})"
