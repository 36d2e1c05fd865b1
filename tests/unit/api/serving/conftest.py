"""A gateway with a base model and an adapter, and the worker of its servings."""

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import httpx
import openai
import pytest

from tests.support.engines.serving_worker import ServingWorker
from tests.support.threaded_server import LoopThread
from tests.unit.api.tool_upstream import running_api

Value = TypeVar("Value")


@pytest.fixture
def home(tmp_path: Path, migrated: Path) -> Path:
    """A home with the folders of a base and of three adapters."""
    models = tmp_path / "home" / "models"
    (models / "base").mkdir(parents=True)
    shutil.copy(migrated, tmp_path / "home" / "temper.db")
    (models / "base" / "config.json").write_text(json.dumps({"model_type": "stub"}))
    (models / "base" / "model.safetensors").touch()
    for name, rank in (("small", 8), ("other", 8), ("large", 64)):
        (models / name).mkdir()
        config = {"peft_type": "LORA", "r": rank}
        (models / name / "adapter_config.json").write_text(json.dumps(config))
        (models / name / "adapter_model.safetensors").touch()
    return tmp_path / "home"


@pytest.fixture
def settings() -> dict[str, Any]:
    """Settings of the gateway."""
    return {"serving_wait_seconds": 60.0}


@pytest.fixture
def url(home: Path, settings: dict[str, Any], request: pytest.FixtureRequest) -> Iterator[str]:
    """The gateway; a parameter is a key that it knows."""
    headers = {"Authorization": f"Bearer {getattr(request, 'param', 'none')}"}
    bodies = [{"id": "base", "folder": "base"}]
    bodies += [
        {"id": f"team/{name}", "folder": name, "base": "base"}
        for name in ("small", "other", "large")
    ]
    with running_api(home, settings) as url:
        for body in bodies:
            answer = httpx.post(f"{url}/v1/models", json=body, headers=headers, timeout=60)
            assert answer.status_code == 200
        yield url


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    """An unmodified ``openai`` client that retries nothing."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def worker(url: str, home: Path) -> Iterator[ServingWorker]:
    with LoopThread() as loop:
        worker = ServingWorker(home, loop, gpus=("GPU-1", "GPU-2"))
        yield worker
        worker.close()


@pytest.fixture
def meanwhile() -> Iterator[Callable[[Callable[[], Value]], Future[Value]]]:
    """Start a call in a thread; returns its future."""
    with ThreadPoolExecutor(8) as pool:
        yield pool.submit
