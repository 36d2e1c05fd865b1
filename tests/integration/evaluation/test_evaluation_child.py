"""The evaluation child as a process: no sample is lost or requested twice."""

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from services.contracts.base import JsonObject
from services.contracts.evaluation.benchmarks import Benchmark
from services.contracts.evaluation.evaluations import BenchmarkOutcome
from services.contracts.models.registered import RemoteModel
from services.contracts.rewards.graders import NumericGrader
from services.contracts.rewards.openai_graders import ScoreModelGrader
from services.contracts.rewards.rewards import ExtensionReward
from services.contracts.sampling import Sampling
from services.core.process.reporter import METRICS, RESULT
from services.evaluator.evaluation.results import RESULTS
from services.evaluator.serving import RemoteEndpoint
from services.metrics.main_metric import main_metric
from tests.integration.evaluation.evaluation_job import (
    DEADLINE,
    EvaluationJob,
    complete_lines,
    index_of,
    prompt,
    without_times,
)
from tests.support.extension import write_wheel
from tests.support.processes import REPOSITORY
from tests.support.waiting import wait_for
from tests.unit.evaluator.chat_server import ChatServer, Reply, add, error


def job_of(folder: Path, server: ChatServer, samples: int, **fields: Any) -> EvaluationJob:
    endpoint = {"base_url": server.url, "model": "adder"}
    return EvaluationJob(folder, RemoteEndpoint.model_validate(endpoint), samples, **fields)


def wrong_for_multiples_of_five(text: str, times: int) -> Reply:
    return Reply("no idea") if index_of(text) % 5 == 0 else add(text, times)


def test_answers_are_graded_and_summarized(tmp_path: Path) -> None:
    with ChatServer(wrong_for_multiples_of_five) as server:
        job = job_of(tmp_path / "job", server, 40)
        job.run()
    metrics = job.metrics()
    assert (metrics.samples, metrics.correct, metrics.errors) == (40, 32, 0)
    assert metrics.accuracy == pytest.approx(0.8)
    assert metrics.ci95[0] < 0.8 < metrics.ci95[1]
    assert (metrics.prompt_tokens, metrics.completion_tokens) == (40 * 7, 40 * 5)
    assert sorted(row.index for row in job.rows()) == list(range(40))
    right = next(row for row in job.rows() if row.index == 3)
    assert (right.answer, right.extracted, right.gold) == ("The sum is 7", "7", ["7"])
    assert (right.correct, right.finish_reason, right.status_code) == (True, "stop", 200)
    assert [report["phase"] for report in job.reports("phase")] == ["generating", "summarizing"]
    assert job.reports("progress")[-1]["step"] == 40
    assert complete_lines(job.folder / METRICS) >= 1


def test_the_error_of_an_evaluation_without_grades_says_what_failed(tmp_path: Path) -> None:
    with ChatServer(add) as server, ChatServer(lambda *_: error(401, "no such key")) as judge:
        grader = ScoreModelGrader(
            name="judge",
            model=RemoteModel.model_validate({"base_url": judge.url, "model": "judge"}),
            input=[{"role": "user", "content": "Grade {{ sample.output_text }}"}],
        )
        job = job_of(tmp_path / "job", server, 2, grader=grader)
        job.run()

    failure = job.failure()
    assert failure["code"] == "everything_left_out"
    assert "all 2 samples" in failure["message"]
    assert "answered 401: no such key" in failure["message"]


def test_a_package_names_the_measures_and_the_main_metric_of_its_grader(tmp_path: Path) -> None:
    grader = ExtensionReward(name="brevity", settings={"most": 100})
    path = os.pathsep.join(map(str, (REPOSITORY, write_wheel(tmp_path))))
    with ChatServer(add) as server:
        job = job_of(tmp_path / "job", server, 5, grader=grader)
        job.run(PYTHONPATH=path)

    metrics = job.metrics()
    assert metrics.measures is not None
    assert metrics.measures["lengths"]["characters"].lower_is_better
    outcome = BenchmarkOutcome(
        file="file-1", grader=grader, sampling=Sampling(), metrics=job.metrics()
    )
    main = main_metric(outcome)
    assert main is not None
    assert (main.name, main.direction, main.mean) == ("characters", "minimize", 12.0)
    assert (main.share, main.not_averaged) == (False, "lower scores are better")


