"""Tools that search passages: SearchTool."""

import json
import math
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeGuard

from services.contracts.base import JsonObject
from services.contracts.rollouts.tool_runs import (
    KEPT_NAME_CHARACTERS,
    KEPT_PASSAGE_CHARACTERS,
    KEPT_PASSAGES,
    KEPT_QUERIES,
    Passage,
    QueryHits,
    SearchRun,
)
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import FailureKind, Retries, ServiceFailed
from services.parsing.foreign_json import parse_foreign, storable_text
from services.rollouts.tools.base import (
    ToolError,
    ToolResult,
    bad_arguments,
    request_failure,
    service_error,
)
from services.rollouts.tools.configuration import SearchConfig
from services.rollouts.tools.endpoints import ToolEndpoint

NO_RESULTS = "No search results found."
BETWEEN_QUERIES = "\n---\n"
ATTEMPTS = 6


def search_service(target: ToolEndpoint, config: SearchConfig) -> JsonService:
    """The connection to a retrieval service. Searching is idempotent: transient failures are
    retried for up to three timeouts."""
    retries = Retries(
        attempts=ATTEMPTS,
        deadline_seconds=3 * config.timeout,
        statuses=frozenset({429, 500, 502, 503, 504}),
        kinds=frozenset({FailureKind.BROKEN_OFF, FailureKind.TIMED_OUT, FailureKind.UNREADABLE}),
    )
    return JsonService(
        target.url,
        target.api_key,
        timeout=config.timeout,
        retries=retries,
        connections=config.max_in_flight,
        direct=target.own,
    )


class SearchTool:
    """Searches for each query of the argument ``query_list``.

    The reply, errors included, is a JSON object with the text in ``result``. ``own`` is recorded
    with each search.
    """

    idempotent = True

    def __init__(self, service: JsonService, config: SearchConfig, *, own: bool) -> None:
        self._service = service
        self._own = own
        self._options: JsonObject = {"topk": config.topk, "return_scores": True}
        if config.index is not None:
            self._options["index"] = config.index

    async def run(self, arguments: JsonObject) -> ToolResult:
        """The passages; raises `ToolError`."""
        try:
            return await self._search(arguments.get("query_list"))
        except ToolError as fault:
            fault.text = _result(fault.text)
            raise

    async def probe(self) -> None:
        """Search; a missing index is an error."""
        await self.run({"query_list": ["test"]})

    async def _search(self, queries: object) -> ToolResult:
        if not _is_list_of_texts(queries):
            raise bad_arguments("'query_list' must be a list of at least one string.")
        body = {"queries": queries, **self._options}
        try:
            answer = await self._service.post(body, partial(_hits, len(queries)))
        except ServiceFailed as failed:
            raise service_error(failed, self._run(queries, [], failed)) from failed
        text = BETWEEN_QUERIES.join(_rendered(hits) for hits in answer.value) or NO_RESULTS
        searched = self._run(queries, answer.value)
        return ToolResult(_result(text), answer.attempts, searched)

    def _run(
        self, queries: list[str], found: list[list["_Hit"]], failed: ServiceFailed | None = None
    ) -> SearchRun:
        hits_of_each = found or [[] for _ in queries]
        return SearchRun(
            index=self._options.get("index"),
            own=self._own,
            topk=self._options["topk"],
            queries=[
                _kept(query, hits)
                for query, hits in zip(queries[:KEPT_QUERIES], hits_of_each, strict=False)
            ],
            failure=None if failed is None else request_failure(failed),
        )


def _is_list_of_texts(queries: object) -> TypeGuard[list[str]]:
    return (
        isinstance(queries, list)
        and len(queries) > 0
        and all(isinstance(query, str) for query in queries)
    )


@dataclass(frozen=True)
class _Hit:
    """A passage that was found."""

    id: str | None
    score: float | None
    title: str
    text: str


def _hits(queries: int, body: bytes) -> list[list[_Hit]]:
    """The passages of each query; raises ``ValueError`` for a malformed answer."""
    answer: Any = parse_foreign(body)
    result = answer.get("result") if isinstance(answer, dict) else None
    if not isinstance(result, list) or not all(isinstance(hits, list) for hits in result):
        raise ValueError("it has no list of lists as its result")
    if len(result) not in {queries, 0}:
        raise ValueError(f"it has {len(result)} results for {queries} queries")
    return [[_hit(hit) for hit in hits] for hits in result]


def _hit(hit: Any) -> _Hit:
    document = hit.get("document", hit) if isinstance(hit, dict) else None
    if not isinstance(document, dict):
        raise ValueError("a hit has no document")
    contents = document.get("contents")
    if isinstance(contents, str):
        title, _, text = contents.partition("\n")
    else:
        title, text = str(document.get("title", "")), str(document.get("text", ""))
    known, score = document.get("id"), hit.get("score")
    is_number = isinstance(score, int | float) and math.isfinite(score)
    return _Hit(
        id=None if known is None else str(known),
        score=float(score) if is_number else None,
        title=title,
        text=text,
    )


def _rendered(hits: list[_Hit]) -> str:
    passages = [f"Doc {n} (Title: {hit.title})\n{hit.text}\n\n" for n, hit in enumerate(hits, 1)]
    return "".join(passages).strip() or NO_RESULTS


def _kept(query: str, hits: list[_Hit]) -> QueryHits:
    passages = [
        Passage(
            id=None if hit.id is None else storable_text(hit.id[:KEPT_NAME_CHARACTERS]),
            score=hit.score,
            title=storable_text(hit.title[:KEPT_NAME_CHARACTERS]),
            text=storable_text(hit.text[:KEPT_PASSAGE_CHARACTERS]),
        )
        for hit in hits[:KEPT_PASSAGES]
    ]
    query = storable_text(query[:KEPT_PASSAGE_CHARACTERS])
    return QueryHits(query=query, found=len(hits), passages=passages)


def _result(text: str) -> str:
    return json.dumps({"result": text}, ensure_ascii=False)
