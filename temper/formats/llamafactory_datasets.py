"""LLaMA-Factory's named datasets: finding them in ``dataset_info.json``, and merging several."""

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self

import ijson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.contracts.errors import InvalidRequest
from services.contracts.training_rows import RowKind, unusable_column
from temper.formats.mixing import Mixing, MixStrategy, drawn

NAME = "dataset_info.json"
DEFAULT_FOLDER = "data"
MAX_BYTES = 8 << 20
HEAD_BYTES = 4096
UPLOADABLE = frozenset({".json", ".jsonl", ".parquet"})
PLAIN_TEXT = ".txt"
"""A file whose lines are rows of text."""
MEDIA = ("images", "videos", "audios")
FORMAT_KEYS = frozenset(
    {"messages", "conversations", "instruction", "input", "output", "history", "system", "tools"}
)

Row = Mapping[str, Any]

CONCATENATED = Mixing()


class Columns(BaseModel):
    """Which key of a row holds what; null: not used."""

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
    """A dataset that was found: a local file, or a dataset name of the hub."""

    name: str
    entry: Entry
    source: Path | str

    @property
    def is_plain(self) -> bool:
        """Whether the gateway can read the file as it is: default columns, all rows."""
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
            fault = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(str(part) for part in fault["loc"])
            raise _unsupported(name, f"{field}: {fault['msg']}") from error
        _check(name, entry, kind)
        if entry.hf_hub_url is not None:
            return Dataset(name, entry, entry.hf_hub_url)
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
        raise _unsupported(name, "conversations as text")
    if entry.file_name is None and entry.hf_hub_url is None:
        raise _unsupported(name, "neither file_name nor hf_hub_url is given")
    columns = entry.columns or Columns()
    for medium in MEDIA:
        if getattr(columns, medium) is not None:
            raise _unsupported(name, f"rows with {medium}")
    is_of_hub = entry.hf_hub_url is not None
    if is_of_hub and (entry.subset or entry.folder or entry.split != "train"):
        raise _unsupported(name, "subset, folder and split of the hub")


def _unsupported(name: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"dataset {name}: not supported: {what}")


def merge(
    datasets: Sequence[Dataset],
    limit: int | None,
    target: Path,
    kind: RowKind,
    mixing: Mixing = CONCATENATED,
) -> Path:
    """Write the rows of the datasets to ``target`` and return it: text as it is, other kinds of
    rows in sharegpt format.

    Of each dataset, ``num_samples`` rows are drawn by the seed of ``mixing``, and the first
    ``limit`` of them are mixed. Rows are streamed, or kept in files beside ``target`` where their
    order changes. Raises `InvalidRequest` with dataset and row number (from 0) for a row that does
    not have its dataset's format.
    """
    if mixing.strategy is MixStrategy.CONCAT and not any(d.entry.num_samples for d in datasets):
        with open(target, "wb") as out:
            for dataset in datasets:
                out.writelines(_lines_of(dataset, kind, limit))
        return target
    with ExitStack() as stack:
        parts = [
            stack.enter_context(_Part.of(dataset, kind, limit, target.with_suffix(f".{number}")))
            for number, dataset in enumerate(datasets)
        ]
        chosen = [
            _chosen(dataset, len(part), limit, mixing.seed)
            for dataset, part in zip(datasets, parts, strict=True)
        ]
        with open(target, "wb") as out:
            for source, place in mixing.order([len(rows) for rows in chosen]):
                out.write(parts[source].line(chosen[source][place]))
    return target


def _chosen(dataset: Dataset, rows: int, limit: int | None, seed: int) -> Sequence[int]:
    """The rows of a dataset that are mixed."""
    if not rows:
        raise InvalidRequest(f"dataset {dataset.name}: has no rows")
    samples = dataset.entry.num_samples
    picked: Sequence[int] = range(rows) if samples is None else drawn(rows, samples, seed)
    return picked[:limit]


class _Part:
    """The converted rows of one dataset in a file, by their numbers; removed at the end."""

    def __init__(self, path: Path, offsets: "array[int]") -> None:
        self._path = path
        self._offsets = offsets
        self._file = open(path, "rb")  # noqa: SIM115 - closed at the exit

    @classmethod
    def of(cls, dataset: Dataset, kind: RowKind, limit: int | None, path: Path) -> "_Part":
        """Write the rows; with ``num_samples`` all of them may be drawn."""
        offsets = array("Q", [0])
        with open(path, "wb") as out:
            for line in _lines_of(dataset, kind, None if dataset.entry.num_samples else limit):
                offsets.append(offsets[-1] + out.write(line))
        return cls(path, offsets)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._path.unlink()

    def line(self, row: int) -> bytes:
        """A row as a line of JSON."""
        self._file.seek(self._offsets[row])
        return self._file.read(self._offsets[row + 1] - self._offsets[row])


