"""LLaMA-Factory's ``dataset_info.json``: where a named dataset is, how its rows are laid out."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from temper.submission.errors import SubmissionError

NAME = "dataset_info.json"
DEFAULT_FOLDER = "data"
MAX_BYTES = 8 << 20
UPLOADABLE = frozenset({".json", ".jsonl", ".parquet"})
MEDIA = ("images", "videos", "audios")


class Columns(BaseModel):
    """Which key of a row holds what; one that is not named is not used."""

    prompt: str | None = None
    query: str | None = None
    response: str | None = None
    history: str | None = None
    messages: str | None = None
    system: str | None = None
    tools: str | None = None
    images: str | None = None
    videos: str | None = None
    audios: str | None = None


class Tags(BaseModel):
    """What the keys and the roles of a message are called."""

    role_tag: str = "from"
    content_tag: str = "value"
    user_tag: str = "human"
    assistant_tag: str = "gpt"
    observation_tag: str = "observation"
    function_tag: str = "function_call"
    system_tag: str = "system"


class Entry(BaseModel):
    """One dataset, as the file describes it."""

    file_name: str | None = None
    hf_hub_url: str | None = None
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
    """A dataset that was found: a file of this machine, or a name of the hub."""

    name: str
    entry: Entry
    source: Path | str

    @property
    def is_plain(self) -> bool:
        """Whether its rows have the keys that Temper itself knows, and all of them are meant."""
        entry = self.entry
        return entry.columns is None and entry.tags is None and entry.num_samples is None


class DatasetInfo:
    """The datasets that the training file ``used_by`` can name."""

    def __init__(self, path: Path, used_by: Path) -> None:
        self.path = path
        self.used_by = used_by
        if path.stat().st_size > MAX_BYTES:
            raise SubmissionError(f"{path}: is larger than {MAX_BYTES} bytes")
        try:
            self._content = json.loads(path.read_bytes())
        except ValueError as error:
            raise SubmissionError(f"{path}: is no JSON: {error}") from error
        if not isinstance(self._content, dict):
            raise SubmissionError(f"{path}: is no object of datasets by name")

    @classmethod
    def of(cls, job_file: Path, dataset_dir: str | None) -> "DatasetInfo":
        """Find the file: ``dataset_dir`` is relative to where the user stands, as for
        LLaMA-Factory, or to a folder above the training file, as in its repository."""
        folder = dataset_dir or DEFAULT_FOLDER
        bases = [Path.cwd(), *job_file.resolve().parents]
        for base in bases:
            path = base / folder / NAME
            if path.is_file():
                return cls(path, job_file)
        raise SubmissionError(
            f"{job_file}: dataset_dir: there is no {folder}/{NAME} here or in a folder above it"
        )

    def dataset(self, name: str) -> Dataset:
        """Return a dataset; raise `SubmissionError` for one that is not there or not supported."""
        if name not in self._content:
            raise SubmissionError(f"{self.used_by}: dataset: {self.path} has no {name!r}")
        try:
            entry = Entry.model_validate(self._content[name])
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(str(part) for part in fault["loc"])
            raise self._unsupported(name, f"{field}: {fault['msg']}") from error
        self._check(name, entry)
        if entry.hf_hub_url is not None:
            return Dataset(name, entry, entry.hf_hub_url)
        path = self.path.parent / (entry.file_name or "")
        if not path.is_file():
            raise SubmissionError(f"{self.used_by}: dataset {name}: there is no file {path}")
        if path.suffix not in UPLOADABLE:
            raise self._unsupported(name, f"files ending in {path.suffix!r}")
        return Dataset(name, entry, path)

    def _check(self, name: str, entry: Entry) -> None:
        if entry.ranking:
            raise self._unsupported(name, "preference pairs")
        if entry.file_name is None and entry.hf_hub_url is None:
            raise self._unsupported(name, "neither file_name nor hf_hub_url is given")
        columns = entry.columns or Columns()
        for medium in MEDIA:
            if getattr(columns, medium) is not None:
                raise self._unsupported(name, f"rows with {medium}")
        is_of_hub = entry.hf_hub_url is not None
        if is_of_hub and (entry.subset or entry.folder or entry.split != "train"):
            raise self._unsupported(name, "subset, folder and split of the hub")

    def _unsupported(self, name: str, what: str) -> SubmissionError:
        return SubmissionError(f"{self.used_by}: dataset {name}: not supported: {what}")
