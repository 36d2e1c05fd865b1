"""What a model's folder says of how its vectors are made."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any


class ModelUnusable(Exception):
    """There is no such model, or it is none that texts can be encoded with; says why."""


_PLAIN = ("Transformer", "Pooling", "Normalize")
_PROMPTS = {"query": ("query",), "passage": ("passage", "document", "corpus")}


class Pooling(StrEnum):
    """How one vector is made of those of a text's tokens."""

    MEAN = "mean"
    CLS = "cls"
    OTHER = "other"  # one that only sentence-transformers knows


@dataclass(frozen=True)
class ModelConfiguration:
    """What stands in a sentence-transformers folder; ``plain`` says that all of its steps are a
    transformer, a pooling and a normalisation, so that they can be done without that library.

    ``transformer`` is the content of config.json, ``most_tokens`` what the model itself allows.
    """

    folder: Path
    transformer: dict[str, Any]
    pooling: Pooling
    plain: bool
    most_tokens: int
    lower_case: bool
    query_prompt: str | None
    passage_prompt: str | None

    @property
    def names(self) -> str:
        """Names that it goes by: the folder's, and where it was made the one before."""
        return f"{self.folder.name} {self.transformer.get('_name_or_path', '')}"


def read_configuration(folder: Path) -> ModelConfiguration:
    """Read a model's folder; raises `ModelUnusable`. A bare transformer is pooled by the mean."""
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
        most_tokens=int(sentence.get("max_seq_length") or _limit(folder, transformer)),
        lower_case=bool(sentence.get("do_lower_case")),
        query_prompt=_prompt(prompts, "query"),
        passage_prompt=_prompt(prompts, "passage"),
    )


def _limit(folder: Path, transformer: dict[str, Any]) -> int:
    positions = int(transformer.get("max_position_embeddings") or 512)
    if "roberta" in str(transformer.get("model_type")):
        positions -= 2  # it and its kin count from behind the padding token
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
        raise ModelUnusable(f"{path} is no JSON object")
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
    "sentencepiece.bpe.model",
)


def fingerprint(folder: Path, *settings: object) -> str:
    """A text that two models share only if their weights, tokenizer, steps and ``settings`` do.

    What computes them, and with what precision, is not part of it: that changes vectors by less
    than searches notice.
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
