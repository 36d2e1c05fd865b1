"""Encoders of the real runtime: the built-in model and tiny ones of other architectures."""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

from services.core.process.runtimes import Runtime
from services.retrieval.encoder.client import BlockingEncoderClient
from services.retrieval.encoder.errors import EncoderUnusable
from services.retrieval.encoder.process import EncoderProcess
from services.retrieval.encoder.specification import (
    Backend,
    EncoderDescription,
    EncoderSpecification,
    TextKind,
)
from tests.support.models.onnx_file import write_lookup
from tests.support.processes import REPOSITORY
from tests.support.runtimes import FOLDER, installed_runtime

pytestmark = pytest.mark.runtime

WAIT = 240.0
Vectors = NDArray[np.float32]
TEXTS = [
    "A cat sleeps on the warm roof.",
    "The kitten naps on top of the house.",
    "Interest rates were raised by the central bank.",
    "",
    "Ünïcödé, 世界 und 🐈",
    "long " * 2000,
]


class RunningEncoder:
    """A ready encoder and a client for it."""

    def __init__(
        self,
        process: EncoderProcess,
        client: BlockingEncoderClient,
        description: EncoderDescription,
    ) -> None:
        self.process = process
        self.description = description
        self._client = client

    def encode(self, texts: Sequence[str], kind: TextKind = TextKind.PASSAGE) -> Vectors:
        return self._client.encode(texts, kind, deadline=time.monotonic() + WAIT)

    @property
    def resident_bytes(self) -> int:
        return psutil.Process(self.process.pid).memory_info().rss

    def score(self, query: str, passages: Sequence[str]) -> Vectors:
        return self._client.score(query, passages, deadline=time.monotonic() + WAIT)


@contextmanager
def running(folder: Path, **options: object) -> Iterator[RunningEncoder]:
    specification = EncoderSpecification.model_validate(options)
    log = folder / "encoder.log"
    with (
        EncoderProcess(specification, runtimes=FOLDER, log=log) as process,
        BlockingEncoderClient(process.socket) as client,
    ):
        yield RunningEncoder(process, client, process.wait_ready(WAIT))


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return installed_runtime("encoder")


@pytest.fixture(scope="module")
def built_in(
    runtime: Runtime, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningEncoder]:
    with running(tmp_path_factory.mktemp("built-in")) as encoder:
        yield encoder


@dataclass(frozen=True)
class Models:
    """Folders of tiny models by name, and the expected results of each for `TEXTS`."""

    folder: Path
    expected: dict[str, list[Any]]

    def path(self, name: str) -> str:
        return str(self.folder / name)


