"""Tools that search: their requests and what the model reads."""

import json
from typing import Any

import pytest

from services.contracts.base import JsonObject
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.rollouts.tool_runs import (
    KEPT_NAME_CHARACTERS,
    KEPT_PASSAGE_CHARACTERS,
    KEPT_PASSAGES,
    KEPT_QUERIES,
)
from services.contracts.rollouts.trajectories import CallOutcome
from services.core.operator_environment import OperatorEnvironment
from services.rollouts.tools import ToolReply
from tests.unit.inference.scripted_server import ScriptedServer, answer, hang, reset
from tests.unit.rollouts.tools.toolboxes import call


def hit(contents: str) -> JsonObject:
    return {"document": {"id": "1", "contents": contents}, "score": 0.5}


def search(server: ScriptedServer, queries: object, **config: Any) -> ToolReply:
    config = {"retrieval_service_url": f"{server.url}/retrieve", **config}
    arguments = {"query_list": queries} if queries is not None else {}
    return call(Tool(class_name="search", config=config), arguments)


def text_of(reply: ToolReply) -> str:
    content = json.loads(reply.text)
    assert list(content) == ["result"]
    return str(content["result"])


def test_passages_are_rendered_per_query(server: ScriptedServer) -> None:
    body = {"result": [[hit('"Nile"\nA river.'), hit('"Po"\nLong\nand 長い.')], [hit('"É"\nx')]]}
    server.script = [answer(body=body)]

    reply = search(server, ["rivers", "é"], topk=2)

    assert server.requests[0][1] == {"queries": ["rivers", "é"], "topk": 2, "return_scores": True}
    assert text_of(reply) == (
        'Doc 1 (Title: "Nile")\nA river.\n\nDoc 2 (Title: "Po")\nLong\nand 長い.'
        '\n---\nDoc 1 (Title: "É")\nx'
    )
    assert "長い" in reply.text


def test_found_passages_are_recorded_with_ids_and_scores(server: ScriptedServer) -> None:
    long = {"document": {"id": 7, "contents": "T" * 999 + "\n" + "x" * 9999}, "score": 0.25}
    bare = {"title": "T", "text": "words \ud800"}
    server.script = [answer(body={"result": [[long, bare], [hit("Po\nx")] * 99, *[[]] * 18]})]

    run = search(server, ["rivers"] * 20, index="wiki", topk=5).run

    assert run is not None
    assert run.type == "search"
    assert (run.index, run.topk, len(run.queries)) == ("wiki", 5, KEPT_QUERIES)
    assert run.own is False
    first, second = run.queries[0].passages
    assert (first.id, first.score) == ("7", 0.25)
    assert (len(first.title), len(first.text)) == (KEPT_NAME_CHARACTERS, KEPT_PASSAGE_CHARACTERS)
    assert (second.id, second.score, second.text) == (None, None, "words \ufffd")
    assert (run.queries[1].found, len(run.queries[1].passages)) == (99, KEPT_PASSAGES)


def test_an_empty_result_is_recorded_with_its_queries(server: ScriptedServer) -> None:
    server.script = [answer(body={"result": []})]

    run = search(server, ["rivers", "seas"]).run

    assert run is not None
    assert run.type == "search"
    assert [(each.query, each.found) for each in run.queries] == [("rivers", 0), ("seas", 0)]


def test_a_failed_search_is_recorded_with_its_queries_and_the_answer(
    server: ScriptedServer,
) -> None:
    server.script = [answer(404, body={"error": {"message": "no index wiki"}})]

    reply = search(server, ["rivers"] * 20, index="wiki", topk=5)

    assert reply.outcome is CallOutcome.FAILED
    run = reply.run
    assert run is not None
    assert run.type == "search"
    assert (run.index, run.topk, len(run.queries)) == ("wiki", 5, KEPT_QUERIES)
    assert (run.queries[0].query, run.queries[0].passages) == ("rivers", [])
    assert run.failure is not None
    assert run.failure.status == 404
    assert "no index wiki" in run.failure.answer


def test_a_search_without_an_answer_is_recorded_with_its_duration(server: ScriptedServer) -> None:
    server.script = [hang]

    run = search(server, ["a"], timeout=0.1).run

    assert run is not None
    assert run.failure is not None
    assert (run.failure.status, run.failure.answer) == (None, "")
    assert run.failure.seconds > 0


def test_documents_without_scores_and_contents_are_rendered(server: ScriptedServer) -> None:
    server.script = [answer(body={"result": [[{"title": "T", "text": "words"}]]})]

    assert text_of(search(server, ["a"])) == "Doc 1 (Title: T)\nwords"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ([], "No search results found."),
        ([[], []], "No search results found.\n---\nNo search results found."),
        ([[], [hit("T\nx")]], "No search results found.\n---\nDoc 1 (Title: T)\nx"),
    ],
)
def test_empty_search_result_is_reported(server: ScriptedServer, result: object, text: str) -> None:
    server.script = [answer(body={"result": result})]

    assert text_of(search(server, ["a", "b"])) == text


def test_the_index_can_be_named(server: ScriptedServer) -> None:
    server.script = [answer(body={"result": [[]]})]

    search(server, ["a"], index="wiki")

    assert server.requests[0][1]["index"] == "wiki"


@pytest.mark.parametrize("queries", [None, [], "a", ["a", 5], {"a": "b"}, [None]])
def test_invalid_queries_send_no_request(server: ScriptedServer, queries: object) -> None:
    reply = search(server, queries)

    assert reply.outcome is CallOutcome.INVALID_ARGUMENTS
    assert text_of(reply).startswith("Error: 'query_list'")
    assert server.requests == []


@pytest.mark.parametrize(
    "bad_response",
    [
        reset,
        *(answer(status, retry_after="0") for status in (500, 502, 503, 504)),
        answer(body={"result": "no list"}),
        answer(body={"result": [[], [], []]}),
        answer(body={"result": [["no document"]]}),
        answer(body=[]),
    ],
)
def test_transient_failures_are_retried(server: ScriptedServer, bad_response: Any) -> None:
    server.script = [bad_response, answer(body={"result": [[hit("T\nx")]]})]

    assert search(server, ["a"]).attempts == 2


def test_a_hanging_service_fails_the_call(server: ScriptedServer) -> None:
    server.script = [hang]

    reply = search(server, ["a"], timeout=0.1)

    assert reply.outcome is CallOutcome.TIMED_OUT
    assert text_of(reply) == "Error: the tool did not answer in time."


def test_the_operators_service_receives_its_key(server: ScriptedServer) -> None:
    origin = server.url.removesuffix("/v1")
    environment = OperatorEnvironment(retrieval_url=origin, retrieval_api_key="sk-own")
    server.script = [answer(body={"result": [[]]})]

    for config in ({}, {"retrieval_service_url": "http://localhost:8080/retrieve"}):
        run = call(Tool(class_name="search", config=config), {"query_list": ["a"]}, environment).run
        assert run is not None
        assert run.type == "search"
        assert run.own is True

    assert {headers["authorization"] for headers, _ in server.requests} == {"Bearer sk-own"}
