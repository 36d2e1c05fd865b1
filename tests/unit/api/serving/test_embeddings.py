"""Embeddings through the gateway, with the unmodified ``openai`` package."""

import json
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.support.engines.serving_worker import RunningServing, ServingWorker
from tests.support.engines.stand_in import KEY

STEP_SECONDS = 60.0
Meanwhile = Callable[[Callable[[], Any]], Future[Any]]


def register(url: str, home: Path, name: str, architecture: str) -> None:
    folder = home / "models" / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    (folder / "model.safetensors").touch()
    body = {"id": name, "folder": name}
    assert httpx.post(f"{url}/v1/models", json=body, timeout=60).status_code == 200


@pytest.fixture
def serving(
    url: str, home: Path, client: openai.OpenAI, worker: ServingWorker, meanwhile: Meanwhile
) -> RunningServing:
    """The serving of ``embedder``, which a first request has started."""
    register(url, home, "embedder", "BertModel")
    first = meanwhile(lambda: client.embeddings.create(model="embedder", input="hello"))
    serving = worker.serve_next(model="embedder")
    assert first.result(STEP_SECONDS).data[0].embedding == [5.0, 0.5]
    return serving


def test_texts_are_embedded_in_order(serving: RunningServing, client: openai.OpenAI) -> None:
    result = client.embeddings.create(model="embedder", input=["a", "abc"], encoding_format="float")

    assert [each.embedding for each in result.data] == [[1.0, 0.5], [3.0, 0.5]]
    assert (result.model, result.usage.total_tokens) == ("embedder", 3)
    assert serving.engine.keys == {f"Bearer {KEY}"}
    sent = serving.engine.bodies
    assert [body["encoding_format"] for body in sent] == ["base64", "float"]  # as the client wrote
    assert serving.claim.job.request["model"] == "embedder"


def test_an_error_of_the_engine_keeps_its_class(
    serving: RunningServing, client: openai.OpenAI
) -> None:
    with pytest.raises(openai.BadRequestError, match="does not support other dimensions"):
        client.embeddings.create(model="embedder", input="a", dimensions=1)


def test_text_generation_by_an_embedding_model_is_rejected(
    serving: RunningServing, client: openai.OpenAI
) -> None:
    with pytest.raises(openai.BadRequestError, match="generates no text") as refused:
        client.completions.create(model="embedder", prompt="hi")

    assert (refused.value.code, refused.value.param) == ("not_a_text_model", "model")
    assert len(serving.engine.bodies) == 1


def test_no_engine_is_started_for_an_unsupported_route(
    url: str, home: Path, client: openai.OpenAI, worker: ServingWorker
) -> None:
    register(url, home, "writer", "Qwen3ForCausalLM")
    register(url, home, "embedder", "BertModel")

    with pytest.raises(openai.BadRequestError, match="computes no embeddings") as refused:
        client.embeddings.create(model="writer", input="hi")
    with pytest.raises(openai.BadRequestError, match="generates no text"):
        client.chat.completions.create(
            model="embedder", messages=[{"role": "user", "content": "hi"}]
        )
    with pytest.raises(openai.BadRequestError, match="computes no embeddings"):
        client.embeddings.create(model="run:ftjob-1", input="hi")
    with pytest.raises(openai.NotFoundError, match="no model 'absent'"):
        client.embeddings.create(model="absent", input="hi")

    assert (refused.value.code, refused.value.param) == ("not_an_embedding_model", "model")
    assert worker.jobs() == []
