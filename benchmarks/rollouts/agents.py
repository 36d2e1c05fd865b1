"""Cost of an agent's endpoint relative to Temper's own loop, on the same conversations.

    python -m benchmarks.rollouts.agents

The engine's output is scripted and has the pace of a busy card; tools answer at once. The agent is
a process of its own, which holds all its sessions at the same time and speaks plain HTTP; so it
costs the endpoint requests, and no more than that. Prints, per round, the time of all conversations
by the agent beside the loop's, and at the end the median, the endpoint's CPU time of a turn, and
the bytes that are recorded of a token.
"""

import argparse
import asyncio
import ssl
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from benchmarks.rollouts.conversations import SCHEMA, Conversation, drawn
from benchmarks.rollouts.engines import FixedRate, Pace, ScriptedEngine
from benchmarks.rollouts.runner import SAMPLING, SETTINGS, Stage, Timing, for_each, play, timed
from benchmarks.rollouts.tools import REPLY
from benchmarks.serving.server import free_port
from services.contracts.rollouts.agents import HttpAgent
from services.contracts.rollouts.trajectories import FinishReason, Trajectory
from services.core.operator_environment import OperatorEnvironment
from services.datasets.append_log import AppendLog
from services.rollouts.activity import Activity
from services.rollouts.agents.play import open_agent_rollouts
from services.rollouts.agents.session import Policy
from services.rollouts.chat import open_chat_tokens
from services.rollouts.parsers import parser_of
from tests.support.chat_templates.families import FAMILIES

IN_FLIGHT = 256
TOKENS_PER_SECOND = 25.0
"""Of one sequence, with 256 in flight: what one card gives a model of some billion parameters."""
SEED = 7
ROUNDS = 3
GOAL = 0.05
_TRUST = ssl.create_default_context()


def main() -> None:
    """Run the benchmark, or its agent."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rollouts.agents", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        app = Starlette(routes=[Route("/play", _play, methods=["POST"])])
        uvicorn.run(app, host="127.0.0.1", port=given.serve, log_level="warning")
        return
    asyncio.run(_measure())


async def _play(request: Request) -> JSONResponse:
    """The agent: a client for each session, and the same reply to every call."""
    session = await request.json()
    headers = {"authorization": f"Bearer {session['api_key']}"}
    messages = list(session["messages"])
    async with httpx.AsyncClient(timeout=600.0, headers=headers, verify=_TRUST) as http:
        while True:
            body = {"model": session["model"], "messages": messages, "tools": [SCHEMA]}
            answer = await http.post(f"{session['base_url']}/chat/completions", json=body)
            message = answer.raise_for_status().json()["choices"][0]["message"]
            messages.append(message)
            calls = message.get("tool_calls", ())
            if not calls:
                return JSONResponse({})
            for call in calls:
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": REPLY})


async def _measure() -> None:
    with tempfile.TemporaryDirectory(prefix="temper-agents-") as scratch:
        tokenizer = FAMILIES["qwen2_5"].write(Path(scratch))
        stage = Stage(
            open_chat_tokens(tokenizer), tokenizer, IN_FLIGHT, Path(scratch) / "records.jsonl"
        )
        async with _service() as url:
            await _compare(stage, url)


@asynccontextmanager
async def _service() -> AsyncIterator[str]:
    """The URL of the agent, which runs within the block."""
    port = free_port()
    command = ["-m", "benchmarks.rollouts.agents", f"--serve={port}"]
    process = await asyncio.create_subprocess_exec(sys.executable, *command)
    origin = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(retries=10)) as http:
            await http.get(origin, timeout=60.0)
        yield f"{origin}/play"
    finally:
        process.terminate()
        await process.wait()


async def _compare(stage: Stage, url: str) -> None:
    costs, cpu = [], []
    for round_ in range(ROUNDS):
        conversations = [c.without_latency(round_) for c in drawn(2 * IN_FLIGHT, SEED)]
        turns = sum(len(c.turns) for c in conversations)
        loop = await play(conversations, stage, FixedRate(TOKENS_PER_SECOND))
        agent = await _by_agent(conversations, stage, FixedRate(TOKENS_PER_SECOND), url)
        size = stage.records.stat().st_size
        costs.append(agent.seconds / loop.seconds - 1)
        cpu.append(1000 * (agent.cpu_seconds - loop.cpu_seconds) / turns)
        print(
            f"  {agent.seconds:.1f} s by the agent, {loop.seconds:.1f} s in the loop:"
            f" {costs[-1]:+.1%}; {cpu[-1]:+.2f} ms of CPU time a turn",
            flush=True,
        )
    cost = statistics.median(costs)
    print(
        f"{turns} turns of {agent.tokens / turns:.0f} tokens in {len(conversations)} sessions,"
        f" {IN_FLIGHT} at once: the endpoint costs {cost:+.1%}"
        f" (goal {GOAL:.0%}: {'reached' if cost <= GOAL else 'MISSED'}),"
        f" {statistics.median(cpu):.2f} ms of CPU time a turn;"
        f" {size / agent.tokens:.0f} bytes are recorded of a sampled token"
    )


async def _by_agent(
    conversations: Sequence[Conversation], stage: Stage, pace: Pace, url: str
) -> Timing:
    engine = ScriptedEngine(conversations, stage.tokenizer, pace)
    policy = Policy(
        name="policy",
        engine=engine,
        chat=stage.chat,
        parser=parser_of(SETTINGS.tool_parser_format),
        sampling=SAMPLING,
        stop_token_ids=tuple(stage.chat.stop_token_ids),
        budget=SETTINGS.max_total_response_length or SAMPLING.max_tokens,
        context_length=None,
    )
    agent = HttpAgent.model_validate({"url": url})
    environment = OperatorEnvironment()
    stage.records.unlink(missing_ok=True)
    async with open_agent_rollouts(
        agent, policy, environment, concurrency=stage.in_flight, activity=Activity()
    ) as rollouts:
        with AppendLog[Trajectory](stage.records, end=0) as log:

            async def one(conversation: Conversation) -> None:
                played = await rollouts.play(
                    conversation.prompt, trajectory_id=conversation.session
                )
                assert played.finish_reason is FinishReason.ANSWERED, played.error
                assert len(played.turns) == len(conversation.turns)
                log.append(played)

            return await timed(for_each(conversations, one, stage.in_flight), pace)


if __name__ == "__main__":
    main()
