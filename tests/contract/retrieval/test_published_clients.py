"""Search clients of published rollout code, against the running service."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import httpx
import pytest
import requests

from infra.testing.verl import has_verl, verl_folder
from tests.contract.sandbox.verl_modules import verl_importable
from tests.support.search.service import Retrieval

SCHEMA = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Searches passages.",
        "parameters": {
            "type": "object",
            "properties": {"query_list": {"type": "array", "description": "Queries."}},
            "required": ["query_list"],
        },
    },
}
Import = Callable[[str], Any]
Tool = Callable[..., Any]


def _search_r1(url: str, queries: list[str], topk: int = 3) -> list[str]:
    """Render a response as Search-R1's rollout does; it reads result, document and contents."""
    payload: dict[str, Any] = {"queries": queries, "topk": topk, "return_scores": True}
    results = requests.post(f"{url}/retrieve", json=payload, timeout=120).json()["result"]
    rendered = []
    for hits in results:
        text = ""
        for number, hit in enumerate(hits, 1):
            title, _, body = hit["document"]["contents"].partition("\n")
            text += f"Doc {number}(Title: {title}) {body}\n"
        rendered.append(text)
    return rendered


def test_search_r1_renders_the_passages_of_each_query_in_order(library: Retrieval) -> None:
    ships, rivers = _search_r1(library.url, ["steam ships of the Atlantic", "longest river"])

    assert ships.startswith('Doc 1(Title: "Great Western") ')
    assert rivers.startswith('Doc 1(Title: "Nile") ')


@pytest.mark.parametrize("number", [1, 2, 3, 7])
def test_search_r1_without_scores_gets_plain_documents(library: Retrieval, number: int) -> None:
    payload: dict[str, Any] = {"queries": ["river"] * number, "topk": 2}
    result = requests.post(f"{library.url}/retrieve", json=payload, timeout=120).json()["result"]

    assert len(result) == number
    assert all(set(document) >= {"id", "contents"} for hits in result for document in hits)


def test_search_r1_gets_no_duplicates_when_topk_exceeds_the_index(library: Retrieval) -> None:
    payload: dict[str, Any] = {"queries": ["hummingbird"], "topk": 50, "return_scores": True}
    (hits,) = requests.post(f"{library.url}/retrieve", json=payload, timeout=120).json()["result"]

    ids = [hit["document"]["id"] for hit in hits]
    assert 0 < len(ids) == len(set(ids)) < 50


@pytest.fixture(scope="module")
def verl() -> Iterator[Import]:
    if not has_verl():
        pytest.skip("verl has not been fetched; `make dev` says why")
    with verl_importable(verl_folder()) as load:
        sys.modules["ray.actor"] = ModuleType("ray.actor")
        yield load


@pytest.fixture
def tool(verl: Import, library: Retrieval) -> Tool:
    """verl's search tool, built from its configuration."""
    schema = verl("tools.schemas").OpenAIFunctionToolSchema.model_validate(SCHEMA)
    config = {"retrieval_service_url": f"{library.url}/retrieve", "topk": 2, "timeout": 120}
    return verl("tools.search_tool").SearchTool(config, schema)  # type: ignore[no-any-return]  # verl has no types


async def _call_tool(tool: Any, queries: list[str]) -> tuple[str, dict[str, Any]]:
    instance, _ = await tool.create()
    response, _, metrics = await tool.execute(instance, {"query_list": queries})
    await tool.release(instance)
    return json.loads(response.text)["result"], metrics


def test_verl_shows_the_model_titles_and_texts(tool: Any) -> None:
    text, metrics = asyncio.run(_call_tool(tool, ["longest river", "长城"]))

    river, wall = text.split("\n---\n")
    assert river.startswith('Doc 1 (Title: "Nile")\nThe Nile')
    assert wall.startswith('Doc 1 (Title: "长城")\n')
    assert metrics["status"] == "success"
    assert metrics["total_results"] >= 2


def test_verl_gets_an_empty_text_for_a_query_without_hits(tool: Any) -> None:
    text, metrics = asyncio.run(_call_tool(tool, ["qqqqzzzz"]))

    assert (text, metrics["status"], metrics["total_results"]) == ("", "success", 0)


def test_concurrent_verl_calls_get_their_own_answers(tool: Any, library: Retrieval) -> None:
    passages = [passage for passage in library.passages for _ in range(4)]

    async def call_concurrently() -> list[str]:
        calls = [_call_tool(tool, [passage.title]) for passage in passages]
        return [text for text, _ in await asyncio.gather(*calls)]

    for passage, text in zip(passages, asyncio.run(call_concurrently()), strict=True):
        assert text.startswith(f'Doc 1 (Title: "{passage.title}")\n{passage.text}')


def test_a_batch_of_rollouts_keeps_its_order(library: Retrieval) -> None:
    """MindSpeed-RL's tool: 120 workers with a list of queries each."""
    titles = [passage.title for passage in library.passages]

    def call(worker: int) -> list[str]:
        queries = titles[worker % len(titles) :] + titles[: worker % len(titles)]
        body = {"queries": queries, "topk": 1, "return_scores": True}
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        answer = httpx.post(f"{library.url}/retrieve", json=body, headers=headers, timeout=300)
        assert answer.status_code == 200, answer.text
        assert [len(hits) for hits in answer.json()["result"]] == [1] * len(queries)
        found = [hits[0]["document"]["title"] for hits in answer.json()["result"]]
        return [title for title, query in zip(found, queries, strict=True) if title != query]

    with ThreadPoolExecutor(120) as workers:
        wrong = list(workers.map(call, range(120)))

    assert wrong == [[]] * 120
