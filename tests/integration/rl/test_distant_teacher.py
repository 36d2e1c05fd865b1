"""Distillation from a remote teacher: a real vLLM server with a key."""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from pydantic import AnyHttpUrl

from services.contracts.engine import VllmOptions
from services.contracts.origins import origin_of
from services.core.artifacts import ModelSource
from services.core.operator_environment import OperatorEnvironment
from services.inference.vllm.launch import Routes
from services.inference.vllm.server import VllmServer
from services.rollouts.log.log import read_indexed
from services.trainer.rl.spec import RemoteTeacher
from tests.integration.rl.training_job import OnlineJob
from tests.support.models.tiny_model import SCRIPT, make_tiny_model
from tests.support.runtimes import installed_runtime

pytestmark = [pytest.mark.runtime, pytest.mark.long, pytest.mark.timeout(900)]

NAME = "teacher"
ENGINE = {"max_model_len": 512, "cpu_kv_cache_gib": 0.1}
WHOLE_VOCABULARY = 1024
SETTINGS = {
    "steps": 2,
    "prompts_per_step": 4,
    "max_prompt_length": 256,
    "max_staleness": 0,
    "lmbda": 1.0,
    "sampling": {"max_tokens": 24},
    "optimizer": {"learning_rate": 1e-2},
    "engine": ENGINE,
}


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "student")


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same architecture and tokenizer with other weights."""
    folder = tmp_path_factory.mktemp("models") / NAME
    python = installed_runtime("training").python
    command = [str(python), str(SCRIPT), str(folder), "--seed", "7"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def server(teacher: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """The teacher, served elsewhere as far as the training can tell."""
    server = VllmServer(
        installed_runtime("vllm").python,
        ModelSource(path=teacher),
        NAME,
        [],
        tmp_path_factory.mktemp("server"),
        VllmOptions.model_validate(ENGINE),
        routes=Routes(tokens=True),
    )
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server):
        yield server


def distant(server: VllmServer, top_k: int) -> dict[str, Any]:
    """The server as a job's teacher, with the operator's key for it."""
    url = AnyHttpUrl(server.base_url)
    keys = OperatorEnvironment(endpoint_keys={origin_of(url): server.api_key})
    teacher = RemoteTeacher(base_url=url, model=NAME, top_k=top_k)
    return {"teacher": teacher, "environment": keys.variables()}


def settings(teacher: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    return {"hyperparameters": {**SETTINGS, "teacher": teacher, **changes}}


def test_full_top_k_teaches_the_same_as_the_local_model(
    server: VllmServer, student: Path, teacher: Path, tmp_path: Path
) -> None:
    by_model = settings({"type": "model", "model": NAME})
    url = {"type": "url", "base_url": server.base_url, "model": NAME, "top_k": WHOLE_VOCABULARY}
    here = OnlineJob(
        tmp_path / "here", student, "distillation", teacher=teacher, held_out=3, **by_model
    )
    there = OnlineJob(
        tmp_path / "there",
        student,
        "distillation",
        held_out=3,
        **distant(server, WHOLE_VOCABULARY),
        **settings(url),
    )
    here.run()
    there.run()

    before, after = here.metrics()[0]["eval_loss"], here.metrics()[-1]["eval_loss"]
    assert there.metrics()[0]["eval_loss"] == pytest.approx(before, rel=1e-2)
    assert there.metrics()[-1]["eval_loss"] == pytest.approx(after, rel=1e-2)
    assert before != after
    for expected, found in zip(here.metrics()[1:], there.metrics()[1:], strict=True):
        assert found["trained_tokens"] == expected["trained_tokens"]
        assert found["loss"] == pytest.approx(expected["loss"], rel=1e-2)
        assert found["loss"] > 0


def test_remote_teacher_samples_and_top_k_are_trained_on(
    server: VllmServer, student: Path, tmp_path: Path
) -> None:
    url = {"type": "url", "base_url": server.base_url, "model": NAME, "top_k": 20}
    changes: dict[str, Any] = {"lmbda": 0.0, "seq_kd": True, "steps": 12, "beta": 0.0}
    changes["optimizer"] = {"learning_rate": 1e-3}
    job = OnlineJob(
        tmp_path / "job", student, "distillation", **distant(server, 20), **settings(url, **changes)
    )
    job.run()

    losses = [metrics["loss"] for metrics in job.metrics()]
    assert fmean(losses[-3:]) < 0.9 * fmean(losses[:3])
    versions = {v for t in read_indexed(job.folder) for v in t.policy_versions}
    assert versions == {-1}


def test_missing_teacher_fails_the_job_with_the_server_error(
    server: VllmServer, student: Path, tmp_path: Path
) -> None:
    url = {"type": "url", "base_url": server.base_url, "model": "another", "top_k": 20}
    given = distant(server, 20)
    given["teacher"] = given["teacher"].model_copy(update={"model": "another"})
    job = OnlineJob(tmp_path / "job", student, "distillation", **given, **settings(url))

    error = job.fail()
    assert "another" in error["message"]
