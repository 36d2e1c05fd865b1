"""Plots of reports: shares with their intervals, and lengths of answers by outcome."""

import html
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

COLORS = {"correct": "#16a34a", "wrong": "#dc2626", "failed": "#a3a3a3"}
WIDTH = 900
LABELS = 360
"""Width of the column of names, in pixels."""
LINE = 26
PLOT = 180
BINS = 30


@dataclass(frozen=True)
class Interval:
    """A share between 0 and 1 with its interval."""

    label: str
    mean: float
    ci95: tuple[float, float]


@dataclass(frozen=True)
class IntervalPlot:
    """A line for each interval on a common axis from 0 to 1, with a dot at the mean."""

    title: str
    shown: Sequence[Interval]

    def svg(self) -> str:
        """The plot as SVG; its description has the values."""
        return _intervals(self.title, self.shown)


@dataclass(frozen=True)
class LengthPlot:
    """A histogram of answers by their number of tokens, each with its outcome."""

    title: str
    answers: Sequence[tuple[str, int]]

    def svg(self) -> str:
        """The plot as SVG; its description has the number of answers by outcome."""
        return _lengths(self.title, self.answers)


def _intervals(title: str, shown: Sequence[Interval]) -> str:
    height = LINE * (len(shown) + 1)
    pieces = [_text(0, LINE - 8, title)]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = _across(tick)
        pieces.append(f'<path d="M{x:.1f} {LINE}V{height}" stroke="#8886"/>')
        pieces.append(_text(x, LINE - 8, f"{tick:g}", anchor="middle"))
    for number, each in enumerate(shown, start=1):
        y = LINE * number + LINE / 2
        low, high = map(_across, each.ci95)
        pieces.append(_text(0, y + 4, _shortened(each.label)))
        pieces.append(f'<path d="M{low:.1f} {y}H{high:.1f}" stroke="#b03a06" stroke-width="3"/>')
        pieces.append(f'<circle cx="{_across(each.mean):.1f}" cy="{y}" r="5" fill="#b03a06"/>')
    values = "; ".join(
        f"{each.label}: {each.mean:.4f} ({each.ci95[0]:.4f} to {each.ci95[1]:.4f})"
        for each in shown
    )
    return _svg(height, f"{title}. {values}", pieces)


def _lengths(title: str, answers: Sequence[tuple[str, int]]) -> str:
    width = max(1, -(-(max((tokens for _, tokens in answers), default=0) + 1) // BINS))
    counts = Counter((tokens // width, outcome) for outcome, tokens in answers)
    bins = 1 + max((place for place, _ in counts), default=0)
    totals = Counter(tokens // width for _, tokens in answers)
    highest = max(totals.values(), default=1)
    pieces = [_text(0, LINE - 8, title)]
    for place in range(bins):
        pieces += _bar(place, bins, {name: counts[place, name] for name in COLORS}, highest)
    base = LINE + PLOT
    pieces.append(f'<path d="M0 {base}H{WIDTH}" stroke="#8888"/>')
    pieces.append(_text(0, base + 18, "0"))
    pieces.append(_text(WIDTH, base + 18, f"{bins * width:,} tokens", anchor="end"))
    sums = Counter(outcome for outcome, _ in answers)
    names = ", ".join(f"{sums[name]:,} {name}" for name in COLORS)
    pieces.append(_text(WIDTH, LINE - 8, names, anchor="end"))
    return _svg(base + LINE, f"{title}: {names}; at most {highest:,} in one bar", pieces)


def _bar(place: int, bins: int, counts: dict[str, int], highest: int) -> Iterator[str]:
    step = WIDTH / bins
    top = float(LINE + PLOT)
    for name, count in counts.items():
        if count:
            height = PLOT * count / highest
            top -= height
            yield (
                f'<rect x="{place * step:.1f}" y="{top:.1f}" width="{max(1.0, step - 1):.1f}"'
                f' height="{height:.1f}" fill="{COLORS[name]}"/>'
            )


def _across(share: float) -> float:
    return LABELS + min(1.0, max(0.0, share)) * (WIDTH - LABELS - 20)


def _shortened(label: str) -> str:
    most = LABELS // 7
    return label if len(label) <= most else f"{label[: most - 1]}…"


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _svg(height: float, description: str, pieces: Sequence[str]) -> str:
    label = html.escape(description, quote=True)
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
        f' height="{height}">{"".join(pieces)}</svg>'
    )
