"""An evaluation of AIME: unparsable answers apart from wrong ones, and disputed answers."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.benchmarks import BENCHMARKS
from services.contracts.sampling import Sampling
from services.core.operator_environment import OperatorEnvironment
from services.core.process.reporter import Reporter
from services.evaluator.evaluation.child import evaluate
from services.evaluator.evaluation.endpoint import Answer
from services.evaluator.evaluation.results import RESULTS, read_rows
from services.evaluator.evaluation.samples import EvaluationSample
from services.evaluator.evaluation.spec import BenchmarkSpec, EvaluationSpec
from services.evaluator.serving import RemoteEndpoint

ANSWERS = (r"\boxed{204}", r"\boxed{205}", r"\boxed{1204}", r"\boxed{\frac{408}{2}}", "none")


class Scripted:
    """Gives each row its answer."""

    def asked_by(self, _spec: BenchmarkSpec) -> "Scripted":
        return self

    async def watch(self) -> None:
        await asyncio.Event().wait()

    async def ask(self, _messages: Sequence[JsonObject], sample: EvaluationSample) -> Answer:
        return Answer(ANSWERS[sample.index], "stop", 1, 1, 1, 0.1)


@asynccontextmanager
async def opened() -> AsyncIterator[Scripted]:
    yield Scripted()


def test_answers_of_aime_are_right_wrong_unparsable_or_disputed(tmp_path: Path) -> None:
    rows = [{"problem": f"Problem {number}?", "answer": 204} for number in range(len(ANSWERS))]
    path = tmp_path / "aime.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    benchmark = BENCHMARKS["aime24"]
    spec = EvaluationSpec(
        model=RemoteEndpoint.model_validate({"base_url": "http://127.0.0.1:9", "model": "m"}),
        benchmarks=[
            BenchmarkSpec(
                samples=path, grader=benchmark.grader, benchmark=benchmark, sampling=Sampling()
            )
        ],
    )
    found = asyncio.run(
        evaluate(spec, tmp_path, opened(), OperatorEnvironment(), Reporter(tmp_path))
    )

    metrics = found[None]
    assert (metrics.samples, metrics.correct, metrics.unparsable) == (5, 1, 3)
    kept = {row.index: row for row in read_rows(tmp_path / RESULTS)}
    assert [kept[index].extracted for index in range(5)] == ["204", "205", None, None, None]
    assert [index for index in range(5) if "disputed" in kept[index].tags] == [3]
    assert metrics.measures is not None
    opinion = metrics.measures["math-verify"]
    assert (opinion["correct"].mean, opinion["agrees"].mean) == (0.4, 0.8)
