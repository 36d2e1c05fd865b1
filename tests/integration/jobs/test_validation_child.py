"""The validation children, run as workers run them."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from services.contracts.evaluation.named_benchmarks import BENCHMARKS

REPOSITORY = Path(__file__).parents[3]
TIMEOUT_SECONDS = 180
EVALUATION = "services.evaluator.evaluation.validation"

GOOD = {"messages": [{"role": "user", "content": "1 + 1"}, {"role": "assistant", "content": "2"}]}
BAD = {"messages": [{"role": "user", "content": "1 + 1"}, {"role": "assistant"}]}


@dataclass(frozen=True)
class Outcome:
    """What a child reported and wrote."""

    result: dict[str, Any]
    reports: list[dict[str, Any]]

    def messages(self, level: str) -> list[str]:
        return [
            report["message"]
            for report in self.reports
            if report["type"] == "message" and report["level"] == level
        ]


def run_child(module: str, job_dir: Path, spec: dict[str, Any]) -> Outcome:
    """Run a validation child in the core environment until it ends."""
    (job_dir / "validation.json").write_text(json.dumps(spec))
    process = subprocess.run(
        [sys.executable, "-m", module, str(job_dir)],
        cwd=job_dir,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    lines = (job_dir / "reports.jsonl").read_text().splitlines()
    result = json.loads((job_dir / "result.json").read_text())
    return Outcome(result, [json.loads(line) for line in lines])


def run_evaluation(job_dir: Path, **checked: Any) -> Outcome:
    """Check the file of an evaluation of one benchmark."""
    return run_child(EVALUATION, job_dir, {"checked": {"file": checked}})


def source(path: Path, rows: list[Any], filename: str) -> dict[str, str]:
    """Write rows to a file and return its reference as in a job."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"path": str(path), "filename": filename}


def tokenizer_file(path: Path) -> str:
    """A tokenizer that splits at whitespace."""
    tokenizer = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.save(str(path))
    return str(path)


def test_valid_training_files_produce_reports(tmp_path: Path) -> None:
    spec = {
        "uploaded": {
            "training_file": source(tmp_path / "a", [GOOD] * 1500, "sums.jsonl"),
            "validation_file": source(tmp_path / "b", [GOOD], "held-out.jsonl"),
        },
        "max_seq_length": 9,
        "tokenizer_file": tokenizer_file(tmp_path / "tokenizer.json"),
    }
    outcome = run_child("services.trainer.offline.validation", tmp_path, spec)
    training = outcome.result["training_file"]
    assert outcome.result["status"] == "succeeded"
    assert (training["rows"], training["valid_rows"], training["layout"]) == (1500, 1500, "chat")
    assert training["lengths"]["total"] == 1500 * 10
    assert outcome.result["validation_file"]["rows"] == 1
    assert outcome.messages("info") == [
        "sums.jsonl: 1,500 rows, chat; tokens per row: mean 10, p95 10, max 10",
        "held-out.jsonl: 1 row, chat; tokens per row: mean 10, p95 10, max 10",
    ]
    assert outcome.messages("warn")[0].startswith("sums.jsonl: 1,500 of 1,500 rows are longer")
    progress = [report["step"] for report in outcome.reports if report["type"] == "progress"]
    assert progress == sorted(set(progress))
    assert progress[-1] == 100


def test_an_invalid_training_file_fails_with_its_first_error(tmp_path: Path) -> None:
    spec = {
        "uploaded": {
            "training_file": source(tmp_path / "a", [GOOD, *[BAD] * 30], "sums.jsonl"),
            "validation_file": source(tmp_path / "b", [BAD], "held-out.jsonl"),
        },
        "max_seq_length": 2048,
        "max_errors": 20,
    }
    outcome = run_child("services.trainer.offline.validation", tmp_path, spec)
    assert outcome.result["status"] == "failed"
    assert outcome.result["error"] == {
        "code": "invalid_training_file",
        "message": "sums.jsonl: row 2: messages[1].content is missing "
        "(and 19 more errors; checking stopped there)",
        "param": "training_file",
        "retryable": False,
        "rows": [{"row": row, "message": "messages[1].content is missing"} for row in range(2, 22)],
    }
    errors = outcome.messages("error")
    assert errors[19] == "sums.jsonl: row 21: messages[1].content is missing"
    assert errors[20] == "sums.jsonl: checking stopped after 20 errors"
    assert errors[21] == "held-out.jsonl: row 1: messages[1].content is missing"


def test_an_invalid_validation_file_is_named_by_field(tmp_path: Path) -> None:
    spec = {
        "uploaded": {
            "training_file": source(tmp_path / "a", [GOOD], "sums.jsonl"),
            "validation_file": source(tmp_path / "b", [], "held-out.jsonl"),
        },
        "max_seq_length": 2048,
    }
    outcome = run_child("services.trainer.offline.validation", tmp_path, spec)
    assert outcome.result["error"]["param"] == "validation_file"
    assert outcome.result["error"]["message"] == "held-out.jsonl: the file is empty"


