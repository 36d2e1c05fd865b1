"""Renders a report as a page of HTML or Markdown."""

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from services.contracts.campaigns.reports import CampaignReport, ReportedAttempt

HTML, MARKDOWN = "report.html.j2", "report.md.j2"
BAR_WIDTH = 200
"""Width of an interval plot, in pixels."""


def render_html(report: CampaignReport) -> str:
    """One page without scripts or external resources."""
    return _PAGES.get_template(HTML).render(report=report, bars=_Bars(report))


def render_markdown(report: CampaignReport) -> str:
    """One page of Markdown; what the LLM wrote cannot become markup of the page."""
    return _PAGES.get_template(MARKDOWN).render(report=report)


class _Bars:
    """Positions of intervals in plots of one scale, centered at 0."""

    def __init__(self, report: CampaignReport) -> None:
        ends = [
            abs(end)
            for attempt in report.attempts
            if attempt.comparison is not None
            for end in attempt.comparison.ci95
        ]
        self._scale = max([*ends, 1e-9])

    def x(self, value: float) -> float:
        """The position of a value, in pixels."""
        return round(BAR_WIDTH / 2 * (1 + value / self._scale), 1)


def verdict(attempt: ReportedAttempt) -> str:
    """The outcome of a loop, in one or two words."""
    if attempt.loop == 0:
        return "base model"
    if attempt.failure is not None:
        return f"failed: {attempt.failure.value}"
    if attempt.accepted is None:
        return "under way"
    return "accepted" if attempt.accepted else "rejected"


def _lineage(report: CampaignReport) -> str:
    return " → ".join(f"loop {loop}" if loop else "base model" for loop in report.lineage)


def _score(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _gain(difference: float, ci95: tuple[float, float]) -> str:
    return f"{difference:+.4f} ({ci95[0]:+.4f} to {ci95[1]:+.4f})"


_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&])")


def _plain(text: str | None) -> str:
    """Text for a line or a table cell of Markdown: on one line, with its markup escaped."""
    return _MARKUP.sub(r"\\\1", " ".join((text or "").split()))


def _fenced(text: str) -> str:
    """A code block that the text cannot close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}bash\n{text}\n{fence}"


_PAGES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=select_autoescape(enabled_extensions=("html.j2",)),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_PAGES.filters |= {
    "score": _score,
    "plain": _plain,
    "fenced": _fenced,
    "verdict": verdict,
    "lineage": _lineage,
}
_PAGES.globals |= {"gain": _gain, "bar_width": BAR_WIDTH}