def test_items_in_the_training_data_are_counted_and_told(tmp_path: Path) -> None:
    held, other = tmp_path / "held.jsonl", tmp_path / "other.jsonl"
    held.write_text(f'''{{"prompt": "{prompt(3)}"}}\n{{"prompt": "{prompt(5)}"}}\nnot JSON\n''')
    other.write_text('{"text": "Nothing of that."}\n')
    training = [
        {"id": "file-1", "source": {"path": held, "filename": "held.jsonl"}},
        {"id": "file-2", "source": {"path": other, "filename": "other.jsonl"}},
        {"id": "file-3", "source": {"path": tmp_path / "gone", "filename": "gone.jsonl"}},
    ]
    with ChatServer(lambda text, times: add(text.partition(" ")[0], times)) as server:
        asked = "{question} Put your final answer, which is a number, at the end."
        grader = NumericGrader()
        benchmark = Benchmark(question="prompt", answer="gold", prompt=asked, grader=grader)
        job = job_of(tmp_path / "job", server, 10, training=training, benchmark=benchmark)
        job.run()

    overlaps = job.metrics().training_overlap or []
    assert [(each.file, each.compared, each.items) for each in overlaps] == [
        ("file-1", 10, 2),
        ("file-2", 10, 0),
    ]
    assert [
        report["message"] for report in job.reports("message") if report["level"] == "warn"
    ] == ["2 of 10 items are in file-1 (held.jsonl), which the model was trained on"]
    told = [report["message"] for report in job.reports("message")]
    assert any(text.startswith("file-3 cannot be read") for text in told)


def test_a_killed_child_resumes_where_it_stopped(tmp_path: Path) -> None:
    with ChatServer(wrong_for_multiples_of_five) as server:
        uninterrupted = job_of(tmp_path / "whole", server, 200)
        uninterrupted.run()

    def hold_every_fourth(text: str, times: int) -> Reply:
        reply = wrong_for_multiples_of_five(text, times)
        reply.hold = index_of(text) % 4 == 3
        return reply

    with ChatServer(hold_every_fourth) as server:
        job = job_of(tmp_path / "killed", server, 200, max_concurrency=60)
        with job.child() as process:
            job.wait_for_rows(150)
            process.send_signal(signal.SIGKILL)
            process.wait(DEADLINE)
        with open(job.folder / RESULTS, "ab") as file:
            file.write(b'{"index": 3, "gold": ["7"], "answer": "The s')
        before = (job.folder / RESULTS).read_bytes()
        asked = server.asked.copy()
        server.release()
        job.run()
    asked_again = {text for text in server.asked if server.asked[text] > asked[text]}
    assert asked_again == {prompt(i) for i in range(200) if i % 4 == 3}
    assert (job.folder / RESULTS).read_bytes().startswith(before[: before.rfind(b"\n") + 1])
    assert sorted(row.index for row in job.rows()) == list(range(200))
    assert without_times(job.metrics()) == without_times(uninterrupted.metrics())


def test_a_kill_at_any_moment_loses_no_finished_sample(tmp_path: Path) -> None:
    def slowly(text: str, times: int) -> Reply:
        reply = wrong_for_multiples_of_five(text, times)
        reply.delay = 0.02
        return reply

    with ChatServer(slowly) as server:
        job = job_of(tmp_path / "job", server, 150, max_concurrency=8)
        for rows in (1, 40, 90):
            with job.child() as process:
                job.wait_for_rows(rows)
                process.send_signal(signal.SIGKILL)
                process.wait(DEADLINE)
            finished = [row.index for row in job.rows()]
            asked = server.asked.copy()
        job.run()
    assert len(job.rows()) == len({row.index for row in job.rows()}) == 150
    assert all(server.asked[prompt(i)] == asked[prompt(i)] for i in finished)
    assert job.metrics().correct == 120