def _lines_of(dataset: Dataset, kind: RowKind, limit: int | None) -> Iterator[bytes]:
    """The first ``limit`` rows as lines of JSON."""
    for number, row in enumerate(islice(_rows(dataset), limit)):
        try:
            if isinstance(row, dict) and (unusable := unusable_column(row, kind)) is not None:
                raise ValueError(unusable)
            converted = _convert(dataset, row, kind)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidRequest(
                f"dataset {dataset.name}: row {number} does not have the declared format: {error!r}"
            ) from error
        yield (json.dumps(converted, ensure_ascii=False) + "\n").encode()


def _rows(dataset: Dataset) -> Iterator[Row]:
    path = dataset.source
    if isinstance(path, Path) and path.suffix == PLAIN_TEXT:
        yield from _lines(path, (dataset.entry.columns or ALPACA).prompt or "text")
        return
    if not isinstance(path, Path) or path.suffix not in {".json", ".jsonl"}:
        raise InvalidRequest(
            f"dataset {dataset.name}: only local JSON and JSONL files can be combined or have "
            "custom columns"
        )
    with open(path, "rb") as file:
        is_array = file.read(HEAD_BYTES).lstrip().startswith(b"[")
        file.seek(0)
        try:
            # JSONL is a stream of many values; a JSON array is one value of many items.
            yield from ijson.items(
                file, "item" if is_array else "", multiple_values=not is_array, use_float=True
            )
        except ijson.JSONError as error:
            raise InvalidRequest(f"dataset {dataset.name}: {path}: {error}") from error


def _lines(path: Path, key: str) -> Iterator[Row]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            if text := line.strip():
                yield {key: text}


def _convert(dataset: Dataset, row: Row, kind: RowKind) -> Row:
    entry = dataset.entry
    if kind is RowKind.TEXT:
        return {"text": _text(row, (entry.columns or ALPACA).prompt)}
    if entry.formatting == "alpaca":
        return _from_alpaca(row, entry.columns or ALPACA, kind)
    return _from_sharegpt(row, entry.columns or SHAREGPT, entry.tags or SHAREGPT_TAGS, kind)


def _from_alpaca(row: Row, columns: Columns, kind: RowKind) -> Row:
    questions = [_text(row, columns.prompt), _text(row, columns.query)]
    turns: list[tuple[str, str]] = []
    for question, answer in (row.get(columns.history) or []) if columns.history else []:
        turns += [("human", question), ("gpt", answer)]
    turns.append(("human", "\n".join(question for question in questions if question)))
    if kind is RowKind.PREFERENCE:
        pair = ("gpt", _text(row, columns.chosen)), ("gpt", _text(row, columns.rejected))
        return {**_conversation(turns, row, columns), **_answers(*pair)}
    turns.append(("gpt", _text(row, columns.response)))
    return {**_conversation(turns, row, columns), **_label(row, columns, kind)}


def _from_sharegpt(row: Row, columns: Columns, tags: Tags, kind: RowKind) -> Row:
    roles = {
        tags.user_tag: "human",
        tags.assistant_tag: "gpt",
        tags.observation_tag: "observation",
        tags.function_tag: "function_call",
        tags.system_tag: "system",
    }
    messages = row[columns.messages or "conversations"]

    def turn(message: Row) -> tuple[str, str]:
        return roles[message[tags.role_tag]], message[tags.content_tag]

    conversation = _conversation([turn(message) for message in messages], row, columns)
    if kind is RowKind.PREFERENCE:
        pair = turn(row[columns.chosen or "chosen"]), turn(row[columns.rejected or "rejected"])
        return {**conversation, **_answers(*pair)}
    return {**conversation, **_label(row, columns, kind)}


def _answers(chosen: tuple[str, str], rejected: tuple[str, str]) -> Row:
    return {
        "chosen": {"from": chosen[0], "value": chosen[1]},
        "rejected": {"from": rejected[0], "value": rejected[1]},
    }


def _label(row: Row, columns: Columns, kind: RowKind) -> Row:
    """The label of a row with feedback; KeyError without one."""
    return {"kto_tag": row[columns.kto_tag or "kto_tag"]} if kind is RowKind.FEEDBACK else {}


def _conversation(turns: Sequence[tuple[str, str]], row: Row, columns: Columns) -> Row:
    extras = {
        name: row[key]
        for name, key in (("system", columns.system), ("tools", columns.tools))
        if key is not None and row.get(key)
    }
    read = {*FORMAT_KEYS, *columns.model_dump(exclude_none=True).values()}
    rest = {name: value for name, value in row.items() if name not in read}
    conversation = [{"from": role, "value": text} for role, text in turns]
    return {**rest, **extras, "conversations": conversation}


def _text(row: Row, key: str | None) -> str:
    """The string under ``key``; empty where the dataset has no such column or the row no value."""
    if key is None:
        return ""
    value = row.get(key) or ""
    if not isinstance(value, str):
        raise TypeError(f"{key} is not a string")
    return value
