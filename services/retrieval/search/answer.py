"""The JSON of a search's answer, put together around passages that are JSON already."""

import json

from services.retrieval.index.highlights import highlight
from services.retrieval.index.query import Hit
from services.retrieval.index.tokens import Analysis
from services.retrieval.searching.engine import Found, Search


def search_answer(found: Found, search: Search) -> bytes:
    """What `SearchResponse` describes."""
    index = found.served.index
    analysis = index.analysis if search.highlights else None
    results = [
        b"[%b]" % b",".join([_hit(hit, query, analysis) for hit in hits])
        for query, hits in zip(search.queries, found.hits, strict=True)
    ]
    head = json.dumps({"index": index.name, "mode": found.mode.value}).encode()
    return b'%b,"results":[%b]}' % (head[:-1], b",".join(results))


def _hit(hit: Hit, query: str, analysis: Analysis | None) -> bytes:
    parts = [b'{"document":%b,"score":%r' % (hit.document, hit.score)]
    if hit.parts:
        ranks = [
            {"mode": part.mode.value, "rank": part.rank, "score": part.score} for part in hit.parts
        ]
        parts.append(b'"parts":%b' % json.dumps(ranks).encode())
    if analysis is not None:
        text = json.loads(hit.document)["contents"]
        extracts = highlight(analysis, query, text)
        parts.append(b'"highlights":%b' % json.dumps(extracts, ensure_ascii=False).encode())
    return b",".join(parts) + b"}"
