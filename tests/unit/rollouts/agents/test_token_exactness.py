"""Ten thousand recorded turns: no token is made from text a second time."""

import asyncio
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import httpx
import pytest
from tokenizers import Tokenizer

from services.contracts.base import JsonObject
from services.contracts.rollouts.agents import HttpAgent
from services.contracts.rollouts.multi_turn import RolloutSampling
from services.contracts.rollouts.trajectories import Trajectory
from services.inference.token_engine.base import SampledTokens, TurnSampling
from services.rollouts.activity import Activity
from services.rollouts.agents.endpoint import AgentEndpoint, serving
from services.rollouts.agents.play import AgentRollouts
from services.rollouts.agents.session import Policy
from services.rollouts.chat import ChatTokens, open_chat_tokens
from services.rollouts.parsers import parser_of
from tests.support.chat_templates.families import FAMILIES
from tests.support.rollouts import question
from tests.unit.rollouts.agents.agents import FunctionAgent

SESSIONS, TURNS = 250, 40
AT_ONCE = 16
END_OF_TURN = "<|im_end|>"


class Babble:
    """Samples tokens that no tokenizer would choose for their text, some of them half a character.

    ``asked`` has, by session, the tokens up to the end of every turn and those of the turn.
    """

    def __init__(self, vocabulary: int, end: int) -> None:
        self.asked: dict[str, list[tuple[list[int], list[int]]]] = {}
        self._vocabulary = vocabulary
        self._end = end
        self._source = random.Random(0)

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        count = self._source.randint(1, 12)
        ids = (*(self._source.randrange(self._vocabulary) for _ in range(count)), self._end)
        upto = [*token_ids, *ids]
        self.asked.setdefault(sampling.session or "", []).append((upto, list(ids)))
        return SampledTokens(ids, tuple(-1.0 - i for i in range(len(ids))), (0,) * len(ids), "stop")


async def talk(http: httpx.AsyncClient, session: JsonObject) -> JsonObject:
    """A conversation of many turns."""
    messages = list(session["messages"])
    headers = {"authorization": f"Bearer {session['api_key']}"}
    for turn in range(TURNS):
        answer = await http.post(
            f"{session['base_url']}/chat/completions", json={"messages": messages}, headers=headers
        )
        messages.append(answer.json()["choices"][0]["message"])
        messages.append({"role": "user", "content": "go on" if turn % 3 else "  é… weiter\n"})
    return {}


@pytest.mark.timeout(900)
def test_the_ids_of_ten_thousand_turns_are_those_that_the_engine_read_and_sampled(
    tmp_path: Path,
) -> None:
    folder = FAMILIES["qwen2_5"].write(tmp_path)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    chat = open_chat_tokens(folder)
    end, *others = chat.stop_token_ids
    engine = Babble(min(end, *others), end)

    played = asyncio.run(_play(chat, engine))

    turns = sum(len(each) for each in engine.asked.values())
    assert turns == SESSIONS * TURNS == 10_000
    rewritten = 0
    for trajectory in played:
        assert trajectory.agent is not None
        assert (trajectory.agent.model_calls, trajectory.agent.other_sequences) == (TURNS, [])
        recorded = trajectory.prompt_token_ids + trajectory.response_token_ids
        mask = [0] * len(trajectory.prompt_token_ids) + trajectory.response_mask
        for upto, sampled in engine.asked[trajectory.id]:
            assert recorded[: len(upto)] == upto
            assert all(mask[len(upto) - len(sampled) : len(upto)])
            text = tokenizer.decode(sampled, skip_special_tokens=False)
            rewritten += tokenizer.encode(text, add_special_tokens=False).ids != sampled
        assert sum(mask) == sum(len(sampled) for _, sampled in engine.asked[trajectory.id])
    assert rewritten > turns / 2  # what a second tokenization would have changed


async def _play(chat: ChatTokens, engine: Babble) -> list[Trajectory]:
    policy = Policy(
        name="policy",
        engine=engine,
        chat=chat,
        parser=parser_of("hermes"),
        sampling=RolloutSampling(),
        stop_token_ids=tuple(chat.stop_token_ids),
        budget=1_000_000,
        context_length=None,
    )
    endpoint = AgentEndpoint(policy.name)
    agent = HttpAgent.model_validate({"url": "http://127.0.0.1:9/"})
    slots = asyncio.Semaphore(AT_ONCE)
    async with serving(endpoint, "127.0.0.1"), httpx.AsyncClient(timeout=60.0) as http:
        plays = FunctionAgent(partial(talk, http))
        rollouts = AgentRollouts(agent, plays, endpoint, policy, Activity())

        async def one(index: int) -> Trajectory:
            async with slots:
                return await rollouts.play(question(f"Question {index}?", index=index), seed=0)

        return list(await asyncio.gather(*map(one, range(SESSIONS))))