def test_a_terminated_child_keeps_its_rows_and_writes_no_result(tmp_path: Path) -> None:
    def hold_from_ten(text: str, times: int) -> Reply:
        reply = add(text, times)
        reply.hold = index_of(text) >= 10
        return reply

    with ChatServer(hold_from_ten) as server:
        job = job_of(tmp_path / "job", server, 50)
        with job.child() as process:
            job.wait_for_rows(10)
            process.terminate()
            assert process.wait(DEADLINE) == 128 + signal.SIGTERM
    assert sorted(row.index for row in job.rows()) == list(range(10))
    assert not (job.folder / RESULT).exists()


def test_random_failures_lose_no_samples(tmp_path: Path) -> None:
    dice = random.Random(7)

    def unreliable(text: str, times: int) -> Reply:
        if times > 4 or dice.random() > 0.2:  # six attempts at one sample never all fail
            return add(text, times)
        broken = Reply(status=502, body=b"\x00<html>not JSON")
        busy = error(429, "slow down", **{"retry-after": "0"})
        return dice.choice([busy, error(503, "overloaded"), Reply(reset=True), broken])

    with ChatServer(unreliable) as server:
        job = job_of(tmp_path / "job", server, 120, max_concurrency=32)
        job.run()
    assert job.metrics().correct == 120
    assert max(row.attempts for row in job.rows()) > 1


def test_concurrent_requests_stay_within_the_limit(tmp_path: Path) -> None:
    def held(text: str, times: int) -> Reply:
        reply = add(text, times)
        reply.hold = True
        return reply

    with ChatServer(held) as server:
        job = job_of(tmp_path / "job", server, 100, max_concurrency=5)
        with job.child() as process:
            wait_for(lambda: server.peak >= 5, "as many as allowed are in flight")
            server.release()
            process.wait(DEADLINE)
        assert server.peak == 5
    assert job.metrics().samples == 100


def test_text_in_any_script_is_preserved(tmp_path: Path) -> None:
    def translate(text: str, _times: int) -> Reply:
        return Reply({"首都?": "北京 😀", "stolica?": "Łódź\u2028"}[text])

    with ChatServer(translate) as server:
        fields: dict[str, Any] = {"grader": {"type": "exact"}, "system_prompt": "Привет"}
        job = job_of(tmp_path / "job", server, 0, **fields)
        golds = {"首都?": "北京 😀", "stolica?": "Łódź\u2028"}
        job.write_samples([{"prompt": text, "gold": gold} for text, gold in golds.items()])
        job.run()
    assert job.metrics().correct == 2
    assert {row.answer for row in job.rows()} == set(golds.values())
    assert {body["messages"][0]["content"] for body in server.bodies} == {"Привет"}


def test_requests_carry_sampling_and_the_key_which_is_never_on_disk(tmp_path: Path) -> None:
    with ChatServer() as server:
        sampling = Sampling(
            max_tokens=9,
            temperature=0.5,
            top_p=0.9,
            top_k=20,
            min_p=0.1,
            presence_penalty=0.5,
            frequency_penalty=-0.5,
            repetition_penalty=1.1,
            stop=["\n"],
            seed=3,
        )
        job = job_of(tmp_path / "job", server, 2, sampling=sampling, max_samples=1)
        job.run(TEMPER_ENDPOINT_KEY="sk-very-secret")
    sent = {key: server.bodies[0][key] for key in ("model", *sampling.model_dump())}
    assert sent.pop("seed") != 3  # each sample has one of its own, derived from it
    assert sent == {"model": "adder", **sampling.model_dump(exclude={"seed"})}
    assert server.authorizations == {"Bearer sk-very-secret"}
    assert len(server.bodies) == 1
    for file in job.folder.iterdir():
        assert b"sk-very-secret" not in file.read_bytes()


def test_a_split_asks_its_own_rows_and_survives_a_restart(tmp_path: Path) -> None:
    with ChatServer() as server:
        job = job_of(tmp_path / "job", server, 30, split="final", max_samples=12)
        job.run()
        rows = job.rows()
        (job.folder / RESULTS).write_text("".join(row.model_dump_json() + "\n" for row in rows[:5]))
        (job.folder / RESULT).unlink()
        job.run()
    assert sorted(row.index for row in job.rows()) == list(range(15, 27))
    assert len(server.bodies) == 12 + 7
    assert (job.metrics().items, job.metrics().correct) == (12, 12)


