"""Conversations with a chat endpoint: requests and records."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from services.contracts.rollouts.multi_turn import MultiTurn
from services.contracts.rollouts.trajectories import CallOutcome, FinishReason, Trajectory
from services.contracts.sampling import Sampling
from services.inference.chat_answers import TokenUsage, ToolCall
from services.inference.clients.chat import ChatCompletion, ChatRequest, InferenceClient
from services.inference.clients.retries import FailureKind, ServiceFailed
from services.rollouts.log.parquet import write_parquet
from services.rollouts.loop import Rollouts
from services.rollouts.models.messages import MessageModel
from tests.support.evaluation.trajectory_files import read_parquet
from tests.support.rollouts import FunctionToolbox, echo, question
from tests.support.virtual_time import run_in_virtual_time

USAGE = TokenUsage(prompt=30, completion=10)


def said(
    text: str | None = None,
    *calls: tuple[str, str],
    usage: TokenUsage | None = USAGE,
    finish_reason: str = "stop",
) -> ChatCompletion:
    """A turn with calls of a name and arguments as text."""
    made = tuple(ToolCall(f"call-{n}", *call) for n, call in enumerate(calls))
    return ChatCompletion(text, finish_reason, usage, made, 0.1, 1)


def echoing(text: str) -> tuple[str, str]:
    return "echo", json.dumps({"text": text})


class ScriptedClient(InferenceClient):
    """Gives the answer that ``script`` has for the number of requests before this one."""

    def __init__(self, script: Callable[[int], ChatCompletion | ServiceFailed]) -> None:
        self.script = script
        self.requests: list[ChatRequest] = []

    async def chat(
        self, request: ChatRequest, *, keep: Callable[[bytes], None] | None = None
    ) -> ChatCompletion:
        self.requests.append(request)
        answer = self.script(len(self.requests) - 1)
        if isinstance(answer, ServiceFailed):
            raise answer
        return answer


def in_turn(*answers: ChatCompletion | ServiceFailed) -> ScriptedClient:
    return ScriptedClient(lambda number: answers[number])


def play(
    client: ScriptedClient,
    *,
    seed: int | None = 0,
    sampling: Mapping[str, Any] | None = None,
    variables: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Trajectory:
    multi_turn = MultiTurn.model_validate({"multi_turn_enable": True, **settings})
    given = Sampling.model_validate({"max_tokens": 100, **(sampling or {})})
    model = MessageModel(client, "m", multi_turn, given, dict(variables or {}))
    rollouts = Rollouts(model, FunctionToolbox({"echo": echo}), multi_turn)
    return run_in_virtual_time(rollouts.play(question(), seed=seed))


def test_calls_are_run_and_their_replies_are_sent_back() -> None:
    client = in_turn(said("Let me see.", echoing("a")), said("It is a."))

    trajectory = play(client)

    first, second = client.requests
    assert first.messages == [{"role": "user", "content": "q"}]
    assert [tool["function"]["name"] for tool in first.tools or []] == ["echo"]
    function = {"name": "echo", "arguments": '{"text": "a"}'}
    assert second.messages[1:] == [
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [{"id": "call-0", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call-0", "content": "a"},
    ]
    assert trajectory.finish_reason is FinishReason.ANSWERED
    assert [turn.text for turn in trajectory.turns] == ["Let me see.", "It is a."]
    (call,) = trajectory.turns[0].calls
    assert (call.name, call.outcome, call.shown) == ("echo", CallOutcome.ANSWERED, "a")


def test_a_trajectory_without_token_ids_has_their_numbers(tmp_path: Path) -> None:
    trajectory = play(in_turn(said(None, echoing("abcdefgh")), said("done")))

    assert (trajectory.prompt_token_ids, trajectory.response_token_ids) == ([], [])
    assert (trajectory.prompt_tokens, trajectory.sampled_tokens) == (30, 20)
    assert trajectory.response_tokens == 22  # eight characters of a reply are about two tokens
    write_parquet([trajectory], tmp_path / "x.parquet")
    assert read_parquet(tmp_path / "x.parquet") == [trajectory]


def test_unexecuted_calls_are_not_sent_back() -> None:
    client = in_turn(said(None, echoing("a"), echoing("b")), said("done"))

    trajectory = play(client, max_parallel_calls=1)

    assert len(client.requests[1].messages[1]["tool_calls"]) == 1
    assert [message["role"] for message in client.requests[1].messages[1:]] == ["assistant", "tool"]
    outcomes = [call.outcome for call in trajectory.turns[0].calls]
    assert outcomes == [CallOutcome.ANSWERED, CallOutcome.DROPPED]


@pytest.mark.parametrize("arguments", ["{", "[1]", '{"a": NaN}'])
def test_unreadable_arguments_are_an_error_that_the_model_reads(arguments: str) -> None:
    client = in_turn(said(None, ("echo", arguments)), said("done"))

    trajectory = play(client)

    (call,) = trajectory.turns[0].calls
    assert (call.arguments, call.outcome) == (None, CallOutcome.INVALID_ARGUMENTS)
    assistant, reply = client.requests[1].messages[1:]
    assert assistant["tool_calls"][0]["function"]["arguments"] == "{}"
    assert reply["content"] == "Error: no JSON object"


def test_a_call_without_arguments_may_have_an_empty_text() -> None:
    trajectory = play(in_turn(said(None, ("echo", "")), said("done")))

    assert trajectory.turns[0].calls[0].arguments == {}
    assert trajectory.turns[0].calls[0].outcome is CallOutcome.ANSWERED


def test_each_turn_may_take_what_is_left_of_the_response() -> None:
    client = in_turn(said(None, echoing("abcd")), said("done"))

    play(client, max_total_response_length=500)

    assert [request.max_tokens for request in client.requests] == [500, 500 - 10 - 1]


def test_a_reply_that_does_not_fit_ends_the_conversation() -> None:
    client = in_turn(said(None, echoing("x" * 400)))

    trajectory = play(client, max_tool_response_length=1000)

    assert trajectory.finish_reason is FinishReason.REPLY_TOO_LONG
    assert trajectory.turns[0].calls[0].shown is None


def test_a_model_that_calls_forever_is_stopped_without_counts_of_tokens() -> None:
    client = ScriptedClient(lambda _: said(None, ("echo", "{}"), usage=None))

    trajectory = play(client)

    assert trajectory.finish_reason in {FinishReason.LENGTH, FinishReason.REPLY_TOO_LONG}
    assert len(client.requests) <= 100


def test_a_turn_cut_by_its_length_is_recorded_as_such() -> None:
    trajectory = play(in_turn(said("It is", finish_reason="length")))

    assert trajectory.finish_reason is FinishReason.LENGTH


def test_a_failure_of_the_endpoint_keeps_its_status() -> None:
    refused = ServiceFailed("HTTP 401: wrong key", FailureKind.STATUS, status=401)

    trajectory = play(in_turn(said(None, echoing("a")), refused))

    assert trajectory.finish_reason is FinishReason.ENGINE_FAILED
    assert (trajectory.status_code, trajectory.error) == (401, "HTTP 401: wrong key")
    assert len(trajectory.turns) == 1


def test_every_turn_has_its_own_seed() -> None:
    client = in_turn(said(None, echoing("a")), said("done"))
    unseeded = in_turn(said("done"))

    play(client, seed=7)
    play(unseeded, seed=None)

    seeds = [request.seed for request in client.requests]
    assert len(set(seeds)) == 2
    assert all(seed is not None and 0 <= seed < 2**31 for seed in seeds)
    assert unseeded.requests[0].seed is None


def test_sampling_and_variables_of_the_template_are_sent() -> None:
    client = in_turn(said("done"))

    play(
        client,
        sampling={"temperature": 0.5, "top_k": 4, "presence_penalty": 0.25},
        variables={"enable_thinking": False},
    )

    (request,) = client.requests
    assert (request.temperature, request.top_k, request.presence_penalty) == (0.5, 4, 0.25)
    assert request.chat_template_kwargs == {"enable_thinking": False}
