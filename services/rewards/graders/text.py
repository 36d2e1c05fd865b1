"""Graders that compare two texts: OpenAI's string_check and text_similarity."""

import asyncio

from rapidfuzz import fuzz

from services.contracts.rewards.openai_graders import StringCheckGrader, TextSimilarityGrader
from services.rewards.graders.similarity import bleu, gleu, meteor, rouge_l, rouge_n, words_of
from services.rewards.graders.template import render
from services.rewards.interface import RewardFailed, Sample, Score


class StringCheck:
    """1 when the comparison holds, else 0."""

    def __init__(self, settings: StringCheckGrader) -> None:
        self._settings = settings

    async def score(self, sample: Sample) -> Score:
        """Render both templates and compare them."""
        given = render(self._settings.input, sample)
        reference = render(self._settings.reference, sample)
        match self._settings.operation:
            case "eq":
                holds = given == reference
            case "ne":
                holds = given != reference
            case "like":
                holds = reference in given
            case "ilike":
                holds = reference.casefold() in given.casefold()
        return Score(float(holds))


MAX_CHARACTERS = 100_000
"""Maximum characters per text: the comparison takes time proportional to the product of both
lengths."""


class TextSimilarity:
    """A metric of two texts."""

    def __init__(self, settings: TextSimilarityGrader) -> None:
        self._settings = settings

    async def score(self, sample: Sample) -> Score:
        """Render both templates and compare them."""
        given = render(self._settings.input, sample)
        reference = render(self._settings.reference, sample)
        if max(len(given), len(reference)) > MAX_CHARACTERS:
            raise RewardFailed(f"texts longer than {MAX_CHARACTERS} characters are not compared")
        metric = self._settings.evaluation_metric
        return Score(await asyncio.to_thread(similarity, metric, given, reference))


def similarity(metric: str, given: str, reference: str) -> float:
    """The similarity of two texts by a metric of `TextSimilarityGrader`, from 0 to 1."""
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
