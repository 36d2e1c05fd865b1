"""The JSON of an answer, put together around passages that are JSON already."""

from collections.abc import Sequence

from services.retrieval.searching.engine import Found


def plain_answer(found: Found) -> bytes:
    """The passages of each query."""
    return _answer([[hit.document for hit in hits] for hits in found.hits])


def scored_answer(found: Found) -> bytes:
    """The passages of each query, each with its score."""
    return _answer(
        [
            [b'{"document":%b,"score":%r}' % (hit.document, hit.score) for hit in hits]
            for hits in found.hits
        ]
    )


def _answer(results: Sequence[Sequence[bytes]]) -> bytes:
    lists = b",".join([b"[%b]" % b",".join(hits) for hits in results])
    return b'{"result":[%b]}' % lists
