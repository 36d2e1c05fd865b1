"""Loading the encoder that a specification asks for."""

import os
from pathlib import Path

from services.retrieval.encoder.models.configuration import (
    ModelConfiguration,
    read_configuration,
)
from services.retrieval.encoder.models.encoder import Encoder, Scorer
from services.retrieval.encoder.models.errors import ModelUnusable
from services.retrieval.encoder.models.fingerprint import fingerprint
from services.retrieval.encoder.models.location import locate
from services.retrieval.encoder.models.vectorizer import Vectorizer
from services.retrieval.encoder.prefixes import Prefixes, prefixes_of
from services.retrieval.encoder.specification import (
    Backend,
    EncoderDescription,
    EncoderSpecification,
)

# Libraries are imported where a model needs them: torch alone takes seconds.
# ruff: noqa: PLC0415


def load(specification: EncoderSpecification) -> Encoder:
    """Load a model, which may be fetched first; raises `ModelUnusable`."""
    folder = locate(specification.model, onnx=specification.backend is Backend.ONNX)
    reranker = locate(specification.reranker) if specification.reranker is not None else None
    configuration = read_configuration(folder)
    threads = specification.threads or len(os.sched_getaffinity(0))
    backend = _backend(specification.backend, configuration)
    device = _device(specification.device, backend)
    max_tokens = min(specification.max_tokens, configuration.most_tokens)
    vectorizer = _vectorizer(backend, configuration, max_tokens, device, threads)
    prefixes = _prefixes(specification, configuration)
    description = EncoderDescription(
        model=specification.model,
        fingerprint=fingerprint(folder, prefixes.query, prefixes.passage, max_tokens),
        dimension=vectorizer.dimension,
        query_prefix=prefixes.query,
        passage_prefix=prefixes.passage,
        max_tokens=max_tokens,
        backend=backend,
        device=vectorizer.device,
        reranker=specification.reranker,
    )
    scorer = _scorer(reranker, specification, threads) if reranker is not None else None
    return Encoder(vectorizer, description, threads, scorer)


def _backend(wanted: Backend, configuration: ModelConfiguration) -> Backend:
    """torch, measured the quickest, unless ONNX is asked for or all there is."""
    from services.retrieval.encoder.models.onnx import onnx_file

    if wanted is not Backend.AUTO:
        return wanted
    folder = configuration.folder
    has_weights = any(
        any(folder.glob(pattern)) for pattern in ("*.safetensors", "pytorch_model*.bin")
    )
    return Backend.TORCH if has_weights or onnx_file(folder) is None else Backend.ONNX


def _device(wanted: str, backend: Backend) -> str:
    if backend is Backend.ONNX:
        if wanted.startswith("cuda"):
            raise ModelUnusable(f"ONNX models run on the CPU, and {wanted} is asked for")
        return "cpu"
    import torch

    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted != "cpu" and not torch.cuda.is_available():
        raise ModelUnusable(f"device {wanted} is asked for, and torch finds no GPU")
    return wanted


def _vectorizer(
    backend: Backend,
    configuration: ModelConfiguration,
    max_tokens: int,
    device: str,
    threads: int,
) -> Vectorizer:
    if backend is Backend.ONNX:
        from services.retrieval.encoder.models.onnx import OnnxModel

        return OnnxModel(configuration, max_tokens)
    from services.retrieval.encoder.models.packed_bert import PackedBert, fits

    if device == "cpu" and fits(configuration):
        return PackedBert(configuration, max_tokens)
    from services.retrieval.encoder.models.sentence import SentenceModel

    return SentenceModel(configuration, max_tokens, device, threads)


def _prefixes(specification: EncoderSpecification, configuration: ModelConfiguration) -> Prefixes:
    """What is asked for, else what the model says itself, else what its family is known for."""
    family = prefixes_of(f"{specification.model} {configuration.names}")
    query, passage = specification.query_prefix, specification.passage_prefix
    if query is None:
        query = configuration.query_prompt or family.query
    if passage is None:
        passage = configuration.passage_prompt or family.passage
    return Prefixes(query, passage)


def _scorer(folder: Path, specification: EncoderSpecification, threads: int) -> Scorer:
    from services.retrieval.encoder.models.sentence import Reranker

    device = _device(specification.device, Backend.TORCH)
    max_tokens = min(specification.max_tokens, read_configuration(folder).most_tokens)
    return Reranker(str(folder), max_tokens, device, threads)
