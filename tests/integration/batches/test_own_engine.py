"""Prompt batches that run vLLM themselves, without a server."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from services.contracts.batches.prompt_batches import PromptBatch, rows_folder
from services.contracts.errors import InvalidRequest, JobFailed
from services.evaluator.prompts.run import answer
from tests.support.engines.offline_engine import make_runtime
from tests.support.models.tiny_model import make_tiny_model
from tests.support.runtimes import FOLDER, installed_runtime
from tests.support.waiting import wait_for

TEMPLATE = "system_prompt: '{{ text }}'"


class Batch:
    """A batch of texts in a folder."""

    def __init__(
        self, folder: Path, texts: Sequence[str], runtimes: Path, model: str | None = None
    ) -> None:
        self.records = folder / "records.json"
        self.template = folder / "prompt.yaml"
        self.output = folder / "out.json"
        self.records.write_text(json.dumps([{"text": text} for text in texts]))
        self.template.write_text(TEMPLATE)
        self.runtimes = runtimes
        self.model = model or str(made_model(folder / "model"))

    def run(self, body: dict[str, Any] | None = None, **engine: Any) -> list[dict[str, Any]]:
        request = PromptBatch.model_validate(
            {
                "records": self.records,
                "output": self.output,
                "prompting": {"template": self.template},
                "engine": {"model": self.model, "runtimes": self.runtimes, **engine},
                "body": body or {},
            }
        )
        folder = rows_folder(self.output)
        folder.mkdir(exist_ok=True)
        asyncio.run(answer(request, folder, failed_again=False, environment={}))
        rows: list[dict[str, Any]] = json.loads(self.output.read_text())
        return rows


def made_model(folder: Path) -> Path:
    """A model as far as the engine's stand-in needs it."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text('{"model_type": "stub"}')
    return folder


def prompts_of(folder: Path) -> list[str]:
    lines = (folder / "prompts.jsonl").read_text().splitlines()
    return [json.loads(line)["messages"][-1]["content"] for line in lines]


def test_shared_prefixes_are_sent_together_and_rows_keep_their_order(tmp_path: Path) -> None:
    make_runtime(tmp_path, tmp_path)

    rows = Batch(tmp_path, ["bb1", "a", "bb22", "aaa333", "cccc"], tmp_path).run()

    assert prompts_of(tmp_path) == ["a", "aaa333", "bb1", "bb22", "cccc"]
    assert [row["index"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["result"] for row in rows] == ["3", "1", "4", "6", "4"]
    assert {row["endpoint"] for row in rows} == {"local"}


def test_a_prompt_that_the_engine_refuses_costs_no_other(tmp_path: Path) -> None:
    make_runtime(tmp_path, tmp_path, longest=5)

    rows = Batch(tmp_path, ["short", "much too long", "fits"], tmp_path).run()

    assert [row["result"] for row in rows] == ["5", None, "4"]
    assert (rows[1]["status_code"], rows[1]["error"]) == (400, "the prompt is too long")


def test_answers_of_an_engine_that_dies_are_kept(tmp_path: Path) -> None:
    batch = Batch(tmp_path, ["a", "b", "c", "d"], tmp_path)
    make_runtime(tmp_path, tmp_path, dies_after=2)
    with pytest.raises(JobFailed, match="ended early: RuntimeError: the engine broke"):
        batch.run()
    make_runtime(tmp_path, tmp_path)
    (tmp_path / "prompts.jsonl").unlink()

    rows = batch.run()

    assert prompts_of(tmp_path) == ["c", "d"]
    assert [row["result"] for row in rows] == ["1", "1", "1", "1"]


def test_an_old_standard_library_is_named_with_its_remedy(tmp_path: Path) -> None:
    broken = (
        "ImportError: /usr/lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found "
        "(required by /opt/vllm/_C.abi3.so)"
    )
    make_runtime(tmp_path, tmp_path, before=broken)

    with pytest.raises(JobFailed) as error:
        Batch(tmp_path, ["a"], tmp_path).run()

    assert "/usr/lib/libstdc++.so.6 is older than GLIBCXX_3.4.32" in error.value.message
    assert "libstdcxx-ng" in error.value.message


def test_a_missing_model_folder_is_named(tmp_path: Path) -> None:
    make_runtime(tmp_path, tmp_path)

    with pytest.raises(InvalidRequest, match="no model folder /nowhere"):
        Batch(tmp_path, ["a"], tmp_path, "/nowhere").run()


def test_settings_without_effect_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_runtime(tmp_path, tmp_path)

    Batch(tmp_path, ["a"], tmp_path).run({"use_beam_search": True, "n": 2, "top_p": 0.5})

    assert "beam search ignores top_p" in capsys.readouterr().err


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    installed_runtime("vllm")
    return make_tiny_model(tmp_path_factory.mktemp("models"))


@pytest.mark.runtime
def test_vllm_answers_every_record(model: Path, tmp_path: Path) -> None:
    texts = ["one", "two", "x" * 100_000, "one"]
    batch = Batch(tmp_path, texts, FOLDER, str(model))

    rows = batch.run({"temperature": 0, "max_tokens": 6, "min_tokens": 6, "n": 1})

    assert [row["status_code"] for row in rows] == [200, 200, 400, 200]
    assert rows[0]["result"] == rows[3]["result"]
    assert rows[0]["usage"]["completion_tokens"] == 6
    assert "tokens; the model takes" in rows[2]["error"]


@pytest.mark.runtime
def test_beam_search_gives_its_beams(model: Path, tmp_path: Path) -> None:
    batch = Batch(tmp_path, ["one", "two"], FOLDER, str(model))

    rows = batch.run({"use_beam_search": True, "n": 3, "max_tokens": 4, "temperature": 0})

    assert all(len(row["result"]) == 3 for row in rows)
    assert all(row["usage"]["completion_tokens"] <= 12 for row in rows)


@pytest.mark.runtime
def test_a_killed_command_leaves_no_engine_and_goes_on(model: Path, tmp_path: Path) -> None:
    batch = Batch(tmp_path, [f"text {number}" for number in range(400)], FOLDER, str(model))
    command = [sys.executable, "-m", "temper", "batch", "--local", "--model", str(model)]
    command += ["--prompts", str(batch.records), "--template", str(batch.template)]
    command += ["-o", str(batch.output), "--max-tokens", "64", "--body", "min_tokens=64"]
    environment = {**os.environ, "TEMPER_RUNTIMES": str(FOLDER)}
    rows = rows_folder(batch.output) / "rows.jsonl"

    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: rows.exists() and rows.stat().st_size > 0, "an answer", 240)
        engines = _children(process.pid)
        process.send_signal(signal.SIGKILL)
    kept = rows.read_bytes().count(b"\n")
    gone = [Path(f"/proc/{engine}") for engine in engines]
    wait_for(lambda: not any(each.exists() for each in gone), "the engine ends")
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )

    assert engines
    assert done.returncode == 0, done.stderr
    assert len(json.loads(batch.output.read_text())) == 400
    assert 0 < kept < 400
    assert rows.read_bytes().count(b"\n") - kept <= 400 - kept + 1  # a torn row is written again


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
