"""LLaMA-Factory's named datasets, as ``dataset_info.json`` describes them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.contracts.errors import InvalidRequest
from services.contracts.training.rows import RowKind, ScriptReference
from services.contracts.validation import first_fault

NAME = "dataset_info.json"
DEFAULT_FOLDER = "data"
MAX_BYTES = 8 << 20
UPLOADABLE = frozenset({".json", ".jsonl", ".parquet"})
PLAIN_TEXT = ".txt"
"""A file whose lines are rows of text."""
MEDIA = ("images", "videos", "audios")


class Columns(BaseModel):
    """Maps columns to the keys of a row; null for unused ones."""

    model_config = ConfigDict(extra="forbid")

    prompt: str | None = None
    query: str | None = None
    response: str | None = None
    history: str | None = None
    messages: str | None = None
    system: str | None = None
    tools: str | None = None
    chosen: str | None = None
    rejected: str | None = None
    kto_tag: str | None = None
    images: str | None = None
    videos: str | None = None
    audios: str | None = None


class Tags(BaseModel):
    """Keys and role names of a message."""

    role_tag: str = "from"
    content_tag: str = "value"
    user_tag: str = "human"
    assistant_tag: str = "gpt"
    observation_tag: str = "observation"
    function_tag: str = "function_call"
    system_tag: str = "system"


ANSWERS = {"chosen": "chosen", "rejected": "rejected", "kto_tag": "kto_tag"}
ALPACA = Columns(prompt="instruction", query="input", response="output", **ANSWERS)
SHAREGPT = Columns(messages="conversations", **ANSWERS)
SHAREGPT_TAGS = Tags()


class Entry(BaseModel):
    """One dataset as ``dataset_info.json`` describes it."""

    file_name: str | None = None
    hf_hub_url: str | None = None
    script_url: str | None = Field(default=None, min_length=1, max_length=200)
    formatting: Literal["alpaca", "sharegpt"] = "alpaca"
    ranking: bool = False
    subset: str | None = None
    split: str = "train"
    folder: str | None = None
    num_samples: int | None = Field(default=None, ge=1)
    columns: Columns | None = None
    tags: Tags | None = None


@dataclass(frozen=True)
class Dataset:
    """A resolved dataset: a local file, a dataset name on the hub, or a script on the operator's
    machine."""

    name: str
    entry: Entry
    source: Path | str | ScriptReference

    @property
    def is_plain(self) -> bool:
        """Whether the gateway can read the file unchanged: default columns, all rows."""
        entry = self.entry
        is_text = isinstance(self.source, Path) and self.source.suffix == PLAIN_TEXT
        is_default = entry.columns is None and entry.tags is None
        return is_default and entry.num_samples is None and not is_text


class DatasetInfo:
    """The datasets of one ``dataset_info.json``. Every method raises `InvalidRequest`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.stat().st_size > MAX_BYTES:
            raise InvalidRequest(f"{path}: larger than {MAX_BYTES} bytes")
        try:
            self._content = json.loads(path.read_bytes())
        except ValueError as error:
            raise InvalidRequest(f"{path}: not JSON: {error}") from error
        if not isinstance(self._content, dict):
            raise InvalidRequest(f"{path}: not an object of datasets by name")

    @classmethod
    def of(cls, job_file: Path, dataset_dir: str | None) -> "DatasetInfo":
        """Find the file. ``dataset_dir`` is relative to the working directory, as LLaMA-Factory
        reads it, or to a folder above the training file, as in its repository."""
        folder = dataset_dir or DEFAULT_FOLDER
        bases = [Path.cwd(), *job_file.resolve().parents]
        for base in bases:
            path = base / folder / NAME
            if path.is_file():
                return cls(path)
        raise InvalidRequest(
            f"dataset_dir: {folder}/{NAME} does not exist here or in a folder above the file"
        )

    def dataset(self, name: str, kind: RowKind) -> Dataset:
        """Return a dataset that exists, is supported and has rows of a kind."""
        if name not in self._content:
            raise InvalidRequest(f"dataset: {self.path} has no {name!r}")
        try:
            entry = Entry.model_validate(self._content[name])
        except ValidationError as error:
            raise _unsupported(name, first_fault(error).sentence()) from error
        _check(name, entry, kind)
        if entry.hf_hub_url is not None:
            return Dataset(name, entry, entry.hf_hub_url)
        if entry.script_url is not None:
            script = ScriptReference.parse(f"{entry.script_url}#{entry.split}", "dataset")
            return Dataset(name, entry, script)
        path = self.path.parent / (entry.file_name or "")
        if not path.is_file():
            raise InvalidRequest(f"dataset {name}: {path} does not exist")
        if path.suffix not in UPLOADABLE and (path.suffix, kind) != (PLAIN_TEXT, RowKind.TEXT):
            raise _unsupported(name, f"files ending in {path.suffix!r}")
        return Dataset(name, entry, path)


def _check(name: str, entry: Entry, kind: RowKind) -> None:
    if entry.ranking and kind is not RowKind.PREFERENCE:
        raise _unsupported(name, f"preference pairs where {kind.value} rows are needed")
    if kind is RowKind.PREFERENCE and not entry.ranking:
        raise InvalidRequest(f"dataset {name}: has no preference pairs (ranking is not true)")
    if kind is RowKind.TEXT and entry.formatting != "alpaca":
        raise _unsupported(name, "conversations for pre-training, which reads text")
    if not (entry.file_name or entry.hf_hub_url or entry.script_url):
        raise _unsupported(name, "none of file_name, hf_hub_url and script_url is given")
    columns = entry.columns or Columns()
    for medium in MEDIA:
        if getattr(columns, medium) is not None:
            raise _unsupported(name, f"rows with {medium}")
    is_of_hub = entry.hf_hub_url is not None
    if is_of_hub and (entry.subset or entry.folder or entry.split != "train"):
        raise _unsupported(name, "subset, folder and split of the hub")


def _unsupported(name: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"dataset {name}: not supported: {what}")
