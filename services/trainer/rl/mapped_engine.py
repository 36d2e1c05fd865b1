"""An engine whose model numbers its tokens otherwise than those who ask it."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from services.inference.token_engine.base import SampledTokens, TokenEngine, TurnSampling
from services.models.tokenizer_ids.id_map import IdMap


class MappedEngine:
    """A teacher's engine, asked and answering with the ids of its student."""

    def __init__(self, engine: TokenEngine, ids: IdMap) -> None:
        self._engine = engine
        self._to_teacher = ids.to_teacher()
        self._to_student = ids.to_student()

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        """Sample a continuation of ``token_ids``, up to a token that the student lacks; raises
        `EngineFailed`."""
        ends = [
            self._to_teacher[each] for each in sampling.stop_token_ids if each in self._to_teacher
        ]
        asked = [self._to_teacher[each] for each in token_ids]
        found = await self._engine.generate(asked, replace(sampling, stop_token_ids=tuple(ends)))
        known = [
            self._to_student[each]
            for each in takewhile(self._to_student.__contains__, found.token_ids)
        ]
        count = len(known)
        return SampledTokens(
            tuple(known),
            found.log_probs[:count],
            found.policy_versions[:count],
            found.finish_reason if count == len(found.token_ids) else "length",
        )
