"""The grader that measures how alike two texts are."""

import asyncio

from rapidfuzz import fuzz

from services.contracts.graders import TextSimilarityGrader
from services.rewards.component import RewardFailed, Score
from services.rewards.graders.similarity.bleu import bleu, gleu
from services.rewards.graders.similarity.meteor import meteor
from services.rewards.graders.similarity.rouge import rouge_l, rouge_n
from services.rewards.graders.similarity.words import words_of
from services.rewards.graders.template import fill_in
from services.rewards.sample import Sample

LONGEST = 100_000
"""Characters of a text: comparing takes the product of both lengths."""


class TextSimilarity:
    """A metric of two texts."""

    def __init__(self, settings: TextSimilarityGrader) -> None:
        self._settings = settings

    async def score(self, sample: Sample) -> Score:
        """Measure the texts, filled in from the sample."""
        given = fill_in(self._settings.input, sample)
        reference = fill_in(self._settings.reference, sample)
        if max(len(given), len(reference)) > LONGEST:
            raise RewardFailed(f"texts of more than {LONGEST} characters are not compared")
        metric = self._settings.evaluation_metric
        return Score(await asyncio.to_thread(similarity, metric, given, reference))


def similarity(metric: str, given: str, reference: str) -> float:
    """How alike the texts are by a metric of `TextSimilarityGrader`, from 0 to 1."""
    if metric == "fuzzy_match":
        return float(fuzz.ratio(given, reference)) / 100
    words, wanted = words_of(given), words_of(reference)
    match metric:
        case "bleu":
            return bleu(words, wanted)
        case "gleu":
            return gleu(words, wanted)
        case "meteor":
            return meteor(words, wanted)
        case "rouge_l":
            return rouge_l(words, wanted)
    return rouge_n(words, wanted, int(metric.removeprefix("rouge_")))
