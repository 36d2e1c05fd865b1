"""The majority of several samples counts answers together that the grader finds equal."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.rewards.graders import MathGrader, NumericGrader
from services.contracts.sampling import Sampling
from services.core.operator_environment import OperatorEnvironment
from services.core.process.reporter import REPORTS, Reporter
from services.evaluator.evaluation.child import evaluate
from services.evaluator.evaluation.endpoint import Answer
from services.evaluator.evaluation.results import RESULTS, read_rows
from services.evaluator.evaluation.samples import EvaluationSample
from services.evaluator.evaluation.spec import BenchmarkSpec, EvaluationSpec
from services.evaluator.evaluation.votes import (
    AT_ONCE,
    MOST_ANSWERS,
    MOST_EXCEEDED,
    MOST_EXCEEDED_IN_ALL,
    unite_votes,
)
from services.evaluator.serving import RemoteEndpoint
from services.metrics.repeated import RepeatedSamples

Item = tuple[str, Sequence[str]]
"""The gold of a row, and the answers of its samples."""


class Scripted:
    """Gives each sample of a row its answer."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items

    def asked_by(self, _spec: BenchmarkSpec) -> "Scripted":
        return self

    async def watch(self) -> None:
        await asyncio.Event().wait()

    async def ask(self, _messages: Sequence[JsonObject], sample: EvaluationSample) -> Answer:
        answers = self._items[sample.index][1]
        text = answers[sample.sample] if sample.sample < len(answers) else "no answer"
        return Answer(text, "stop", 1, 1, 1, 0.1)


@asynccontextmanager
async def opened(items: Sequence[Item]) -> AsyncIterator[Scripted]:
    yield Scripted(items)


def majority(folder: Path, grader: MathGrader | NumericGrader, items: Sequence[Item]) -> float:
    """The share of items whose majority vote is right; rows that the folder has are kept."""
    folder.mkdir(exist_ok=True)
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps({"prompt": "?", "gold": gold}) + "\n" for gold, _ in items))
    endpoint = RemoteEndpoint.model_validate({"base_url": "http://127.0.0.1:9", "model": "m"})
    benchmark = BenchmarkSpec(
        samples=path,
        grader=grader,
        sampling=Sampling(temperature=1.0),
        samples_per_item=max(len(answers) for _, answers in items),
    )
    spec = EvaluationSpec(model=endpoint, benchmarks=[benchmark])
    environment = OperatorEnvironment(attempts=1)
    work = evaluate(spec, folder, opened(items), environment, Reporter(folder))
    found = asyncio.run(work)[None].majority
    assert found is not None
    return found.mean


def boxed(*items: Item) -> list[Item]:
    """Items with their answers in boxes, each in two orders."""
    found: list[Item] = []
    for gold, contents in items:
        answers = [f"\\boxed{{{each}}}" for each in contents]
        found += [(gold, answers), (gold, answers[::-1])]
    return found


def test_equal_boxes_vote_together_in_any_order(tmp_path: Path) -> None:
    items = boxed(
        ("2\\sqrt3", ["2\\sqrt{3}", "2\\sqrt 3", "\\sqrt{12}", "3", "3"]),
        ("x^2", ["x^2", "x^{2}", "x \\cdot x", "x", "x"]),
        ("\\{1,2\\}", ["\\{1, 2\\}", "1, 2", "x=2 or x=1", "1", "1"]),
        ("90^\\circ", ["90", "90^\\circ", "\\text{90 degrees}", "45", "45"]),
        ("10\\text{ cm}", ["10 cm", "10", "20", "10\\text{ centimeters}", "20"]),
        ("x=1, y=2", ["x=1, y=2", "y=2, x=1", "x=2, y=1"]),
        # 5 equals both, which differ: it is what most samples have or equal.
        ("5\\text{ cm}", ["5\\text{ cm}", "5", "5\\text{ m}", "5\\text{ m}"]),
    )
    assert majority(tmp_path, MathGrader(), items) == 1.0


