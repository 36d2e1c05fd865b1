"""Grades answers about molecules; RDKit runs in killable processes of the runtime ``grading``."""

import typing
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from rapidfuzz.distance import Levenshtein

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.rewards.graders import ChemistryGrader, OracleName
from services.core.process.runtimes import child_environment
from services.core.process.worker_pool import WorkerFailed, WorkerPool, WorkerTimedOut
from services.metrics.extraction import ExtractionOutcome, extract_json
from services.rewards.chemistry.oracles import Oracles
from services.rewards.chemistry.rows import (
    BEST,
    CHOICE,
    COUNT,
    MAX_SMILES,
    SCAFFOLD,
    Question,
    count_of,
    read_question,
    text_of,
)
from services.rewards.graders.similarity import bleu
from services.rewards.interface import RewardFailed, Sample, Score

CHILD = "services.rewards.chemistry.child"
PROCESSES = 2
START_SECONDS = 120.0
SECONDS = 10.0
"""Per answer: RDKit takes milliseconds, but minutes for some structures."""
MAX_ANSWER_BYTES = 1 << 20


class Chemistry:
    """Grades answers by the sub-task of their row. Use it as an async context manager."""

    def __init__(self, settings: ChemistryGrader, python: Path, oracles: Oracles) -> None:
        self._settings = settings
        self._oracles = oracles
        self._is_fork = settings.metrics == "fork"
        self._pool = WorkerPool(
            [str(python), "-m", CHILD, *settings.tasks],
            PROCESSES,
            child_environment({}),
            start_seconds=START_SECONDS,
            max_answer_bytes=MAX_ANSWER_BYTES,
        )

    async def __aenter__(self) -> Self:
        await self._pool.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._pool.__aexit__(*error)

    async def score(self, sample: Sample) -> Score:
        """Grade the JSON after the reasoning; raises `RewardFailed` for a row without a question.

        ``extracted`` is the answer in the JSON, None if there is none. An answer that RDKit cannot
        parse in time counts as not a molecule.
        """
        try:
            question = read_question(sample.item, self._settings)
        except InvalidRequest as error:
            raise RewardFailed(f"the row's {error.param}: {error.message}") from None
        if question.subtask in typing.get_args(OracleName):
            self._oracles.check(question.subtask)
        answer = _answer(sample.answer, question.keys)
        score = await self._graded(question, answer)
        return replace(score, vote=await self._vote(question, score.extracted))

    async def _vote(self, question: Question, extracted: str | None) -> str | None:
        """The canonical SMILES of a molecule, and any other text in lower case."""
        if extracted is None:
            return None
        key = question.keys[0]
        is_text = key in (COUNT, CHOICE) or (question.task == "mol_und" and key != SCAFFOLD)
        found: str | None = (
            None if is_text else await self._asked({"measure": "canonical"}, extracted)
        )
        return extracted.casefold() if is_text else found

    async def _graded(self, question: Question, answer: str | None) -> Score:
        match question.task, question.keys[0]:
            case _, key if key == COUNT:
                return _counted(question, answer, 0 if self._is_fork else None)
            case "mol_edit", _:
                return await self._edited(question, answer)
            case "mol_opt", _:
                return await self._improved(question, answer)
            case _, key if key == SCAFFOLD:
                return await self._similar(question, answer)
            case "reaction", key if key != CHOICE:
                return await self._reacted(question, answer)
        return _compared(question, answer)

    async def _similar(self, question: Question, answer: str | None) -> Score:
        """The similarity of the scaffolds, whose mean is over answers that are molecules."""
        found = await self._asked({"measure": "scaffold", "gold": question.gold}, answer)
        if found is None:
            return _score(question, 0.0, answer, valid=0.0)
        return _score(question, float(found), answer, similarity=float(found), valid=1.0)

    async def _edited(self, question: Question, answer: str | None) -> Score:
        request = {
            "measure": "edit",
            "source": question.source,
            "added": question.added,
            "removed": question.removed,
        }
        found = await self._asked(request, answer)
        if found is None:
            return _score(question, 0.0, answer, valid=0.0)
        return _score(question, float(found), answer, correct_rate=float(found), valid=1.0)

    async def _improved(self, question: Question, answer: str | None) -> Score:
        """1 for an improved molecule; an answer that is not a molecule scores 0 for improvement and
        scaffold."""
        found = await self._improvement(question, answer)
        improvement, same, similarity = found or (0.0, 0.0, 0.0)
        measures = {
            "improvement": improvement,
            "success": float(improvement > 0),
            "best": float(improvement >= BEST[question.subtask]),
            "scaffold_same": same,
            "scaffold_similarity": similarity,
            "valid": float(found is not None),
        }
        return _score(question, measures["success"], answer, **measures)

    async def _improvement(
        self, question: Question, answer: str | None
    ) -> tuple[float, float, float] | None:
        """The improvement over the source, and how far the scaffold is preserved; None for an
        answer that is not a molecule."""
        name, source = question.subtask, question.source
        if name not in typing.get_args(OracleName):
            asked = "plain_logp" if self._is_fork and name == "logp" else name
            request = {"measure": "improvement", "source": source, "property": asked}
            found = await self._asked(request, answer)
            return None if found is None else tuple(found)
        kept = await self._asked({"measure": "scaffolds", "source": source}, answer)
        if kept is None or answer is None:
            return None
        same, similarity = kept
        return await self._oracles.improvement(name, source, answer), same, similarity

    async def _reacted(self, question: Question, answer: str | None) -> Score:
        """1 for the same molecules. An answer that is not a molecule is similar to none, and its
        text is not compared."""
        request = {"measure": "reaction", "gold": question.gold}
        found = await self._asked(request, answer)
        same, rdk, maccs, morgan = found or (0.0, 0.0, 0.0, 0.0)
        measures = {
            "exact_match": same,
            "rdk_similarity": rdk,
            "maccs_similarity": maccs,
            "morgan_similarity": morgan,
            "fts": (rdk + maccs + morgan) / 3,
            "valid": float(found is not None),
        }
        if found is not None and answer is not None:
            measures["bleu"] = bleu(answer, question.gold)
            measures["levenshtein"] = float(Levenshtein.distance(answer, question.gold))
        return _score(question, same, answer, **measures)

    async def _asked(self, request: JsonObject, answer: str | None) -> Any:
        """The child's result for an answer; None if it is not a molecule."""
        if answer is None or len(answer) > MAX_SMILES:
            return None
        try:
            return await self._pool.call({**request, "answer": answer}, SECONDS)
        except WorkerTimedOut:
            return None
        except WorkerFailed as error:
            raise RewardFailed(f"RDKit {error.message}") from error


