"""An adapter that was trained with a named template is served with it, token for token."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.contracts.engine import VllmOptions
from services.core.process.reporter import RESULT, Reporter
from services.evaluator.serving import Adapter, LocalModel, served
from services.rollouts.chat import open_chat_tokens
from services.trainer.offline.spec import SPEC, TrainingSpec
from tests.support.models.tiny_model import make_tiny_model
from tests.support.runtimes import installed_runtime

pytestmark = pytest.mark.long

ASKED = {"role": "user", "content": "  One?\n\n  Two  "}


def base_without_template(folder: Path) -> Path:
    """A base as some are published: no chat template, and a class that the file is not of."""
    make_tiny_model(folder)
    (folder / "chat_template.jinja").unlink()
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_bytes()) | {"tokenizer_class": "LlamaTokenizerFast"}
    path.write_text(json.dumps(config))
    return folder


def train(base: Path, job_dir: Path) -> Path:
    """The folder of an adapter that was trained with a named template."""
    job_dir.mkdir()
    rows = job_dir / "rows.jsonl"
    answer = {"role": "assistant", "content": "Three."}
    rows.write_text(json.dumps({"messages": [ASKED, answer]}) + "\n")
    asked: dict[str, Any] = {
        "job_id": "ftjob-test",
        "stage": "sft",
        "model": {"path": str(base)},
        "training_data": {"path": str(rows)},
        "method": "lora",
        "template": "alpaca",
        "n_epochs": 1.0,
        "batch_size": 1,
        "learning_rate": 1e-3,
        "max_seq_len": 512,
        "seed": 1,
    }
    spec = TrainingSpec.model_validate_json(json.dumps(asked))
    (job_dir / SPEC).write_text(spec.model_dump_json())
    python = installed_runtime("training").python
    subprocess.run(
        [python, "-m", "services.trainer.offline", str(job_dir)],
        check=True,
        capture_output=True,
        timeout=600,
    )
    return job_dir / str(json.loads((job_dir / RESULT).read_bytes())["model_dir"])


async def prompt_ids(model: LocalModel, job_dir: Path) -> list[int]:
    """The ids of the prompt that the engine encodes for a request."""
    async with (
        served(model, job_dir, Reporter(job_dir), name="own") as (server, name),
        httpx.AsyncClient(headers={"Authorization": f"Bearer {server.api_key}"}) as client,
    ):
        body = {"model": name, "messages": [ASKED], "max_tokens": 1, "return_token_ids": True}
        answer = await client.post(f"{server.base_url}/chat/completions", json=body, timeout=300)
    ids: list[int] = answer.raise_for_status().json()["prompt_token_ids"]
    return ids


def test_an_adapter_is_asked_with_the_tokens_that_it_was_trained_on(tmp_path: Path) -> None:
    base = base_without_template(tmp_path / "base")
    adapter = train(base, tmp_path / "training")
    model = LocalModel(
        path=base,
        tokenizer=adapter,
        adapter=Adapter(name="own", path=adapter),
        runtime_python=installed_runtime("vllm").python,
        options=VllmOptions(cpu_kv_cache_gib=0.1),
    )
    (tmp_path / "serving").mkdir()

    ids = asyncio.run(prompt_ids(model, tmp_path / "serving"))

    chat = open_chat_tokens(adapter)
    assert ids == chat.prompt([ASKED], [])
    assert chat.text(ids).endswith(f"### Instruction:\n{ASKED['content']}\n\n### Response:\n")
