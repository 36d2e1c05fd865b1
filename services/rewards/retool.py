"""ReTool's reward."""

from services.contracts.rewards import RetoolReward
from services.rewards.answers import final_box, last_box
from services.rewards.component import RewardFailed, Score
from services.rewards.mathematics.equality import Equality
from services.rewards.sample import Sample

CHARACTERS = 300
STRICT_CHARACTERS = 100
LONGEST_CAPPED = -0.6


class Retool:
    """1 for a right box at the end of what the model wrote; see `RetoolReward` for the rest."""

    def __init__(self, settings: RetoolReward, mathematics: Equality | None) -> None:
        self._settings = settings
        self._mathematics = mathematics

    async def score(self, sample: Sample) -> Score:
        """Judge the last box of the model's own text."""
        if not sample.gold:
            raise RewardFailed("its row has no right answer (gold)")
        if await self._is_right(sample):
            return Score(1.0)
        if self._settings.plain:
            return Score(-1.0)
        if self._settings.cap:
            turns = len(sample.texts) + sample.tool_turns
            return Score(min(LONGEST_CAPPED, -1.0 + max(0, turns - 1) / 20))
        return Score(min(0.0, -1.0 + sample.tool_turns / 10))

    async def _is_right(self, sample: Sample) -> bool:
        if self._settings.strict:
            return final_box(sample.texts, STRICT_CHARACTERS) in sample.gold
        box = last_box(sample.texts, CHARACTERS)
        if box is None:
            return False
        if box.strip() in {gold.strip() for gold in sample.gold}:
            return True
        if self._mathematics is None:
            return False
        return await self._mathematics.any_equal(sample.gold, box)
