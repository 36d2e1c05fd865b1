"""An evaluation of AIME: unparsable answers apart from wrong ones, and disputed answers."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.evaluation.named_benchmarks import BENCHMARKS
from services.contracts.evaluation.results import EvaluationMetrics
from services.contracts.models.registered import RemoteModel
from services.contracts.sampling import Sampling
from services.core.operator_environment import OperatorEnvironment
from services.core.process.reporter import Reporter
from services.evaluator.evaluation.child import evaluate
from services.evaluator.evaluation.endpoint import Answer
from services.evaluator.evaluation.results import RESULTS, read_rows
from services.evaluator.evaluation.samples import EvaluationSample
from services.evaluator.evaluation.spec import BenchmarkSpec, EvaluationSpec
from services.evaluator.serving import RemoteEndpoint
from tests.unit.evaluator.chat_server import ChatServer, Reply

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


def evaluated(folder: Path, judge: RemoteModel | None = None) -> EvaluationMetrics:
    rows = [{"problem": f"Problem {number}?", "answer": 204} for number in range(len(ANSWERS))]
    path = folder / "aime.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    benchmark = BENCHMARKS["aime24"]
    spec = EvaluationSpec(
        model=RemoteEndpoint.model_validate({"base_url": "http://127.0.0.1:9", "model": "m"}),
        benchmarks=[
            BenchmarkSpec(
                samples=path,
                grader=benchmark.grader,
                benchmark=benchmark,
                sampling=Sampling(),
                judge=judge,
            )
        ],
    )
    environment = OperatorEnvironment(attempts=1)
    return asyncio.run(evaluate(spec, folder, opened(), environment, Reporter(folder)))[None]


def test_answers_of_aime_are_right_wrong_unparsable_or_disputed(tmp_path: Path) -> None:
    metrics = evaluated(tmp_path)

    assert (metrics.samples, metrics.correct, metrics.unparsable) == (5, 1, 3)
    kept = {row.index: row for row in read_rows(tmp_path / RESULTS)}
    assert [kept[index].extracted for index in range(5)] == ["204", "205", None, None, None]
    assert [index for index in range(5) if "disputed" in kept[index].tags] == [3]
    assert metrics.measures is not None
    opinion = metrics.measures["second_opinion"]
    assert (opinion["math_verify"].mean, opinion["agrees"].mean) == (0.4, 0.8)


def test_a_judge_sees_what_the_rule_called_wrong_for_a_second_score(tmp_path: Path) -> None:
    def script(prompt: str, _times: int) -> Reply:
        if "1204" in prompt:
            return Reply("no label")
        return Reply(json.dumps({"label": "right" if "408" in prompt else "wrong"}))

    with ChatServer(script) as server:
        metrics = evaluated(
            tmp_path, RemoteModel.model_validate({"base_url": server.url, "model": "judge"})
        )
        prompts = [body["messages"][-1]["content"] for body in server.bodies]

    assert not any(ANSWERS[0] in prompt for prompt in prompts), "that one is right by the rule"
    assert all("Right answer: 204" in prompt for prompt in prompts)
    assert metrics.accuracy == 0.2
    assert metrics.errors == 0
    assert metrics.measures is not None
    opinion = metrics.measures["second_opinion"]
    assert (opinion["with_judge"].mean, opinion["judge_failed"].mean) == (0.5, 0.2)
    assert opinion["judge_failed"].lower_is_better