def test_samples_of_an_item_have_seeds_of_their_own_and_survive_a_restart(tmp_path: Path) -> None:
    with ChatServer() as server:
        sampling = Sampling(temperature=0.7, seed=2**31 - 2)
        job = job_of(tmp_path / "job", server, 5, samples_per_item=3, sampling=sampling)
        job.run()
        rows = {(row.index, row.sample): row for row in job.rows()}
        (job.folder / RESULTS).write_text(
            "".join(row.model_dump_json() + "\n" for row in list(rows.values())[:7])
        )
        (job.folder / RESULT).unlink()
        job.run()
    assert set(rows) == {(index, sample) for index in range(5) for sample in range(3)}
    assert len(job.rows()) == 15
    assert len(server.bodies) == 15 + 8
    drawn = [(body["messages"][-1]["content"], body["seed"]) for body in server.bodies]
    assert len({seed for _, seed in drawn}) == len(set(drawn)) == 15
    metrics = job.metrics()
    assert (metrics.items, metrics.samples, metrics.samples_per_item) == (5, 15, 3)
    assert metrics.pass_at_k is not None
    assert set(metrics.pass_at_k) == {"1", "2", "3"}


@pytest.mark.parametrize(
    ("status", "code", "requests"),
    [(401, "endpoint_refused", 30), (404, "endpoint_refused", 30), (400, "request_rejected", 60)],
)
def test_an_endpoint_that_never_answers_fails_the_job(
    tmp_path: Path, status: int, code: str, requests: int
) -> None:
    with ChatServer(lambda _text, _times: error(status, "not with me")) as server:
        job = job_of(tmp_path / "job", server, 60, max_concurrency=4)
        job.run()
    assert job.failure()["code"] == code
    assert str(status) in job.failure()["message"]
    assert "not with me" in job.failure()["message"]
    assert server.asked.total() <= requests


def test_ten_consecutive_unanswered_samples_do_not_fail_the_job(tmp_path: Path) -> None:
    def fail_first(text: str, times: int) -> Reply:
        return error(400, "filtered") if index_of(text) < 15 else add(text, times)

    with ChatServer(fail_first) as server:
        job = job_of(tmp_path / "job", server, 20, max_concurrency=1)
        job.run()

    assert (job.metrics().errors, job.metrics().correct) == (15, 5)


def test_rejected_samples_count_as_wrong_and_are_retried_by_the_next_attempt(
    tmp_path: Path,
) -> None:
    def reject_some(text: str, times: int) -> Reply:
        return error(400, "too long") if index_of(text) < 5 else add(text, times)

    with ChatServer(reject_some) as server:
        job = job_of(tmp_path / "job", server, 20, max_concurrency=1)
        job.run()
        first = job.metrics()
        assert (first.samples, first.errors, first.accuracy) == (20, 5, 0.75)
        failed = [row for row in job.rows() if row.correct is None]
        assert [row.status_code for row in failed] == [400] * 5
        assert all("too long" in (row.error or "") for row in failed)
        server.script = add
        job.run()
    assert (job.metrics().samples, job.metrics().errors, job.metrics().correct) == (20, 0, 20)
    assert {times for text, times in server.asked.items() if index_of(text) >= 5} == {1}


def test_a_finished_evaluation_needs_no_endpoint(tmp_path: Path) -> None:
    with ChatServer() as server:
        job = job_of(tmp_path / "job", server, 5)
        job.run()
        first = job.metrics()
        (job.folder / RESULT).unlink()
    job.run()
    assert job.metrics() == first


@pytest.mark.parametrize(
    ("grader", "content", "param"),
    [
        ({"type": "regex", "pattern": "("}, '{"prompt": "1+1=", "gold": "2"}', "grader.pattern"),
        ({"type": "numeric"}, '{"prompt": "1+1=", "gold": "two"}', "file"),
        ({"type": "exact"}, "[]", "file"),
    ],
)
def test_ungradable_input_fails_before_any_request(
    tmp_path: Path, grader: JsonObject, content: str, param: str
) -> None:
    with ChatServer() as server:
        job = job_of(tmp_path / "job", server, 0, grader=grader)
        (job.folder / "samples.jsonl").write_text(content)
        job.run()
    assert job.failure()["param"] == param
    assert not server.bodies
