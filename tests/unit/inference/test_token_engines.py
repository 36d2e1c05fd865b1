"""Tokens in, tokens out: from our own vLLM server and from any other."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import pytest

from services.contracts.failures import InfrastructureCause
from services.inference.causes import cause_of
from services.inference.clients.retries import model_retries
from services.inference.token_engine import CompletionsTokenEngine, VllmTokenEngine
from services.inference.token_engine.base import EngineFailed, SampledTokens, TurnSampling
from services.inference.token_engine.vllm import TEXTS_AT_ONCE
from tests.unit.inference.scripted_server import (
    ScriptedServer,
    answer,
    break_off,
    reset,
    running_server,
)

Engine = VllmTokenEngine | CompletionsTokenEngine
Kind = type[VllmTokenEngine] | type[CompletionsTokenEngine]
Result = TypeVar("Result")

BOTH = pytest.mark.parametrize("kind", [VllmTokenEngine, CompletionsTokenEngine])
SOON = model_retries(attempts=3, deadline_seconds=60, first_wait_seconds=0.001)
TURN = TurnSampling(
    max_tokens=5, temperature=0.7, top_p=0.9, top_k=40, min_p=0.1, stop=("end",), seed=3
)
IDS, LOG_PROBS = [7, 8, 9], [-0.5, -1.5, -2.5]
PLACES = [
    None,
    {"2": {"logprob": -3.0, "rank": 9}, "5": {"logprob": -0.1, "rank": 1}},
    {"5": {"logprob": -2.0, "rank": 2}, "3": {"logprob": -1.0, "rank": 1}},
]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with running_server() as scripted:
        yield scripted


def of_vllm(**changes: Any) -> dict[str, Any]:
    choice = {
        "token_ids": IDS,
        "finish_reason": "stop",
        "logprobs": {"content": [{"token_id": 0, "logprob": p} for p in LOG_PROBS]},
        "weight_versions": [
            {"version": "default", "start": 0, "end": 1},
            {"version": "4", "start": 1, "end": 3},
        ],
    }
    return {"choices": [choice | changes], "prompt_logprobs": PLACES}


def of_completions(**changes: Any) -> dict[str, Any]:
    choice = {
        "text": "",
        "token_ids": IDS,
        "finish_reason": "stop",
        "logprobs": {"token_logprobs": LOG_PROBS},
        "prompt_logprobs": PLACES,
    }
    return {"choices": [choice | changes]}


def answered(kind: Kind, **changes: Any) -> dict[str, Any]:
    return of_vllm(**changes) if kind is VllmTokenEngine else of_completions(**changes)


def ask(
    server: ScriptedServer, kind: Kind, question: Callable[[Engine], Awaitable[Result]]
) -> Result:
    async def run() -> Result:
        async with kind(server.url, "sk-secret", "m", retries=SOON, policy_version=2) as engine:
            return await question(engine)

    return asyncio.run(run())


def told(engine: Engine, ids: list[int]) -> Awaitable[dict[int, str]]:
    assert isinstance(engine, CompletionsTokenEngine)
    return engine.token_texts(ids)


def generate(server: ScriptedServer, kind: Kind) -> SampledTokens:
    return ask(server, kind, lambda engine: engine.generate([1, 2], TURN))


def failure(server: ScriptedServer, kind: Kind) -> EngineFailed:
    with pytest.raises(EngineFailed) as caught:
        generate(server, kind)
    return caught.value


def test_each_token_records_the_version_that_sampled_it(server: ScriptedServer) -> None:
    server.script = [answer(body=of_vllm())]

    sampled = generate(server, VllmTokenEngine)

    assert sampled == SampledTokens((7, 8, 9), (-0.5, -1.5, -2.5), (2, 4, 4), "stop")


def test_an_external_server_has_a_single_version(server: ScriptedServer) -> None:
    server.script = [answer(body=of_completions())]

    sampled = generate(server, CompletionsTokenEngine)

    assert sampled == SampledTokens((7, 8, 9), (-0.5, -1.5, -2.5), (2, 2, 2), "stop")


@BOTH
def test_all_sampling_fields_are_sent(server: ScriptedServer, kind: Kind) -> None:
    server.script = [answer(body=answered(kind))]

    generate(server, kind)

    headers, body = server.requests[0]
    assert headers["authorization"] == "Bearer sk-secret"
    assert body.get("token_ids") or body["prompt"] == [1, 2]
    fields = body.get("sampling_params", body)
    expected = {
        "max_tokens": 5,
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.1,
        "repetition_penalty": 1.0,
        "stop": ["end"],
        "stop_token_ids": [],
        "seed": 3,
        "logprobs": 0,
    }
    assert expected.items() <= fields.items()


@BOTH
@pytest.mark.parametrize(
    "bad_response", [reset, break_off, answer(503, {}), answer(200, b"<html>")]
)
def test_transient_failures_are_retried(
    server: ScriptedServer, kind: Kind, bad_response: Any
) -> None:
    server.script = [bad_response, answer(body=answered(kind))]

    assert generate(server, kind).token_ids == (7, 8, 9)


@BOTH
def test_a_turn_that_the_server_aborted_is_asked_for_again(
    server: ScriptedServer, kind: Kind
) -> None:
    aborted = answer(body=answered(kind, finish_reason="abort"))
    server.script = [aborted, answer(body=answered(kind))]
    assert generate(server, kind).finish_reason == "stop"

    server.script = [aborted]
    assert cause_of(failure(server, kind)) is InfrastructureCause.RESET


@BOTH
@pytest.mark.parametrize(
    "changes",
    [
        {"token_ids": [7, 8]},
        {"token_ids": [7, 8, -1]},
        {"token_ids": [7, 8, 2**31]},
        {"finish_reason": "error"},
    ],
)
def test_an_inconsistent_response_is_a_failure(
    server: ScriptedServer, kind: Kind, changes: dict[str, Any]
) -> None:
    server.script = [answer(body=answered(kind, **changes))]

    assert "gave an answer that cannot be read" in failure(server, kind).message


@BOTH
@pytest.mark.parametrize("missing", [-9999.0, None])
def test_a_token_without_a_probability_is_a_failure(
    server: ScriptedServer, kind: Kind, missing: float | None
) -> None:
    values = [-0.5, missing, -1.0]
    content = {"content": [{"logprob": value} for value in values], "token_logprobs": values}
    server.script = [answer(body=answered(kind, logprobs=content))]

    assert failure(server, kind).code == "engine_failed"


@pytest.mark.parametrize(
    "spans",
    [
        None,
        [{"version": "1", "start": 0, "end": 2}],
        [{"version": "1", "start": 1, "end": 3}],
        [{"version": "one", "start": 0, "end": 3}],
    ],
)
def test_a_token_without_a_version_is_a_failure(server: ScriptedServer, spans: Any) -> None:
    server.script = [answer(body=of_vllm(weight_versions=spans))]

    failure(server, VllmTokenEngine)


@pytest.mark.parametrize("missing", ["token_ids", "logprobs"])
def test_a_server_without_token_ids_fails_without_a_retry(
    server: ScriptedServer, missing: str
) -> None:
    server.script = [answer(body=of_completions(**{missing: None}))]

    error = failure(server, CompletionsTokenEngine)

    assert error.code == "engine_without_token_ids"
    assert "return_token_ids" in error.message
    assert len(server.requests) == 1


@BOTH
def test_the_api_key_is_redacted_from_errors(server: ScriptedServer, kind: Kind) -> None:
    server.script = [answer(400, {"error": {"message": "too long for sk-secret"}})]

    assert "too long for ***" in failure(server, kind).message


@BOTH
def test_prompt_log_probs_include_the_top_tokens_and_the_prompts_own(
    server: ScriptedServer, kind: Kind
) -> None:
    server.script = [answer(body=answered(kind))]

    scored = ask(server, kind, lambda engine: engine.prompt_log_probs([1, 2, 3], 2))

    np.testing.assert_allclose(scored.tokens, [-3.0, -1.0])
    assert scored.top_ids.tolist() == [[5, 2], [3, 5]]
    np.testing.assert_allclose(scored.top_log_probs, [[-0.1, -3.0], [-1.0, -2.0]])


@BOTH
@pytest.mark.parametrize("prompt", [[1, 2], [1, 2, 4], [1, 2, 3, 3]])
def test_log_probs_of_another_prompt_are_a_failure(
    server: ScriptedServer, kind: Kind, prompt: list[int]
) -> None:
    server.script = [answer(body=answered(kind))]

    with pytest.raises(EngineFailed):
        ask(server, kind, lambda engine: engine.prompt_log_probs(prompt, 2))


def test_an_external_server_tells_the_texts_of_all_tokens_it_is_asked_for(
    server: ScriptedServer,
) -> None:
    def places(ids: list[int]) -> list[Any]:
        told = [{str(each): {"logprob": -1.0, "decoded_token": f"w{each}"}} for each in ids]
        return [None, *told]

    ids = list(range(TEXTS_AT_ONCE + 2))
    server.script = [
        answer(body=of_completions(prompt_logprobs=places(ids[:TEXTS_AT_ONCE]))),
        answer(body=of_completions(prompt_logprobs=places(ids[TEXTS_AT_ONCE:]))),
    ]

    texts = ask(server, CompletionsTokenEngine, lambda engine: told(engine, ids))

    assert texts == {each: f"w{each}" for each in ids}
    sent = [body["prompt"] for _, body in server.requests]
    assert sent == [[0, *ids[:TEXTS_AT_ONCE]], [0, *ids[TEXTS_AT_ONCE:]]]


def test_a_server_that_tells_no_texts_of_tokens_tells_nothing(server: ScriptedServer) -> None:
    server.script = [answer(body=of_completions())]

    texts = ask(server, CompletionsTokenEngine, lambda engine: told(engine, [1, 2]))

    assert texts == {}
