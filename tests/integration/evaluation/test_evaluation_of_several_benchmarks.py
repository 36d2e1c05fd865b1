"""The evaluation child with several benchmarks, which one engine answers."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from services.contracts.evaluation.named_benchmarks import BENCHMARKS
from services.contracts.evaluation.results import EvaluationMetrics
from services.contracts.rewards.graders import ExactGrader, NumericGrader
from services.contracts.sampling import Sampling
from services.core.process.reporter import RESULT
from services.evaluator.evaluation.results import RESULTS
from services.evaluator.evaluation.spec import BenchmarkSpec
from services.evaluator.serving import RemoteEndpoint
from tests.integration.evaluation.evaluation_job import DEADLINE, EvaluationJob, index_of, prompt
from tests.unit.evaluator.chat_server import ChatServer, Reply, add


def job_of(
    folder: Path, server: ChatServer, *benchmarks: BenchmarkSpec, **fields: Any
) -> EvaluationJob:
    model = RemoteEndpoint.model_validate({"base_url": server.url, "model": "adder"})
    return EvaluationJob(folder, model, 0, benchmarks=list(benchmarks), **fields)


def sums(path: Path, name: str, rows: range, **fields: Any) -> BenchmarkSpec:
    """A benchmark of addition problems, whose last number is the answer."""
    lines = [json.dumps({"prompt": prompt(i), "gold": 2 * i + 1}) + "\n" for i in rows]
    path.write_text("".join(lines))
    values: dict[str, Any] = {"grader": NumericGrader(), "sampling": Sampling(), **fields}
    return BenchmarkSpec(name=name, samples=path, **values)


def metrics_of(job: EvaluationJob) -> dict[str, EvaluationMetrics]:
    result = json.loads((job.folder / RESULT).read_bytes())
    assert result["status"] == "succeeded", result
    return {
        name: EvaluationMetrics.model_validate(each) for name, each in result["benchmarks"].items()
    }


def test_each_benchmark_has_its_own_sampling_prompt_grader_and_metrics(tmp_path: Path) -> None:
    sampled = Sampling(temperature=0.7, max_tokens=7, seed=5)
    with ChatServer() as server:
        job = job_of(
            tmp_path / "job",
            server,
            sums(tmp_path / "a", "greedy", range(6)),
            sums(
                *(tmp_path / "b", "sampled", range(10, 14)),
                sampling=sampled,
                samples_per_item=2,
                system_prompt="Add.",
            ),
            sums(tmp_path / "c", "exact", range(20, 23), grader=ExactGrader(), max_samples=2),
        )
        job.run()

    found = metrics_of(job)
    assert {name: (each.samples, each.correct) for name, each in found.items()} == {
        "greedy": (6, 6),
        "sampled": (8, 8),
        "exact": (2, 0),
    }
    assert (found["sampled"].items, found["sampled"].majority is None) == (4, False)
    assert {(row.benchmark, row.index, row.sample) for row in job.rows()} == {
        *(("greedy", index, 0) for index in range(6)),
        *(("sampled", index, sample) for index in range(4) for sample in range(2)),
        *(("exact", index, 0) for index in range(2)),
    }
    by_sampling = [
        body["messages"][0]["content"] for body in server.bodies if body["max_tokens"] == 7
    ]
    assert by_sampling == ["Add."] * 8
    assert len({body["seed"] for body in server.bodies if body["max_tokens"] == 7}) == 8
    progress = job.reports("progress")[-1]
    assert (progress["step"], progress["total_steps"]) == (16, 16)


def test_a_benchmark_is_asked_with_the_seeds_it_has_alone(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"sampling": Sampling(temperature=0.7, seed=5), "samples_per_item": 3}
    asked = []
    with ChatServer() as server:
        for folder, before in (("alone", []), ("behind", [("first", range(20, 24))])):
            (tmp_path / folder).mkdir()
            benchmarks = [
                sums(tmp_path / folder / name, name, rows, **fields)
                for name, rows in (*before, ("sums", range(4)))
            ]
            job_of(tmp_path / folder / "job", server, *benchmarks).run()
            asked.append(sorted(_asked(body) for body in server.bodies))
            server.reset()

    alone, behind = asked
    assert len(alone) == 12
    assert [each for each in behind if each in alone] == alone


def _asked(body: dict[str, Any]) -> tuple[str, int]:
    return body["messages"][-1]["content"], body["seed"]


def test_a_killed_child_asks_no_answered_sample_again(tmp_path: Path) -> None:
    def hold_every_third(text: str, times: int) -> Reply:
        reply = add(text, times)
        reply.hold = index_of(text) % 3 == 2
        return reply

    with ChatServer(hold_every_third) as server:
        job = job_of(
            tmp_path / "job",
            server,
            sums(tmp_path / "a", "first", range(30)),
            sums(tmp_path / "b", "second", range(30, 60), split="search"),
            max_concurrency=20,
        )
        with job.child() as process:
            job.wait_for_rows(30)
            process.send_signal(signal.SIGKILL)
            process.wait(DEADLINE)
        assert {row.benchmark for row in job.rows()} == {"first", "second"}
        asked = server.asked.copy()
        server.release()
        job.run()

    again = {text for text in server.asked if server.asked[text] > asked[text] > 0}
    assert again == {prompt(index) for index in range(45) if index % 3 == 2}
    assert server.asked.total() == 45 + len(again)
    assert {name: (each.samples, each.correct) for name, each in metrics_of(job).items()} == {
        "first": (30, 30),
        "second": (15, 15),
    }


def test_tasks_of_a_composite_have_files_prompts_and_measures_of_their_own(tmp_path: Path) -> None:
    context = {"title": "Lamp", "abstract": "A lamp.", "claims": ["A lamp with a lens."]}
    row = {"application_number": "1", "claim_number": 1, "context": context}
    art = {"patent_id": "P", "title": "Lens", "abstract": "", "claims": ["A lens."]}
    rows = {
        "panorama_par4pc": {
            **row,
            "options": dict.fromkeys("ABCDEFGH", art),
            "gold_answers": ["A"],
            "silver_answers": ["B"],
            "negative_answers": list("CDEFGH"),
        },
        "panorama_noc4pc": {
            **row,
            "prior_art_specifications": [{**art, "paragraphs": ["A lens."]}],
            "answer": {"reason": "Known.", "code": "102"},
        },
    }
    benchmarks = []
    for name, each in rows.items():
        (tmp_path / name).write_text(json.dumps(each) + "\n")
        known = BENCHMARKS[name]
        fields: dict[str, Any] = {
            "grader": known.grader,
            "benchmark": known,
            "sampling": Sampling(),
        }
        benchmarks.append(BenchmarkSpec(name=name, samples=tmp_path / name, **fields))

    def examine(text: str, _times: int) -> Reply:
        return Reply('{"code": "102"}' if "not novel" in text else '{"answer": ["A"]}')

    with ChatServer(examine) as server:
        job = job_of(tmp_path / "job", server, *benchmarks)
        job.run()

    found = metrics_of(job)
    assert {name: each.accuracy for name, each in found.items()} == dict.fromkeys(rows, 1.0)
    names = {
        name: {measure for measures in (each.measures or {}).values() for measure in measures}
        for name, each in found.items()
    }
    assert "item_score" in names["panorama_par4pc"]
    assert "macro_f1" in names["panorama_noc4pc"]


@pytest.mark.parametrize(
    ("grader", "rows", "param"),
    [
        ({"type": "regex", "pattern": "("}, range(2), "benchmarks.1.grader.pattern"),
        ({"type": "numeric"}, range(0), "benchmarks.1.file"),
    ],
)
def test_a_benchmark_at_fault_is_named(
    tmp_path: Path, grader: dict[str, str], rows: range, param: str
) -> None:
    with ChatServer() as server:
        good = sums(tmp_path / "a", "good", range(2))
        bad = sums(tmp_path / "b", "bad", rows)
        bad = BenchmarkSpec.model_validate({**bad.model_dump(), "grader": grader})
        job = job_of(tmp_path / "job", server, good, bad)
        job.run()
    assert job.failure()["param"] == param
    assert not server.bodies
    assert not (job.folder / RESULTS).exists()
