"""Agents in tests: functions that play a session on a real endpoint, with a scripted policy."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httpx

from services.contracts.base import JsonObject
from services.contracts.rollouts.agents import HttpAgent
from services.contracts.rollouts.multi_turn import RolloutSampling
from services.contracts.rollouts.trajectories import Trajectory
from services.inference.token_engine.base import TokenEngine
from services.rollouts.activity import Activity
from services.rollouts.agents.endpoint import AgentEndpoint, serving
from services.rollouts.agents.play import AgentRollouts
from services.rollouts.agents.session import Policy
from services.rollouts.parsers import parser_of
from tests.support.rollouts import END, CharacterChat, question

Plays = Callable[[JsonObject], Awaitable[JsonObject]]

TOOL: JsonObject = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {}}},
}
CALL = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call><end>'


class FunctionAgent:
    """An agent that is a coroutine of the test."""

    def __init__(self, plays: Plays) -> None:
        self._plays = plays

    async def play(self, session: JsonObject) -> JsonObject:
        return await self._plays(session)


def play_by(
    plays: Plays,
    engine: TokenEngine,
    *,
    budget: int = 100_000,
    context_length: int | None = None,
    seed: int | None = 0,
    activity: Activity | None = None,
    **limits: Any,
) -> Trajectory:
    """The trajectory of a session on an endpoint of its own."""

    async def play() -> Trajectory:
        policy = Policy(
            name="policy",
            engine=engine,
            chat=CharacterChat(),
            parser=parser_of("hermes"),
            sampling=RolloutSampling(),
            stop_token_ids=(END,),
            budget=budget,
            context_length=context_length,
        )
        endpoint = AgentEndpoint(policy.name)
        agent = HttpAgent.model_validate({"url": "http://127.0.0.1:9/", **limits})
        async with serving(endpoint, "127.0.0.1"):
            seen = activity or Activity()
            rollouts = AgentRollouts(agent, FunctionAgent(plays), endpoint, policy, seen)
            return await rollouts.play(question("1+2?"), seed=seed)

    return asyncio.run(play())


async def asked(
    session: JsonObject, messages: list[JsonObject], *, tools: Any = None, **fields: Any
) -> httpx.Response:
    body = {"messages": messages, **({"tools": tools} if tools else {}), **fields}
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {session['api_key']}"}) as http:
        return await http.post(f"{session['base_url']}/chat/completions", json=body)


async def said(session: JsonObject, messages: list[JsonObject], **fields: Any) -> JsonObject:
    response = await asked(session, messages, **fields)
    assert response.status_code == 200, response.text
    message: JsonObject = response.json()["choices"][0]["message"]
    return message


def user(text: str) -> JsonObject:
    return {"role": "user", "content": text}


def text(tokens: list[int]) -> str:
    return CharacterChat().text(tokens)


def branching(steps: Sequence[tuple[int, str]]) -> Plays:
    """An agent each step of which continues one of the conversations so far with a word."""

    async def plays(session: JsonObject) -> JsonObject:
        histories: list[list[JsonObject]] = [[]]
        for place, word in steps:
            history = [*histories[place % len(histories)], user(word)]
            histories.append([*history, await said(session, history)])
        return {}

    return plays
