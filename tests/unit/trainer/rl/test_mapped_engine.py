"""A teacher's engine that takes the ids of its student."""

import asyncio
from collections.abc import Sequence

from services.inference.token_engine.base import SampledTokens, TurnSampling
from services.models.tokenizer_ids.id_map import IdMap
from services.trainer.rl.mapped_engine import MappedEngine

IDS = IdMap(student=(0, 1, 2, 3), teacher=(3, 2, 9, 0))


class Written:
    """An engine that answers with given tokens, and remembers what it was asked."""

    def __init__(self, *token_ids: int) -> None:
        self._token_ids = token_ids
        self.asked: list[tuple[Sequence[int], tuple[int, ...]]] = []

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        self.asked.append((token_ids, sampling.stop_token_ids))
        count = len(self._token_ids)
        return SampledTokens(self._token_ids, (-0.5,) * count, (-1,) * count, "stop")


def test_prompts_and_answers_change_their_ids() -> None:
    engine = Written(2, 9, 0)
    asked = TurnSampling(max_tokens=8, stop_token_ids=(3, 77))

    found = asyncio.run(MappedEngine(engine, IDS).generate([0, 2, 1], asked))

    assert engine.asked == [([3, 9, 2], (0,))]
    assert found == SampledTokens((1, 2, 3), (-0.5,) * 3, (-1,) * 3, "stop")


def test_an_answer_ends_before_a_token_that_the_student_lacks() -> None:
    found = asyncio.run(
        MappedEngine(Written(2, 5, 3), IDS).generate([0], TurnSampling(max_tokens=8))
    )

    assert found == SampledTokens((1,), (-0.5,), (-1,), "length")