@pytest.fixture(scope="module")
def models(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Models:
    folder = tmp_path_factory.mktemp("models")
    (folder / "texts.json").write_text(json.dumps(TEXTS))
    script = REPOSITORY / "tests" / "support" / "models" / "encoder_models.py"
    subprocess.run([runtime.python, script, folder], check=True, capture_output=True, timeout=WAIT)
    return Models(folder, json.loads((folder / "expected.json").read_bytes()))


def min_cosine(vectors: Vectors, expected: list[Any]) -> float:
    return float(np.sum(vectors * np.asarray(expected, np.float32), axis=1).min())


def test_the_built_in_model_ranks_by_meaning(built_in: RunningEncoder) -> None:
    cat, kitten, bank = built_in.encode(TEXTS[:3])

    assert built_in.description.dimension == 384
    assert cat @ kitten > 0.5
    assert cat @ bank < 0.2


def test_vectors_match_sentence_transformers(built_in: RunningEncoder, models: Models) -> None:
    vectors = built_in.encode(TEXTS)

    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert min_cosine(vectors, models.expected["minilm"]) > 0.9995


def test_vectors_do_not_depend_on_batching(built_in: RunningEncoder) -> None:
    together = built_in.encode([*TEXTS, *(f"text number {n}" for n in range(300))])
    alone = built_in.encode(TEXTS[:1])

    assert float(alone[0] @ together[0]) > 0.9995


def test_the_better_passage_scores_higher(built_in: RunningEncoder) -> None:
    scores = built_in.score("Where is the cat?", TEXTS[:3])

    assert scores.argmin() == 2


def test_a_killed_encoder_restarts_with_the_same_vectors(built_in: RunningEncoder) -> None:
    before = built_in.encode(TEXTS[:1])
    restarts = built_in.process.restarts

    os.kill(built_in.process.pid or 0, signal.SIGKILL)

    np.testing.assert_allclose(built_in.encode(TEXTS[:1]), before, atol=1e-3)
    assert built_in.process.restarts == restarts + 1


@pytest.mark.parametrize("passages", [8_000, pytest.param(40_000, marks=pytest.mark.long)])
def test_memory_stays_bounded_over_many_batch_shapes(
    runtime: Runtime, tmp_path: Path, passages: int
) -> None:
    chance = random.Random(1)
    texts = [" ".join(["passage"] * chance.randint(1, 60)) for _ in range(2_000 + passages)]
    with running(tmp_path) as encoder:
        encoder.encode(texts[:2_000])
        warm = encoder.resident_bytes

        for start in range(2_000, len(texts), 2_000):
            encoder.encode(texts[start : start + 2_000])

        assert encoder.resident_bytes - warm < 200 << 20  # 330 MiB without bounds


@pytest.mark.parametrize("name", ["e5-tiny", "bge-tiny"])
def test_a_model_gets_the_prefixes_of_its_family(models: Models, tmp_path: Path, name: str) -> None:
    with running(tmp_path, model=models.path(name)) as encoder:
        queries, passages = encoder.encode(TEXTS, TextKind.QUERY), encoder.encode(TEXTS)

    of_queries, of_passages = models.expected[name]
    assert min_cosine(queries, of_queries) > 0.999
    assert min_cosine(passages, of_passages) > 0.999


def test_other_models_and_cross_encoders_run_in_sentence_transformers(
    models: Models, tmp_path: Path
) -> None:
    options = {"model": models.path("roberta"), "reranker": models.path("cross")}
    with running(tmp_path, **options) as encoder:
        vectors = encoder.encode(TEXTS)
        scores = encoder.score(TEXTS[0], TEXTS)

    assert min_cosine(vectors, models.expected["roberta"][1]) > 0.999
    np.testing.assert_allclose(scores, models.expected["cross"], atol=1e-4)


def test_static_embeddings_run_in_sentence_transformers(models: Models, tmp_path: Path) -> None:
    with running(tmp_path, model=models.path("static")) as encoder:
        vectors = encoder.encode(TEXTS)
        short, long = encoder.encode(["a " * 256, "a " * 256 + "b " * 2000])

    expected = np.asarray(models.expected["static"][1])
    written = [number for number, text in enumerate(TEXTS) if text]
    assert min_cosine(vectors[written], list(expected[written])) > 0.999
    assert not vectors[TEXTS.index("")].any()
    assert float(short @ long) > 0.999


def test_a_model_of_another_kind_is_reported_with_the_supported_ones(
    models: Models, tmp_path: Path
) -> None:
    with (
        pytest.raises(EncoderUnusable, match="first module is a Transformer or a StaticEmbedding"),
        running(tmp_path, model=models.path("routed")),
    ):
        pass


def test_onnx_runs_when_there_are_no_other_weights(models: Models, tmp_path: Path) -> None:
    folder = tmp_path / "lookup"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_bytes((models.folder / "bare" / "e5-tiny" / name).read_bytes())
    table = np.random.default_rng(0).standard_normal((64, 8)).astype(np.float32)
    write_lookup(folder / "onnx" / "model.onnx", table)

    with running(tmp_path, model=str(folder), passage_prefix="") as encoder:
        assert encoder.description.backend is Backend.ONNX
        vectors = encoder.encode(["a", "", "a"] * 20)

    # [CLS] and [SEP] are tokens 2 and 3, and the letters follow from 5 on.
    for vector, tokens in zip(vectors, [[2, 5, 3], [2, 3], [2, 5, 3]] * 20, strict=True):
        mean = table[tokens].mean(axis=0)
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"model": "/no/such/folder"}, "no folder /no/such/folder"),
        ({"model": "minilm", "backend": "onnx"}, "no ONNX file"),
        ({"reranker": "/no/such/reranker"}, "no folder /no/such/reranker"),
    ],
)
def test_an_unavailable_model_is_reported_with_the_reason(
    runtime: Runtime, tmp_path: Path, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(EncoderUnusable, match=reason), running(tmp_path, **options):
        pass
