"""The walk of an evaluation: its page names the files that gateway, worker and children execute."""

import json
from pathlib import Path

import pytest

from tests.support.docs.executed import NOT_COUNTED, begin, executed, recording
from tests.support.docs.walks import named
from tests.support.gateway import GatewayClient
from tests.support.models.tiny_model import make_tiny_model
from tests.support.processes import running, running_service
from tests.support.runtimes import FOLDER
from tests.support.waiting import wait_for

pytestmark = pytest.mark.long

MACHINE = (
    "services/api/jobs/",
    "services/api/notes/",
    "services/core/web/app.py",
    "services/jobs/worker/",
    "services/rollouts/log/listings.py",
)
"""The job machine, and what answers the questions of this test."""


def test_an_evaluation_executes_the_files_that_its_page_names(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "executed"
    folder.mkdir()
    make_tiny_model(home / "models" / "base", "vllm")
    env = {"TEMPER_HOME": str(home), "TEMPER_RUNTIMES": str(FOLDER), "TEMPER_CPU_SLOTS": "1"}
    launcher, log = recording(folder), tmp_path / "log"
    with (
        running_service("services.api", env, log, launcher) as (_, url),
        running("tests.support.evaluation.recorded_worker", [str(folder)], env, log, launcher),
        GatewayClient(url, home) as client,
    ):
        client.http.post("/v1/models", json={"id": "base", "folder": "base"})
        rows = "".join(json.dumps({"prompt": f"{n}+1=", "gold": n + 1}) + "\n" for n in range(4))
        files, data = {"file": ("rows.jsonl", rows.encode())}, {"purpose": "evals"}
        file = client.http.post("/v1/files", files=files, data=data).json()["id"]
        wait_for(lambda: "devices" in log.read_text(), "the worker has started")
        begin("evaluation", folder, processes=2)
        body = {
            "model": "base",
            "file": file,
            "grader": {"type": "numeric"},
            "sampling": {"max_tokens": 4},
            "engine": {"cpu_kv_cache_gib": 0.1},
        }
        answer = client.http.post("/v1/evaluations", json=body)
        assert answer.status_code == 200, answer.text
        client.wait_until(answer.json()["id"], "succeeded", 300)
        begin("end", folder, processes=2)

    ran = executed("evaluation", folder)
    page = named("evaluation.md")
    unnamed = ran - page - named("fine-tuning-job.md", "run-code.md")
    assert {file for file in unnamed if not file.startswith((*NOT_COUNTED, *MACHINE))} == set()
    assert len(ran & page) > 60  # the page speaks of this run
