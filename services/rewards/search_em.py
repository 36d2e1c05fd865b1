"""Search-R1's exact match."""

import string

from services.contracts.rewards import SearchEmReward
from services.rewards.answers import last_answer, last_box
from services.rewards.component import RewardFailed, Score
from services.rewards.sample import Sample

_ARTICLES = frozenset({"a", "an", "the"})
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


class SearchEm:
    """1 for a right answer, the format score for another one, 0 without any."""

    def __init__(self, settings: SearchEmReward) -> None:
        self._format_score = settings.format_score

    async def score(self, sample: Sample) -> Score:
        """Judge the last answer tag, or the last box where there is none."""
        if not sample.gold:
            raise RewardFailed("its row has no right answer (gold)")
        answer = last_answer(sample.texts)
        if answer is None:
            answer = last_box(sample.texts)
        if answer is None:
            return Score(0.0)
        is_right = any(_same(answer, gold) for gold in sample.gold)
        return Score(1.0 if is_right else self._format_score)


def _same(answer: str, gold: str) -> bool:
    normalised = normalise(gold)
    if normalised:
        return normalise(answer) == normalised
    # "A" and "%" are answers too, although nothing is left of them.
    return answer.strip().lower() == gold.strip().lower()


def normalise(text: str) -> str:
    """SQuAD's normal form: lower case without punctuation and articles, single spaces."""
    words = text.lower().translate(_WITHOUT_PUNCTUATION).split()
    return " ".join(word for word in words if word not in _ARTICLES)
