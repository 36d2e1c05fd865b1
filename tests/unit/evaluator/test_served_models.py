"""What vLLM is started with: the tokenizer that a model was trained with, as its file stands."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from services.core.artifacts import ModelSource
from services.core.process.reporter import REPORTS, Reporter
from services.evaluator.serving import Adapter, LocalModel, served
from services.inference.vllm import server
from services.models.tokenizer_ids.files import read_chat_templates, read_end_tokens
from tests.support.models.tokenizer_kinds import KINDS

TEMPLATE = "### {{ messages[0].content }}"


class Server:
    """As much of a VllmServer as `served` uses."""

    started: "Server"

    def __init__(
        self,
        _python: Path,
        source: ModelSource,
        name: str,
        adapters: Sequence[Any],
        *_: Any,
        **__: Any,
    ) -> None:
        self.source, self.name, self.adapters = source, name, adapters

    async def __aenter__(self) -> Self:
        type(self).started = self
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing runs."""


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a base whose tokenizer transformers would build differently."""
    monkeypatch.setattr(server, "VllmServer", Server)
    return KINDS["r1_distill_llama"].write(tmp_path / "base")


def start(model: LocalModel, job_dir: Path, name: str | None = None) -> tuple[Server, str]:
    async def enter() -> str:
        async with served(model, job_dir, Reporter(job_dir), name=name) as (_, served_name):
            return served_name

    job_dir.mkdir()
    served_name = asyncio.run(enter())
    return Server.started, served_name


def test_the_engine_loads_the_tokenizer_as_its_file_stands(weights: Path, tmp_path: Path) -> None:
    model = LocalModel(path=weights, runtime_python=tmp_path)

    server, name = start(model, tmp_path / "job", "base")

    assert (server.source.path, server.name, name) == (weights, "base", "base")
    assert server.source.tokenizer is not None
    config = json.loads((server.source.tokenizer / "tokenizer_config.json").read_bytes())
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"


def test_an_adapter_is_served_with_its_own_template_and_its_bases_end_tokens(
    weights: Path, tmp_path: Path
) -> None:
    (weights / "generation_config.json").write_text(json.dumps({"eos_token_id": 7}))
    adapter = KINDS["llama3"].write(tmp_path / "adapter")
    (adapter / "chat_template.jinja").write_text(TEMPLATE)
    model = LocalModel(
        path=weights,
        tokenizer=adapter,
        adapter=Adapter(name="own", path=adapter),
        runtime_python=tmp_path,
    )

    server, name = start(model, tmp_path / "job", "own")

    assert (server.name, name, server.adapters) == ("base-of-own", "own", [("own", adapter)])
    assert server.source.tokenizer is not None
    assert read_chat_templates(server.source.tokenizer)["default"] == TEMPLATE
    assert read_end_tokens(server.source.tokenizer) == (7,)


def test_the_sampling_defaults_of_a_model_are_said(weights: Path, tmp_path: Path) -> None:
    settings = {"eos_token_id": 7, "temperature": 0.6, "repetition_penalty": 1.05}
    (weights / "generation_config.json").write_text(json.dumps(settings))

    start(LocalModel(path=weights, runtime_python=tmp_path), tmp_path / "job")

    reports = (tmp_path / "job" / REPORTS).read_text()
    assert "temperature 0.6, repetition_penalty 1.05" in reports
