"""Extracts of a passage with the query's words highlighted."""

import html
from collections.abc import Sequence

from services.retrieval.store.tokens import Analyzer, TokenSpan

_OPEN = "<em>"
_CLOSE = "</em>"


def highlight(
    analyzer: Analyzer, query: str, text: str, *, extracts: int = 3, width: int = 160
) -> list[str]:
    """Up to ``extracts`` snippets of ``text`` that contain query words, best first.

    A snippet has about ``width`` characters, breaks at spaces where it can, and is HTML: query
    words are wrapped in <em>, everything else is escaped.
    """
    wanted = set(analyzer.query_tokens(query))
    marked = _merged_spans([span for span in analyzer.spans(text) if span.token in wanted])
    pieces = _pieces(marked, width)
    pieces.sort(key=lambda piece: -len({span.token for span in piece}))
    return [_extract(text, piece, width) for piece in pieces[:extracts]]


def _merged_spans(spans: Sequence[TokenSpan]) -> list[TokenSpan]:
    """The spans in order, overlapping ones merged."""
    join_contents: list[TokenSpan] = []
    for span in sorted(spans, key=lambda one: (one.start, one.end)):
        last = join_contents[-1] if join_contents else None
        if last is not None and span.start < last.end:
            join_contents[-1] = TokenSpan(last.token, last.start, max(last.end, span.end))
        else:
            join_contents.append(span)
    return join_contents


def _pieces(spans: Sequence[TokenSpan], width: int) -> list[list[TokenSpan]]:
    """Consecutive spans grouped to fit into ``width``."""
    pieces: list[list[TokenSpan]] = []
    for span in spans:
        if pieces and span.end - pieces[-1][0].start <= width:
            pieces[-1].append(span)
        else:
            pieces.append([span])
    return pieces


def _extract(text: str, piece: Sequence[TokenSpan], width: int) -> str:
    start, end = _around(text, piece[0].start, piece[-1].end, width)
    parts = []
    for span in piece:
        parts += [html.escape(text[start : span.start], quote=False), _OPEN]
        parts += [html.escape(text[span.start : span.end], quote=False), _CLOSE]
        start = span.end
    parts.append(html.escape(text[start:end], quote=False))
    return "".join(parts).strip()


def _around(text: str, start: int, end: int, width: int) -> tuple[int, int]:
    """About ``width`` characters around a range, cut at spaces."""
    spare = max(0, width - (end - start)) // 2
    first, last = max(0, start - spare), min(len(text), end + spare)
    if first > 0:
        space = text.find(" ", first, start)
        first = first if space < 0 else space + 1
    if last < len(text):
        space = text.rfind(" ", end, last)
        last = last if space < 0 else space
    return first, last
