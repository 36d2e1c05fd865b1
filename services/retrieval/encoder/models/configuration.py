"""Reads a model's folder: pooling, limits, prompts, and a fingerprint of its files."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any


class ModelUnusable(Exception):
    """The model is missing or cannot encode texts; the message says why."""


_PLAIN = ("Transformer", "Pooling", "Normalize")
_PROMPTS = {"query": ("query",), "passage": ("passage", "document", "corpus")}


class Pooling(StrEnum):
    """How token vectors are pooled into one."""

    MEAN = "mean"
    CLS = "cls"
    OTHER = "other"  # left to sentence-transformers


@dataclass(frozen=True)
class ModelConfiguration:
    """Configuration of a sentence-transformers folder.

    ``plain`` means that its steps are only a transformer, pooling and normalization, which we can
    run without that library. ``transformer`` is config.json, ``token_limit`` the model's own limit.
    """

    folder: Path
    transformer: dict[str, Any]
    pooling: Pooling
    plain: bool
    token_limit: int
    lower_case: bool
    query_prompt: str | None
    passage_prompt: str | None

    @property
    def names(self) -> str:
        """The folder's name and the name it was created under."""
        return f"{self.folder.name} {self.transformer.get('_name_or_path', '')}"


def read_configuration(folder: Path) -> ModelConfiguration:
    """Read a model's folder; raises `ModelUnusable`. A bare transformer is mean-pooled."""
    transformer = _table(folder / "config.json")
    modules = _read(folder / "modules.json") or []
    kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
    paths = {kind: folder / module["path"] for kind, module in zip(kinds, modules, strict=True)}
    sentence = _table(paths.get("Transformer", folder) / "sentence_bert_config.json")
    prompts = _table(folder / "config_sentence_transformers.json").get("prompts") or {}
    return ModelConfiguration(
        folder=folder,
        transformer=transformer,
        pooling=_pooling(paths["Pooling"]) if "Pooling" in paths else Pooling.MEAN,
        plain=all(kind in _PLAIN for kind in kinds) and paths.get("Transformer", folder) == folder,
        token_limit=int(sentence.get("max_seq_length") or _limit(folder, transformer)),
        lower_case=bool(sentence.get("do_lower_case")),
        query_prompt=_prompt(prompts, "query"),
        passage_prompt=_prompt(prompts, "passage"),
    )


def _limit(folder: Path, transformer: dict[str, Any]) -> int:
    positions = int(transformer.get("max_position_embeddings") or 512)
    if "roberta" in str(transformer.get("model_type")):
        positions -= 2  # RoBERTa positions start after the padding index
    wanted = _table(folder / "tokenizer_config.json").get("model_max_length") or positions
    return int(min(wanted, positions))


def _pooling(folder: Path) -> Pooling:
    table = _table(folder / "config.json")
    modern = table.get("pooling_mode")
    chosen = {name.removeprefix("pooling_mode_") for name, value in table.items() if value is True}
    chosen -= {"include_prompt"}
    if modern == "mean" or chosen == {"mean_tokens"}:
        return Pooling.MEAN
    return Pooling.CLS if modern == "cls" or chosen == {"cls_token"} else Pooling.OTHER


def _prompt(prompts: dict[str, Any], kind: str) -> str | None:
    found = (prompts.get(name) for name in _PROMPTS[kind])
    return next((str(prompt) for prompt in found if prompt), None)


def _table(path: Path) -> dict[str, Any]:
    content = _read(path)
    if content is not None and not isinstance(content, dict):
        raise ModelUnusable(f"{path} is not a JSON object")
    return content or {}


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ModelUnusable(f"{path}: {error}") from None


_PIECE = 1 << 20
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "onnx/model.onnx*")
_SETTINGS = ("config.json", "modules.json", "sentence_bert_config.json", "*_*/config.json")
_TOKENIZERS = (
    *("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "tokenizer.model"),
    *("sentencepiece.bpe.model", "*_*/tokenizer.json"),
)


def fingerprint(folder: Path, *settings: object) -> str:
    """A hash of weights, tokenizer, modules and ``settings``.

    Backend and precision are not part of it: their effect on vectors is too small to matter for
    search.
    """
    digest = hashlib.sha256(json.dumps(settings).encode())
    for path in _deciding(folder):
        digest.update(f"\0{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
        with open(path, "rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
    return digest.hexdigest()[:32]


def _deciding(folder: Path) -> Iterator[Path]:
    for pattern in (*_SETTINGS, *_TOKENIZERS):
        yield from sorted(folder.glob(pattern))
    weights = (sorted(folder.rglob(pattern)) for pattern in _WEIGHTS)
    yield from next((found for found in weights if found), [])