def _answer(text: str, keys: Sequence[str]) -> str | None:
    def has_one(value: JsonObject) -> bool:
        return any(key in value for key in keys)

    found = extract_json(text, fits=lambda value: isinstance(value, dict) and has_one(value))
    if found.outcome is not ExtractionOutcome.PARSED or not isinstance(found.value, dict):
        return None
    return next((text_of(found.value[key]) for key in keys if key in found.value), None)


def _compared(question: Question, answer: str | None) -> Score:
    """1 for the same text; of a choice the letter stands first: "B: by a carbocation"."""
    gold = question.gold
    if question.keys[0] == CHOICE:
        answer, gold = answer and answer[:1].upper(), gold[:1].upper()
    is_right = answer is not None and answer.casefold() == gold.casefold()
    return _score(question, float(is_right), answer, accuracy=float(is_right))


def _counted(question: Question, answer: str | None, missing: int | None) -> Score:
    """1 for the correct number. An answer without a number has the error of ``missing``."""
    number, gold = None if answer is None else count_of(answer), count_of(question.gold)
    if gold is None:
        return _score(question, 0.0, None)
    if number is None:
        errors = {} if missing is None else {"absolute_error": float(abs(missing - gold))}
        return _score(question, 0.0, None, **errors)
    return _score(question, float(number == gold), str(number), absolute_error=abs(number - gold))


def _score(question: Question, value: float, extracted: str | None, **measures: float) -> Score:
    return Score(value, extracted=extracted, group=question.part, measures=measures)
