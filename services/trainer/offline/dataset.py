"""Prepares a job's data in the form that LLaMA-Factory reads.

Every conversation becomes turns of its sharegpt format. Its own reader of OpenAI's format is not
used: in 0.9.5 it appends "detailed thinking off" to system messages, drops text beside tool calls
and skips rows that it cannot pair. Without a template name the turns already hold the text that the
model's chat template renders, and LLaMA-Factory's ``empty`` template only joins them.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import RemoteEntryNotFoundError
from pydantic import BaseModel, ConfigDict

from services.contracts.training_rows import RowKind
from services.datasets.reader import open_records
from services.datasets.record import Problem, Record, RowError, UnreadableFile
from services.trainer.hub import explained
from services.trainer.offline.arguments import TRAINING_DATASET, VALIDATION_DATASET
from services.trainer.offline.examples import ExampleReader, Layout, described
from services.trainer.offline.spec import DataSource, TrainingSpec

_PREPARED = "prepared.json"
_DATASET_INFO = "dataset_info.json"
_CARD = "README.md"


class PreparedData(BaseModel):
    """The content of a data directory; ``last_response`` shows how a turn ends."""

    model_config = ConfigDict(frozen=True)

    fingerprint: str
    template: str
    training_rows: int
    validation_rows: int
    last_response: str


def prepared_data(data_dir: Path, spec: TrainingSpec) -> PreparedData | None:
    """The complete data that an earlier attempt prepared for this spec, if any."""
    try:
        prepared = PreparedData.model_validate_json((data_dir / _PREPARED).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return prepared if prepared.fingerprint == _fingerprint(spec) else None


def prepare_data(
    spec: TrainingSpec, layout: Layout, data_dir: Path, progress: Callable[[int], None]
) -> PreparedData:
    """Write the training and validation rows; memory does not grow with their number.

    ``progress`` is called with the number of rows from time to time. Raises UnreadableFile naming
    the row and the field at fault.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    training = _Writer(data_dir / f"{TRAINING_DATASET}.jsonl", spec.rows, layout, progress)
    training.write(spec.training_data)
    if not training.rows:
        raise UnreadableFile("the training data has no rows")
    names = [TRAINING_DATASET]
    validation = _Writer(data_dir / f"{VALIDATION_DATASET}.jsonl", spec.rows, layout, progress)
    if spec.validation_data is not None:
        validation.write(spec.validation_data)
        names.append(VALIDATION_DATASET)
    _write_json(
        data_dir / _DATASET_INFO, {name: described(spec.rows, f"{name}.jsonl") for name in names}
    )
    prepared = PreparedData(
        fingerprint=_fingerprint(spec),
        template=layout.name,
        training_rows=training.rows,
        validation_rows=validation.rows,
        last_response=training.last_response,
    )
    _write_json(data_dir / _PREPARED, prepared.model_dump())
    return prepared


class _Writer:
    _ROWS_PER_PROGRESS = 50_000

    def __init__(
        self, path: Path, kind: RowKind, layout: Layout, progress: Callable[[int], None]
    ) -> None:
        self.rows = 0
        self.last_response = ""
        self._path = path
        self._kind = kind
        self._layout = layout
        self._progress = progress

    def write(self, source: DataSource) -> None:
        reader = ExampleReader(self._kind, source.format, self._layout)
        with open(self._path, "w", encoding="utf-8") as file:
            for record in read_rows(source):
                with _located(record):
                    for example in reader.read(record.value):
                        file.write(json.dumps(example.row, ensure_ascii=False) + "\n")
                        self.last_response = example.last_response
                self.rows += 1
                if self.rows % self._ROWS_PER_PROGRESS == 0:
                    self._progress(self.rows)


@contextmanager
def _located(record: Record) -> Iterator[None]:
    try:
        yield
    except RowError as error:
        raise UnreadableFile(error.message, row=record.row) from None


def _fingerprint(spec: TrainingSpec) -> str:
    content = spec.model_dump_json(
        include={
            *("model", "stage", "training_data", "validation_data", "template"),
            *("chat_template_kwargs", "arguments"),
        }
    )
    return hashlib.sha256(content.encode()).hexdigest()


def _write_json(path: Path, content: dict[str, Any]) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    partial.replace(path)


def read_rows(source: DataSource) -> Iterator[Record]:
    """The rows of a file or hub dataset, numbered from 1; raises UnreadableFile at a bad row."""
    if source.path is None:
        yield from _hub_rows(source)
        return
    for record in open_records(source.path):
        if isinstance(record, Problem):
            raise UnreadableFile(record.message, row=record.row)
        yield record


def _hub_rows(source: DataSource) -> Iterator[Record]:
    load = import_module("datasets").load_dataset
    try:
        rows = load(source.hub_name, source.hub_subset, split=source.hub_split, streaming=True)
        for number, row in enumerate(rows, start=1):
            yield Record(number, row)
    except Exception as error:  # many types, and few name the dataset
        message = f"dataset {source.hub_name!r} cannot be read: {error}"
        raise UnreadableFile(message) from error


def check_hub_datasets(spec: TrainingSpec, data_dir: Path) -> None:
    """Raise TrainingFailure for a hub dataset that does not exist or cannot be read.

    Called before slow imports, so that a wrong name fails in seconds. Does nothing once an earlier
    attempt has prepared the data in ``data_dir``.
    """
    if prepared_data(data_dir, spec) is not None:
        return
    sources = {"training_file": spec.training_data, "validation_file": spec.validation_data}
    for param, source in sources.items():
        if source is None or source.hub_name is None:
            continue
        what = f"dataset {source.hub_name!r}"
        with explained(what, None, code="dataset_load_failed", param=param):
            try:
                hf_hub_download(source.hub_name, _CARD, repo_type="dataset")
            except RemoteEntryNotFoundError:
                continue  # the dataset exists, without a card
