"""Quality of the service's results for queries with known relevant passages."""

from collections.abc import Sequence

import httpx

from benchmarks.retrieval.comparison import Plan, serving
from benchmarks.retrieval.quality import mean, ndcg
from services.contracts.retrieval.indexes import IndexMode
from tests.support.corpora.passage import Passage
from tests.support.corpora.queries import Query, heading_queries

TOPK = 10
JUDGED = 1000
TOGETHER = 50
ANSWER_SECONDS = 120.0


def print_quality(plan: Plan, modes: Sequence[IndexMode], passages: Sequence[Passage]) -> None:
    """Print the nDCG of each mode; queries are headings, which the passages do not contain."""
    queries = heading_queries(passages, JUDGED)
    for mode in modes:
        with serving(plan, mode) as server:
            value = ndcg_of(server.port, queries)
        print(
            f"{mode}: nDCG@{TOPK} {value:.3f}, {len(queries)} headings of {len(passages)} passages",
            flush=True,
        )


def ndcg_of(port: int, queries: Sequence[Query]) -> float:
    """Return the mean nDCG@10 of a server's results."""
    values = []
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=ANSWER_SECONDS) as http:
        for start in range(0, len(queries), TOGETHER):
            asked = queries[start : start + TOGETHER]
            body = {"queries": [query.text for query in asked], "topk": TOPK}
            result = http.post("/retrieve", json=body).raise_for_status().json()["result"]
            for query, documents in zip(asked, result, strict=True):
                values.append(ndcg([document["id"] for document in documents], query.relevant))
    return mean(values)
