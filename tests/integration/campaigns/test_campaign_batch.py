"""A batch of campaigns and a registered data set, by the command line on real processes."""

import json
from pathlib import Path
from typing import Any

import pytest

from temper.cli.main import main
from tests.integration.campaigns.test_campaigns import BAD, Script, question, running_campaigns
from tests.support.waiting import wait_for

SUMS = [(first, 2) for first in range(200, 230)]


def rows_of_gsm8k(folder: Path) -> None:
    """The benchmark's rows, in its published schema."""
    (folder / "benchmarks").mkdir()
    rows = [
        {"question": question(a, 1), "answer": f"{a} and 1.\n#### {a + 1}"} for a in range(100, 140)
    ]
    path = folder / "benchmarks" / "gsm8k.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_tasks_on_one_card_wait_and_a_task_on_any_runs_with_a_registered_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows_of_gsm8k(tmp_path)
    data = tmp_path / "sums.json"
    data.write_text(json.dumps([{"question": question(a, b), "answer": "0"} for a, b in SUMS]))
    with running_campaigns(tmp_path) as campaigns, campaigns.worker():
        campaigns.llm.answer = Script({loop: [BAD] for loop in range(1, 1001)})
        client = campaigns.client
        monkeypatch.setenv("TEMPER_API_URL", str(client.http.base_url))
        environment = {
            "CHAT_MODEL": "scripted",
            "OPENAI_API_BASE": f"{campaigns.llm.origin}/v1",
            "FT_FILE_PATH": str(tmp_path),
            "FT_BENCHMARK_LIMIT": "30",
            "FT_UPPER_DATA_SIZE_LIMIT": "10",
        }
        lines = "".join(f"{key}={value}\n" for key, value in environment.items())
        (tmp_path / "batch.env").write_text(lines)
        tasks = [{"model": "base", "benchmark": "gsm8k", "gpus": gpus} for gpus in ("0", "0", "")]
        (tmp_path / "tasks.json").write_text(json.dumps({"tasks": tasks}))

        assert main(["datasets", "add", "sums", str(data), "--license", "mit"]) == 0
        capsys.readouterr()
        batch = ["campaign", "batch", str(tmp_path / "tasks.json")]
        assert main([*batch, "--env-file", str(tmp_path / "batch.env")]) == 0
        first, second, free = capsys.readouterr().out.split()

        def job(job_id: str) -> dict[str, Any]:
            return client.job(job_id)

        wait_for(lambda: job(second)["queue_reason"] == f"waiting for {first}", "it waits", 60)
        wait_for(lambda: "waiting for eval" in (job(first)["queue_reason"] or ""), "no card", 60)
        assert campaigns.loops(second) == []
        client.cancel(first)
        wait_for(lambda: "waiting for eval" in (job(second)["queue_reason"] or ""), "its turn", 60)

        def attempts() -> list[dict[str, Any]]:
            return [each for each in campaigns.loops(free) if "record" in each["steps"]]

        wait_for(lambda: len(attempts()) >= 1, "an attempt is recorded", 120)
        client.cancel(free)
        output = campaigns.get(f"{free}/loops/1/running")["output"]
        assert output["rows"] == 10
        questions = campaigns.questions_of(free, "question")
        assert len(questions) == 30
        client.cancel(second)
        wait_for(lambda: job(free)["status"] == job(second)["status"] == "cancelled", "end", 60)
