"""Grading of answers that a training generated; a child of the training, because the graders need
packages that the training runtime lacks.

    python -m services.trainer.offline.grading

with the core's Python reads `Answers` as JSON from its standard input and writes the mean of each
metric, as a JSON object.
"""

import asyncio
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from services.contracts.llamafactory.best_checkpoint import GENERATED, SCORE
from services.contracts.training.offline import AnswerGrader
from services.core.process.runtimes import REPOSITORY, child_environment
from services.core.process.tree import run_tree
from services.trainer.errors import TrainingFailure

_SECONDS = 900.0
_METRIC_OF = {"rouge-1": "rouge_1", "rouge-2": "rouge_2", "rouge-l": "rouge_l", "bleu-4": "bleu"}


class AnswerPair(BaseModel):
    """A generated answer and the one of the validation file, both without special tokens."""

    model_config = ConfigDict(frozen=True)

    text: str
    reference: str


class Answers(BaseModel):
    """What to grade; with ``grader`` null, by similarity alone."""

    model_config = ConfigDict(frozen=True)

    grader: AnswerGrader | None = None
    answers: list[AnswerPair]


def grade_in_child(
    python: Path, grader: AnswerGrader | None, answers: Sequence[AnswerPair]
) -> dict[str, float]:
    """The mean of each metric over the answers, from 0 to 1; raises TrainingFailure."""
    request = Answers(grader=grader, answers=list(answers))
    try:
        done = run_tree(
            [str(python), "-m", "services.trainer.offline.grading"],
            seconds=_SECONDS,
            cwd=REPOSITORY,
            environment=child_environment({}),
            given=request.model_dump_json().encode(),
        )
    except subprocess.TimeoutExpired:
        raise TrainingFailure(f"grading took longer than {_SECONDS:.0f} s") from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise TrainingFailure(f"generated answers cannot be graded: {''.join(last)[:300]}")
    means: dict[str, float] = json.loads(done.stdout)
    return means


async def grade(request: Answers) -> dict[str, float]:
    """The mean of each metric; an answer that the grader cannot score counts as 0."""
    # Packages of the core environment.
    from services.core.operator_environment import OperatorEnvironment  # noqa: PLC0415
    from services.rewards.factory import RewardFactory  # noqa: PLC0415
    from services.rewards.graders.text import similarity  # noqa: PLC0415
    from services.rewards.interface import RewardFailed, Sample  # noqa: PLC0415

    sums: dict[str, float] = defaultdict(float)
    async with AsyncExitStack() as stack:
        factory = RewardFactory(OperatorEnvironment(), stack)
        grader = None
        if request.grader is not None:
            grader = await factory.component(request.grader, "generation.grader")
        for answer in request.answers:
            for name in GENERATED:
                sums[name] += (
                    similarity(_METRIC_OF[name], answer.text, answer.reference)
                    if name in _METRIC_OF
                    else float(answer.text.strip() == answer.reference.strip())
                )
            if grader is None:
                continue
            extra = {"reference": answer.reference}
            sample = Sample.of_answer(answer.text, (), [answer.reference], extra)
            try:
                sums[SCORE] += (await grader.score(sample)).value
            except RewardFailed:
                sums[SCORE] += 0.0
    return {name: total / len(request.answers) for name, total in sums.items()}


if __name__ == "__main__":
    given = Answers.model_validate_json(sys.stdin.buffer.read())
    sys.stdout.write(json.dumps(asyncio.run(grade(given))))
