"""Extracts of a passage with the words of a query marked in it."""

import html
from collections.abc import Sequence

from services.retrieval.store.tokens import Analysis, Span

_OPEN = "<em>"
_CLOSE = "</em>"


def highlight(
    analysis: Analysis, query: str, text: str, *, extracts: int = 3, width: int = 160
) -> list[str]:
    """Up to ``extracts`` pieces of ``text``, best first, none without a word of the query.

    A piece has about ``width`` characters, begins and ends between words where it can, and is
    HTML: the words of the query are between <em> and </em>, everything else is escaped.
    """
    wanted = set(analysis.query_tokens(query))
    marked = _joined([span for span in analysis.spans(text) if span.token in wanted])
    pieces = _pieces(marked, width)
    pieces.sort(key=lambda piece: -len({span.token for span in piece}))
    return [_extract(text, piece, width) for piece in pieces[:extracts]]


def _joined(spans: Sequence[Span]) -> list[Span]:
    """The spans in order, with those that overlap or touch within a run as one."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda one: (one.start, one.end)):
        last = joined[-1] if joined else None
        if last is not None and span.start < last.end:
            joined[-1] = Span(last.token, last.start, max(last.end, span.end))
        else:
            joined.append(span)
    return joined


def _pieces(spans: Sequence[Span], width: int) -> list[list[Span]]:
    """The spans in groups that fit into ``width`` each."""
    pieces: list[list[Span]] = []
    for span in spans:
        if pieces and span.end - pieces[-1][0].start <= width:
            pieces[-1].append(span)
        else:
            pieces.append([span])
    return pieces


def _extract(text: str, piece: Sequence[Span], width: int) -> str:
    start, end = _around(text, piece[0].start, piece[-1].end, width)
    parts = []
    for span in piece:
        parts += [html.escape(text[start : span.start], quote=False), _OPEN]
        parts += [html.escape(text[span.start : span.end], quote=False), _CLOSE]
        start = span.end
    parts.append(html.escape(text[start:end], quote=False))
    return "".join(parts).strip()


def _around(text: str, start: int, end: int, width: int) -> tuple[int, int]:
    """A stretch of about ``width`` characters with the given one in its middle, cut at spaces."""
    spare = max(0, width - (end - start)) // 2
    first, last = max(0, start - spare), min(len(text), end + spare)
    if first > 0:
        space = text.find(" ", first, start)
        first = first if space < 0 else space + 1
    if last < len(text):
        space = text.rfind(" ", end, last)
        last = last if space < 0 else space
    return first, last
