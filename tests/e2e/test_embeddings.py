"""Embeddings from a real engine by the openai package, compared to sentence-transformers."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import openai
import pytest
from openai.types import Batch

from services.contracts.models.registered import RegisterModel
from services.core.process.runtimes import REPOSITORY
from tests.e2e.conftest import Platform, running_platform
from tests.support.models.tiny_model import make_tiny_model
from tests.support.runtimes import installed_runtime
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.runtime, pytest.mark.timeout(600)]

LIMIT_SECONDS = 240.0
TEXTS = ["kitten on a roof", "banks", "a", "kittens on roofs"]
MODELS = ("encoder", "reader")
ENDED = ("completed", "failed", "expired", "cancelled")


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A platform with a pooled BERT and a pooled language model."""
    installed_runtime("vllm")
    python = installed_runtime("encoder").python
    home = tmp_path_factory.mktemp("embeddings")
    folder = home / "models"
    make_tiny_model(folder / "reader", "vllm")
    (folder / "texts.json").write_text(json.dumps(TEXTS))
    script = REPOSITORY / "tests" / "support" / "models" / "embedding_models.py"
    subprocess.run([python, script, folder], check=True, capture_output=True, timeout=300)
    with running_platform(home, {"HF_HUB_OFFLINE": "1"}, ["evaluator"]) as platform:
        for name in MODELS:
            platform.temper.models.register(RegisterModel(id=name, folder=name))
        yield platform


@pytest.fixture
def client(platform: Platform) -> Iterator[openai.OpenAI]:
    url = f"{platform.url}/v1"
    with openai.OpenAI(
        base_url=url, api_key="none", max_retries=6, timeout=LIMIT_SECONDS
    ) as client:
        yield client


def expected(platform: Platform, model: str) -> list[list[float]]:
    path: Path = platform.home / "models" / "expected.json"
    vectors: list[list[float]] = json.loads(path.read_bytes())[model]
    return vectors


def similarity(first: Sequence[float], second: Sequence[float]) -> float:
    """The cosine of two unit vectors."""
    return sum(a * b for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("model", MODELS)
def test_vectors_are_those_of_sentence_transformers(
    platform: Platform, client: openai.OpenAI, model: str
) -> None:
    answer = client.embeddings.create(model=model, input=TEXTS)  # as base64, on the wire

    vectors = [each.embedding for each in answer.data]
    assert [each.index for each in answer.data] == [0, 1, 2, 3]
    for vector, wanted in zip(vectors, expected(platform, model), strict=True):
        assert similarity(vector, wanted) == pytest.approx(1.0, abs=1e-3)
    assert similarity(vectors[0], vectors[1]) < 0.99  # or any vector would do
    assert answer.usage.total_tokens == answer.usage.prompt_tokens > 0
    (floats,) = client.embeddings.create(model=model, input=TEXTS[0], encoding_format="float").data
    assert floats.embedding == pytest.approx(vectors[0], abs=1e-4)


def test_token_ids_are_embedded_and_bad_requests_refused(client: openai.OpenAI) -> None:
    embed = client.embeddings.create

    pair = embed(model="reader", input=[[40, 41], [42]]).data

    assert len(pair) == 2
    assert similarity(pair[0].embedding, pair[0].embedding) == pytest.approx(1.0, abs=1e-3)
    assert pair[0].embedding == pytest.approx(
        embed(model="reader", input=[40, 41]).data[0].embedding, abs=1e-4
    )
    with pytest.raises(openai.BadRequestError, match="dimensions"):
        embed(model="reader", input="a", dimensions=4)
    with pytest.raises(openai.BadRequestError):
        embed(model="reader", input="a" * 9000)
    with pytest.raises(openai.BadRequestError):
        embed(model="reader", input=[])
    with pytest.raises(openai.BadRequestError, match="generates no text"):
        client.completions.create(model="reader", prompt="a")


def test_a_batch_embeds_every_line(platform: Platform, client: openai.OpenAI) -> None:
    url = "/v1/embeddings"
    lines = [
        {"custom_id": str(index), "method": "POST", "url": url}
        | {"body": {"model": "reader", "input": text}}
        for index, text in enumerate(TEXTS)
    ]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    file = client.files.create(file=("batch.jsonl", content), purpose="batch")

    batch = client.batches.create(
        input_file_id=file.id, endpoint="/v1/embeddings", completion_window="24h"
    )

    def ended() -> Batch | None:
        now = client.batches.retrieve(batch.id)
        return now if now.status in ENDED else None

    done = wait_for(ended, "the batch has ended", LIMIT_SECONDS)
    assert (done.status, done.error_file_id) == ("completed", None)
    assert done.output_file_id is not None
    answers = map(json.loads, client.files.content(done.output_file_id).text.splitlines())
    bodies = {each["custom_id"]: each["response"]["body"] for each in answers}
    for index, wanted in enumerate(expected(platform, "reader")):
        (embedded,) = bodies[str(index)]["data"]
        assert similarity(embedded["embedding"], wanted) == pytest.approx(1.0, abs=1e-3)
        assert bodies[str(index)]["model"] == "reader"