def test_different_boxes_vote_apart(tmp_path: Path) -> None:
    items = boxed(
        ("x=1, y=2", ["x=1, y=2", "x=2, y=1", "x=2, y=1"]),
        ("12", ["12", "1 2", "1 2"]),
        # What is left to be computed is another answer, as it is for the grader.
        ("616", ["616", "81+535", "81 + 535"]),
    )
    assert majority(tmp_path, MathGrader(), items) == 0.0


def test_numbers_within_the_tolerance_vote_together(tmp_path: Path) -> None:
    item = ("3.1416", ["3.14", "3.141", "3.1416", "3.2", "3.2"])
    close = NumericGrader(absolute_tolerance=0.01)
    assert majority(tmp_path / "close", close, [item]) == 1.0
    assert majority(tmp_path / "exact", NumericGrader(), [item]) == 0.0


def test_stored_rows_vote_by_what_was_compared(tmp_path: Path) -> None:
    items = boxed(("x=1, y=2", ["x=1, y=2", "x=2, y=1", "x=2, y=1"]))
    assert majority(tmp_path, MathGrader(), items) == 0.0
    rows = list(read_rows(tmp_path / RESULTS))
    assert {row.vote for row in rows} == {"x=1, y=2", "x=2, y=1"}

    for vote in (None, "1, 2"):  # of earlier versions
        stored = [row.model_copy(update={"vote": vote}).model_dump_json() + "\n" for row in rows]
        (tmp_path / RESULTS).write_text("".join(stored))
        assert majority(tmp_path, MathGrader(), items) == 0.0


class Counting:
    """A grader that finds nothing equal, or exceeds its limits, and counts what it is asked."""

    def __init__(self, verdict: bool | None) -> None:
        self.asked: list[tuple[str, str]] = []
        self._verdict = verdict

    async def are_equal(self, one: str, other: str) -> bool | None:
        self.asked.append((one, other))
        return self._verdict


def repeated(items: int, samples: int) -> RepeatedSamples:
    """Items whose samples all have answers of their own, the last of them right."""
    found = RepeatedSamples(samples)
    for item, sample in itertools.product(range(items), range(samples)):
        text = f"{sample:03}"
        found.add(item, correct=sample == samples - 1, answer=text, compared=text)
    return found


def test_the_most_frequent_answers_are_compared_in_bounded_number(tmp_path: Path) -> None:
    found, grader = repeated(1, 64), Counting(verdict=False)
    found.add(0, correct=False, answer="050", compared="050")

    asyncio.run(unite_votes(found, grader, Reporter(tmp_path)))

    assert len(set(grader.asked)) == len(grader.asked) == MOST_ANSWERS * (MOST_ANSWERS - 1) // 2
    assert "050" in {one for one, _ in grader.asked}
    assert not (tmp_path / REPORTS).exists()


def test_comparisons_that_exceed_their_limits_are_bounded_and_told(tmp_path: Path) -> None:
    found, grader = repeated(100, 64), Counting(verdict=None)

    asyncio.run(unite_votes(found, grader, Reporter(tmp_path)))

    assert len(grader.asked) <= MOST_EXCEEDED_IN_ALL + MOST_EXCEEDED + AT_ONCE
    told = json.loads((tmp_path / REPORTS).read_text().splitlines()[-1])
    assert f"{len(grader.asked)} comparisons of answers exceeded" in told["message"]
    assert told["level"] == "warn"


def test_items_whose_answers_are_all_right_or_all_wrong_are_not_compared(tmp_path: Path) -> None:
    found, grader = RepeatedSamples(2), Counting(verdict=True)
    for item, text in itertools.product(range(2), "ab"):
        found.add(item, correct=item == 1, answer=text, compared=text)

    asyncio.run(unite_votes(found, grader, Reporter(tmp_path)))

    assert not grader.asked
    estimate = found.majority()
    assert estimate is not None
    assert estimate.mean == 0.5
