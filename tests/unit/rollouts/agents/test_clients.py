"""Unmodified clients play a session; what they saw and what is recorded are the same tokens."""

import json
from collections.abc import AsyncIterable
from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from services.contracts.base import JsonObject
from services.contracts.rollouts.trajectories import CallOutcome, FinishReason, Trajectory
from tests.support.rollouts import CharacterChat, saying
from tests.unit.rollouts.agents.agents import CALL, TOOL, play_by

SAID = f"I add.{CALL}", "It is 3.<end>"
WHOLE = "tool:3<end>assistant:It is 3.<end>"
FUNCTION: JsonObject = TOOL["function"]


async def chat(session: JsonObject, *, stream: bool) -> JsonObject:
    client: Any = AsyncOpenAI(
        base_url=session["base_url"], api_key=session["api_key"], max_retries=0
    )
    messages = list(session["messages"])
    while True:
        asked = {"model": session["model"], "messages": messages, "tools": [TOOL]}
        if stream:
            async with client.chat.completions.stream(**asked) as events:
                answer = await events.get_final_completion()
        else:
            answer = await client.chat.completions.create(**asked)
        message = answer.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return {"reward": float(message.content == "It is 3.")}
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": added(call.function.arguments)}
            for call in message.tool_calls
        ]


async def responses(session: JsonObject, *, stream: bool) -> JsonObject:
    client: Any = AsyncOpenAI(
        base_url=session["base_url"], api_key=session["api_key"], max_retries=0
    )
    tool = {"type": "function", "strict": False, **FUNCTION}
    items: list[Any] = list(session["messages"])
    while True:
        asked = {"model": session["model"], "input": items, "tools": [tool]}
        if stream:
            async with client.responses.stream(**asked) as events:
                answer = await events.get_final_response()
        else:
            answer = await client.responses.create(**asked)
        items += [item.model_dump(exclude_none=True) for item in answer.output]
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return {"reward": float(answer.output_text == "It is 3.")}
        items += [
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": added(call.arguments),
            }
            for call in calls
        ]


async def messages(session: JsonObject, *, stream: bool) -> JsonObject:
    from anthropic import AsyncAnthropic  # a second that only this test needs

    base_url = session["base_url"].removesuffix("/v1")
    client: Any = AsyncAnthropic(base_url=base_url, api_key=session["api_key"], max_retries=0)
    tool = {"name": FUNCTION["name"], "input_schema": FUNCTION["parameters"]}
    turns: list[Any] = list(session["messages"])
    while True:
        asked = {
            "model": session["model"],
            "max_tokens": 1000,
            "messages": turns,
            "tools": [tool],
        }
        counted = await client.messages.count_tokens(
            model=session["model"], messages=turns, tools=[tool]
        )
        if stream:
            async with client.messages.stream(**asked) as events:
                answer = await events.get_final_message()
        else:
            answer = await client.messages.create(**asked)
        assert answer.usage.input_tokens == counted.input_tokens
        turns.append({"role": "assistant", "content": [b.model_dump() for b in answer.content]})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if answer.stop_reason != "tool_use":
            return {"reward": float(answer.content[0].text == "It is 3.")}
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call.id,
                "content": added(json.dumps(call.input)),
            }
            for call in calls
        ]
        turns.append({"role": "user", "content": results})


async def framework(session: JsonObject, *, stream: bool) -> JsonObject:
    """An agent of PydanticAI: the loop, the tool's schema and its call are the framework's."""
    provider = OpenAIProvider(base_url=session["base_url"], api_key=session["api_key"])
    agent = Agent(OpenAIChatModel(session["model"], provider=provider))

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        return a + b

    async def read(_context: Any, events: AsyncIterable[object]) -> None:
        async for _ in events:
            pass

    [question] = session["messages"]
    run = await agent.run(question["content"], event_stream_handler=read if stream else None)
    return {"reward": float(run.output == "It is 3.")}


def added(arguments: str) -> str:
    return str(sum(json.loads(arguments).values()))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", [chat, responses, messages, framework])
def test_a_client_plays_a_session_with_a_tool(client: Any, stream: bool) -> None:
    engine = saying(*SAID)

    played = play_by(lambda session: client(session, stream=stream), engine)

    check(played)
    asked, again = (text for text, _ in engine.asked)
    assert again == f"{asked}{SAID[0]}tool:3<end>assistant:"


def check(played: Trajectory) -> None:
    text = CharacterChat().text
    assert played.finish_reason is FinishReason.ANSWERED, played.error
    assert text(played.prompt_token_ids) == "offer:add<end>user:1+2?<end>assistant:"
    assert text(played.response_token_ids) == f"{SAID[0]}{WHOLE}"
    sampled = [
        token
        for token, mask in zip(played.response_token_ids, played.response_mask, strict=True)
        if mask
    ]
    assert text(sampled) == "".join(SAID)
    assert [turn.text for turn in played.turns] == list(SAID)
    [call] = played.turns[0].calls
    assert (call.name, call.arguments, call.reply) == ("add", {"a": 1, "b": 2}, "3")
    assert call.outcome is CallOutcome.ANSWERED
    assert played.agent is not None
    assert (played.agent.reward, played.agent.model_calls) == (1.0, 2)
    assert played.agent.other_sequences == []
