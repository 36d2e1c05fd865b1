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
from pydantic import BaseModel, ConfigDict, Field

from services.contracts.llamafactory.arguments import ArgumentRefused
from services.contracts.llamafactory.closed import ArgumentProblem
from services.contracts.training.fidelity import FidelityReport
from services.contracts.training.fine_tuning import TRAINING_DATASET
from services.datasets.reader import open_records
from services.datasets.record import Problem, Record, RowError, UnreadableFile
from services.datasets.rendering.fidelity import FidelityCounter, check_fidelity
from services.trainer.hub import explained
from services.trainer.offline.rows.examples import ExampleLayout, ExampleReader, described
from services.trainer.offline.rows.training_file import (
    named,
    read_limit,
    val_size,
    write_rows,
    write_training,
)
from services.trainer.offline.rows.turn_ends import TurnEnds
from services.trainer.offline.spec import VALIDATION_DATASET, DataSource, TrainingSpec

_PREPARED = "prepared.json"
_DATASET_INFO = "dataset_info.json"
_CARD = "README.md"


class PreparedData(BaseModel):
    """The content of a data directory. ``training_rows`` are counted as often as an epoch has them,
    ``turn_ends`` are the special tokens that end learned turns."""

    model_config = ConfigDict(frozen=True)

    fingerprint: str
    template: str
    training_rows: int
    validation_rows: int
    turn_ends: list[str] = Field(default_factory=list)
    last_response: str = ""
    """In data of earlier versions, which lack ``turn_ends``: the last text of the last row."""
    rows_are_chosen: bool = False
    """Whether ``val_size`` and ``max_samples`` have been applied. The library applies them to data
    of earlier versions, so that a resumed training keeps its split."""
    earlier_turns: dict[str, list[int]] = Field(default_factory=dict)
    """By validation dataset, the numbers of rows that are not the last of their conversation."""
    fidelity: dict[str, FidelityReport] = Field(default_factory=dict)
    """What became of the rows of each file, by its name."""


def prepared_data(data_dir: Path, spec: TrainingSpec) -> PreparedData | None:
    """The complete data that an earlier attempt prepared for this spec, if any."""
    try:
        prepared = PreparedData.model_validate_json((data_dir / _PREPARED).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return prepared if prepared.fingerprint == _fingerprint(spec) else None


def prepare_data(
    spec: TrainingSpec, layout: ExampleLayout, data_dir: Path, progress: Callable[[int], None]
) -> PreparedData:
    """Write the training and validation rows; memory does not grow with their number.

    ``progress`` is periodically called with the number of rows. Raises UnreadableFile naming
    the row and the field at fault.
    """
    if val_size(spec) and spec.validations:
        message = "val_size is for jobs without a validation file"
        raise ArgumentRefused("val_size", ArgumentProblem.BAD_CHOICE, message)
    data_dir.mkdir(parents=True, exist_ok=True)
    training = _Preparer(spec, layout, progress)
    files = [data_dir / f"{name}.jsonl" for name in (TRAINING_DATASET, VALIDATION_DATASET)]
    training_rows, held = write_training(spec, training.entries, files[0], files[1])
    validation = _Preparer(spec, layout, progress)
    written = {
        name: write_rows(data_dir / f"{name}.jsonl", validation.entries(source))
        for name, source in spec.validations.items()
    }
    written |= {VALIDATION_DATASET: held} if held.rows else {}
    names = [TRAINING_DATASET, *written]
    _write_json(
        data_dir / _DATASET_INFO, {name: described(spec.rows, f"{name}.jsonl") for name in names}
    )
    prepared = PreparedData(
        fingerprint=_fingerprint(spec),
        template=layout.name,
        training_rows=training_rows,
        validation_rows=sum(each.rows for each in written.values()),
        turn_ends=training.ends.found,
        rows_are_chosen=True,
        earlier_turns={name: each.earlier for name, each in written.items() if each.earlier},
        fidelity={**training.fidelity, **validation.fidelity},
    )
    _write_json(data_dir / _PREPARED, prepared.model_dump())
    return prepared


class _Preparer:
    """Turns rows into lines of JSON for LLaMA-Factory, and counts them. Rows that training cannot
    learn from are left out."""

    _ROWS_PER_PROGRESS = 50_000

    def __init__(
        self, spec: TrainingSpec, layout: ExampleLayout, progress: Callable[[int], None]
    ) -> None:
        self.rows = 0
        self.ends = TurnEnds(_special(layout))
        self.fidelity: dict[str, FidelityReport] = {}
        self._spec = spec
        self._layout = layout
        self._progress = progress

    def entries(self, source: DataSource) -> Iterator[bytes]:
        """The lines of each row of a source, joined, of the first rows where these are limited;
        errors name the source and the row."""
        try:
            yield from self._entries(source, read_limit(self._spec, source))
        except UnreadableFile as error:
            raise named(source, error) from error

    def _entries(self, source: DataSource, limit: int | None) -> Iterator[bytes]:
        reader = ExampleReader(
            self._spec.rows, source.format, self._layout, joins_turns=self._spec.joins_turns
        )
        counter = FidelityCounter(_special(self._layout), self._spec.max_lossy_share)
        found = 0
        for record in read_rows(source):
            with _located(record):
                examples = reader.read(record.value)
            if examples.rendered is not None:
                counter.add(record.row, examples.rendered)
            if not examples.rows:
                continue
            lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in examples.rows]
            for response in examples.responses:
                self.ends.add(response)
            yield "".join(lines).encode()
            self.rows += 1
            if self.rows % self._ROWS_PER_PROGRESS == 0:
                self._progress(self.rows)
            found += 1
            if found == limit:
                break
        if (report := counter.report()) is not None:
            self.fidelity[source.param or source.label] = report
            check_fidelity(report, source.param, source.label)


def _special(layout: ExampleLayout) -> frozenset[str]:
    """The texts of the special tokens that rows are rendered with."""
    shown = layout.rendering or layout.shown
    return frozenset() if shown is None else shown.encode.special


@contextmanager
def _located(record: Record) -> Iterator[None]:
    try:
        yield
    except RowError as error:
        raise UnreadableFile(error.message, row=record.row) from None


def _fingerprint(spec: TrainingSpec) -> str:
    content = spec.model_dump_json(
        include={
            *("model", "stage", "training_data", "mixture", "validation_data", "validation_sets"),
            *("template", "chat_template_kwargs", "arguments", "seed"),
            *("max_seq_len", "leaves_out_long", "joins_turns", "max_lossy_share"),
            "neutralizes",
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
    sources = (spec.training_data, *spec.mixture.sources, *spec.validations.values())
    for source in sources:
        if source.hub_name is None:
            continue
        what = f"dataset {source.hub_name!r}"
        with explained(what, None, code="dataset_load_failed", param=source.param):
            try:
                hf_hub_download(source.hub_name, _CARD, repo_type="dataset")
            except RemoteEntryNotFoundError:
                continue  # the dataset exists but has no card
