"""An evaluation of several benchmarks whose settings do not go together: who gave them."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from services.contracts.evaluation.evaluations import CreateEvaluation
from services.contracts.validation import first_fault
from temper.submission.assignments import InvalidOption
from temper.submission.draft import Draft
from temper.submission.job_file import read_job_file
from temper.submission.submission import SubmissionError

GSM8K = {"benchmark": "gsm8k", "file": "file-1"}
OWN = {"name": "z", "file": "file-2"}
DRAFTS: dict[str, Any] = {"engine": {"speculation": {}}}
VOTES = {"benchmark": {"metric": "majority", "grader": {"type": "exact"}}}
PANORAMA = {f"panorama_{task}4pc": f"file-{task}" for task in ("par", "pi", "noc")}


@pytest.mark.parametrize(
    ("shared", "own", "field"),
    [
        ({"samples_per_item": 4}, {}, "samples_per_item"),
        ({}, {"samples_per_item": 4}, "benchmarks.1.samples_per_item"),
        ({"sampling": {"min_p": 0.1}, **DRAFTS}, {}, "sampling.min_p"),
        (
            {"sampling": {"min_p": 0.1}, **DRAFTS},
            {"sampling": {"top_p": 0.9}},
            "sampling.min_p",
        ),
        (DRAFTS, {"sampling": {"min_p": 0.1}}, "benchmarks.1.sampling.min_p"),
        ({"metrics": "fork"}, {}, "metrics"),
        ({}, {"metrics": "fork"}, "benchmarks.1.metrics"),
        ({"keep_reasoning": True, "prediction": {}}, {}, "keep_reasoning"),
        ({"keep_reasoning": True}, {"prediction": {}}, "keep_reasoning"),
        ({"prediction": {}}, {"keep_reasoning": True}, "benchmarks.1.keep_reasoning"),
        ({}, VOTES, "benchmarks.1.benchmark.metric"),
        ({}, {**VOTES, "samples_per_item": 1}, "benchmarks.1.samples_per_item"),
        ({"samples_per_item": 1}, VOTES, "samples_per_item"),
        ({}, {"benchmark": "nope"}, "benchmarks.1.benchmark"),
        ({}, {"benchmark": "gsm8k", "grader": {"type": "exact"}}, "benchmarks.1.grader"),
        ({}, {"files": {"a": "file-3"}}, "benchmarks.1.files"),
        ({}, {"file": None}, "benchmarks.1.file"),
        ({}, {"name": None}, "benchmarks.1.name"),
        ({}, {"benchmark": "panorama", "name": None}, "benchmarks.1.file"),
        (
            {},
            {"benchmark": "panorama", "file": None, "files": PANORAMA},
            "benchmarks.1.name",
        ),
    ],
)
def test_the_field_is_that_which_gave_the_value(
    shared: dict[str, Any], own: dict[str, Any], field: str
) -> None:
    body = {"model": "m", "benchmarks": [GSM8K, {**OWN, **own}], **shared}

    with pytest.raises(ValidationError) as refused:
        CreateEvaluation.model_validate(body)
    assert first_fault(refused.value).field == field


JOB = """
kind: evaluation
model: m
samples_per_item: 4
engine: {speculation: {}}
benchmarks:
  - {benchmark: gsm8k, file: file-1}
  - name: z
    file: file-2
    sampling: {temperature: 1.0, min_p: 0.1}
sampling:
  temperature: %s
"""


@pytest.mark.parametrize(
    ("temperature", "place"),
    [("0", "line 4: samples_per_item: "), ("1", "line 10: benchmarks.1.sampling.min_p: ")],
)
def test_a_job_file_is_refused_at_the_line_that_gave_the_value(
    tmp_path: Path, temperature: str, place: str
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB % temperature)

    with pytest.raises(SubmissionError) as said:
        read_job_file(path, tmp_path)
    assert place in said.value.message


def test_an_option_that_gave_the_value_is_named() -> None:
    draft = Draft({"model": "m", "benchmarks": [GSM8K, OWN], "samples_per_item": 1})
    draft.set("samples_per_item", 4, "--set samples_per_item")

    with pytest.raises(InvalidOption, match=r"^--set samples_per_item: samples_per_item: "):
        draft.request(CreateEvaluation)


def test_each_benchmark_by_itself_has_the_settings_that_are_shared() -> None:
    request = CreateEvaluation.model_validate(
        {
            "model": "m",
            "benchmarks": [GSM8K, {**OWN, "samples_per_item": 2, "system_prompt": "Think."}],
            "sampling": {"temperature": 0.5},
            "samples_per_item": 4,
            "max_samples": 8,
        }
    )
    stored = CreateEvaluation.model_validate(request.model_dump(mode="json"))

    for read in (request, stored):
        first, second = read.by_benchmark().values()
        assert (first.samples_per_item, second.samples_per_item) == (4, 2)
        assert (first.system_prompt, second.system_prompt) == (None, "Think.")
        assert first.max_samples == second.max_samples == 8
        assert first.sampling == second.sampling == request.sampling
    assert request.by_benchmark() == stored.by_benchmark()
