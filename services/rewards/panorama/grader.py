"""Grades PANORAMA's answers, and counts the numerators and denominators of its scores."""

from collections.abc import Mapping

from services.contracts.errors import InvalidRequest
from services.contracts.rewards.graders import PanoramaGrader
from services.metrics.extraction import ExtractionOutcome, extract_json, has_path
from services.rewards.interface import RewardFailed, Sample, Score
from services.rewards.panorama.rows import CODES, Question, key_of, read_question

UNPARSED = "unparsed"
"""The class of answers that state none."""
CLASSES = (*CODES, UNPARSED)


class Panorama:
    """1 for exactly the right options or code, else 0.

    Only the answer in the JSON counts: without JSON it is wrong.
    """

    def __init__(self, settings: PanoramaGrader) -> None:
        self._task = settings.task
        self._is_fork = settings.metrics == "fork"

    async def score(self, sample: Sample) -> Score:
        """Grade an answer; raises `RewardFailed` for a row without a right one."""
        try:
            question = read_question(sample.item, sample.gold, self._task)
        except InvalidRequest as error:
            raise RewardFailed(f"the row's {error.param}: {error.message}") from None
        answer = _answer(sample.answer, "code" if self._task == "noc4pc" else "answer")
        chosen = answer or frozenset()
        if self._task == "par4pc":
            retrieved = _retrieved_by_fork if self._is_fork else _retrieved
            value, measures = float(chosen == question.gold), retrieved(chosen, question)
        elif self._task == "pi4pc":
            value, measures = _identified(chosen, question)
        else:
            value, measures = float(chosen == question.gold), _examined(chosen, question)
            if self._is_fork and answer is None:
                measures = {}
        extracted = None if answer is None else ", ".join(sorted(answer))
        return Score(value, extracted=extracted, group=self._task, measures=measures)


def _answer(text: str, key: str) -> frozenset[str] | None:
    found = extract_json(text, fits=has_path(key))
    if found.outcome is not ExtractionOutcome.PARSED or not isinstance(found.value, dict):
        return None
    stated = found.value.get(key)
    keys = [key_of(each) for each in (stated if isinstance(stated, list) else [stated])]
    return None if None in keys else frozenset(str(each) for each in keys)


def _retrieved(chosen: frozenset[str], question: Question) -> Mapping[str, float]:
    """Two points for each right option, one lost for each that is missing, and one for each that
    is neither right nor half right; never below 0."""
    gold = question.gold
    right = len(chosen & gold)
    points = 2 * right - len(chosen - gold - question.silver) - len(gold - chosen)
    return {
        "points": float(max(0, points)),
        "possible_points": 2.0 * len(gold),
        "f1": 2 * right / (len(chosen) + len(gold)),
    }


def _retrieved_by_fork(chosen: frozenset[str], question: Question) -> Mapping[str, float]:
    """Points if no option were half right, and the terms of the F1 of all options."""
    gold = question.gold
    points = _retrieved(chosen, Question(gold))
    return {
        "points": points["points"],
        "possible_points": points["possible_points"],
        "twice_right": 2.0 * len(chosen & gold),
        "counted": float(len(chosen) + len(gold)),
    }


def _identified(chosen: frozenset[str], question: Question) -> tuple[float, Mapping[str, float]]:
    """One paragraph is expected: 2 points for a right one, 1 for one that is half right."""
    is_one = len(chosen) == 1
    hit = float(is_one and chosen <= question.gold)
    points = 2 * hit or float(is_one and chosen <= question.silver)
    return hit, {"points": points, "possible_points": 2.0, "gold_hit_rate": hit}


def _examined(chosen: frozenset[str], question: Question) -> Mapping[str, float]:
    """The terms of each code's F1: twice the right answers, and the answers plus claims. An answer
    without a code has a class of its own, which no claim has."""
    is_parsed = any(chosen == {code} for code in CODES)
    measures = {f"twice_right_{UNPARSED}": 0.0, f"counted_{UNPARSED}": float(not is_parsed)}
    for code in CODES:
        is_chosen, is_gold = chosen == {code}, code in question.gold
        measures[f"twice_right_{code}"] = 2.0 * (is_chosen and is_gold)
        measures[f"counted_{code}"] = float(is_chosen) + float(is_gold)
    return measures