def test_a_valid_evaluation_file_produces_a_report(tmp_path: Path) -> None:
    rows = [{"prompt": "1 + 1", "gold": 2}, {"prompt": "2 + 2", "gold": ["4", "four 4"]}]
    file = source(tmp_path / "a", rows, "golds.jsonl")
    outcome = run_evaluation(tmp_path, file=file, grader={"type": "numeric"})
    assert outcome.result["status"] == "succeeded"
    assert outcome.result["file"]["rows"] == 2
    assert outcome.messages("info") == ["golds.jsonl: 2 rows, 2 messages, 3 golds"]


def test_an_invalid_evaluation_file_fails_with_its_first_error(tmp_path: Path) -> None:
    file = source(tmp_path / "a", [{"prompt": "1 + 1", "gold": "two"}], "golds.jsonl")
    outcome = run_evaluation(tmp_path, file=file, grader={"type": "numeric"})
    assert outcome.result["error"] == {
        "code": "invalid_evaluation_file",
        "message": "golds.jsonl: row 1: gold: the gold 'two' contains no number",
        "param": "file",
        "retryable": False,
        "rows": [{"row": 1, "message": "gold: the gold 'two' contains no number"}],
    }


def test_tests_that_cannot_be_run_are_named_by_row(tmp_path: Path) -> None:
    rows = [
        {"prompt": "Add.", "tests": [{"input": "1 2", "output": "3"}]},
        {"prompt": "Add.", "tests": []},
        {"prompt": "Add."},
    ]
    file = source(tmp_path / "evaluation.jsonl", rows, "code.jsonl")

    outcome = run_evaluation(tmp_path, file=file, grader={"type": "code_tests"})

    assert outcome.result["error"]["code"] == "invalid_evaluation_file"
    assert "row 2: tests" in outcome.result["error"]["message"]
    assert any("row 3: tests is missing" in line for line in outcome.messages("error"))


def test_a_split_is_counted_by_sub_task_and_needs_two_rows(tmp_path: Path) -> None:
    grader = {"type": "exact"}
    benchmark = {"question": "q", "answer": "a", "subtasks": ["kind"], "grader": grader}
    rows = [{"q": "Why?", "a": "So.", "kind": kind} for kind in ("a", "a", "a", "b", "b")]
    spec = {"grader": grader, "benchmark": benchmark, "split": "search"}
    file = source(tmp_path / "a", rows, "asked.jsonl")
    outcome = run_evaluation(tmp_path, file=file, **spec)
    assert outcome.messages("info") == [
        "asked.jsonl: 5 rows, 5 messages, 5 golds; 2 in the search part"
    ]

    file = source(tmp_path / "b", [rows[0], rows[3]], "few.jsonl")
    outcome = run_evaluation(tmp_path, file=file, **spec)
    assert outcome.result["error"]["message"] == "few.jsonl: a split needs two rows of a sub-task"

    file = source(tmp_path / "c", [rows[0], {"q": "Why?", "a": "So."}], "torn.jsonl")
    outcome = run_evaluation(tmp_path, file=file, **spec)
    assert outcome.result["error"]["message"] == "torn.jsonl: row 2: kind is missing"


def test_a_bad_row_of_several_benchmarks_is_named_with_its_benchmark(tmp_path: Path) -> None:
    sums = [{"question": "1 + 1?", "answer": "#### 2"}]
    problems = [{"problem": "1 + 1?", "answer": "2"}, {"problem": "1 + 1?", "answer": "two"}]
    files = {
        "benchmarks.0.file": ("gsm8k", sums, "sums.jsonl"),
        "benchmarks.1.file": ("aime24", problems, "aime.jsonl"),
        "benchmarks.2.file": ("math500", [problems[0], {"problem": "?"}], "math.jsonl"),
    }
    checked = {
        place: {
            "file": source(tmp_path / name, rows, filename),
            "name": name,
            "grader": BENCHMARKS[name].grader.model_dump(mode="json"),
            "benchmark": BENCHMARKS[name].model_dump(mode="json"),
        }
        for place, (name, rows, filename) in files.items()
    }

    outcome = run_child(EVALUATION, tmp_path, {"checked": checked})

    error = outcome.result["error"]
    assert error["param"] == "benchmarks.1.file"
    assert error["message"].startswith("aime24: aime.jsonl: row 2: ")
    assert outcome.messages("info") == ["sums.jsonl: 1 row, 1 message, 1 gold"]
    assert outcome.messages("error")[-1].startswith("math500: math.jsonl: row 2: answer is missing")
