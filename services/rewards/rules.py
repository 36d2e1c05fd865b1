"""Rule-based rewards: ReTool's and Search-R1's."""

import string

from services.contracts.rewards.rewards import RetoolReward, SearchEmReward
from services.rewards.answers.boxes import final_box, last_answer, last_box, last_boxes
from services.rewards.interface import RewardFailed, Sample, Score
from services.rewards.mathematics.equality import Equality

TAIL_CHARACTERS = 300
STRICT_TAIL_CHARACTERS = 100
MAX_CAPPED = -0.6


class Retool:
    """1 for a correct box at the end of the response; see `RetoolReward`."""

    def __init__(self, settings: RetoolReward, mathematics: Equality | None) -> None:
        self._settings = settings
        self._mathematics = mathematics

    async def score(self, sample: Sample) -> Score:
        """Score the last box of the model's own text."""
        if not sample.gold:
            raise RewardFailed("its row has no gold")
        if await self._is_right(sample):
            return Score(1.0)
        if self._settings.plain:
            return Score(-1.0)
        if self._settings.cap:
            turns = len(sample.texts) + sample.tool_turns
            return Score(min(MAX_CAPPED, -1.0 + max(0, turns - 1) / 20))
        return Score(min(0.0, -1.0 + sample.tool_turns / 10))

    async def _is_right(self, sample: Sample) -> bool:
        if self._settings.strict:
            return final_box(sample.answers, STRICT_TAIL_CHARACTERS) in sample.gold
        found = last_boxes(sample.answers, TAIL_CHARACTERS)
        if not found:
            return False
        golds = {gold.strip() for gold in sample.gold}
        if self._mathematics is None:
            return found[-1].strip() in golds
        box = ", ".join(found).strip()
        return box in golds or await self._mathematics.any_equal(
            sample.gold, box, ordered=self._settings.ordered
        )


_ARTICLES = frozenset({"a", "an", "the"})
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


class SearchEm:
    """1 for a correct answer, the format score for a wrong one, 0 without an answer."""

    def __init__(self, settings: SearchEmReward) -> None:
        self._format_score = settings.format_score

    async def score(self, sample: Sample) -> Score:
        """Score the last answer tag, or else the last box."""
        if not sample.gold:
            raise RewardFailed("its row has no gold")
        answer = last_answer(sample.answers)
        if answer is None:
            answer = last_box(sample.answers)
        if answer is None:
            return Score(0.0)
        is_right = any(_matches(answer, gold) for gold in sample.gold)
        return Score(1.0 if is_right else self._format_score)


def _matches(answer: str, gold: str) -> bool:
    normalized = normalize(gold)
    if normalized:
        return normalize(answer) == normalized
    # "A" and "%" normalize to nothing but are still answers.
    return answer.strip().lower() == gold.strip().lower()


def normalize(text: str) -> str:
    """SQuAD's normal form: lower case without punctuation and articles, single spaces."""
    words = text.lower().translate(_WITHOUT_PUNCTUATION).split()
    return " ".join(word for word in words if word not in _ARTICLES)
