"""Prepares a job's data in the form that LLaMA-Factory reads.

Every conversation becomes turns of its sharegpt format. Its own reader of OpenAI's format is not
used: in 0.9.5 it appends "detailed thinking off" to system messages, drops text beside tool calls
and skips rows that it cannot pair. Without a template name the turns already hold the text that the
model's chat template renders, and LLaMA-Factory's ``empty`` template only joins them.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import RemoteEntryNotFoundError
from pydantic import BaseModel, ConfigDict, Field

from services.contracts.errors import InvalidRequest
from services.contracts.training.fidelity import FidelityReport
from services.contracts.training.fine_tuning import TRAINING_DATASET
from services.datasets.reader import open_records
from services.datasets.record import Problem, Record, RowError, UnreadableFile
from services.datasets.rendering.fidelity import FidelityCounter, check_fidelity
from services.mixing.line_file import LineFile
from services.mixing.order import Mixing, drawn
from services.trainer.hub import explained
from services.trainer.offline.rows.examples import ExampleLayout, ExampleReader, described
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
    data_dir.mkdir(parents=True, exist_ok=True)
    training = _Preparer(spec, layout, progress)
    training_rows = _write_training(spec, training, data_dir / f"{TRAINING_DATASET}.jsonl")
    validation = _Preparer(spec, layout, progress)
    for name, source in spec.validations.items():
        with open(data_dir / f"{name}.jsonl", "wb") as file:
            file.writelines(validation.entries(source))
    names = [TRAINING_DATASET, *spec.validations]
    _write_json(
        data_dir / _DATASET_INFO, {name: described(spec.rows, f"{name}.jsonl") for name in names}
    )
    prepared = PreparedData(
        fingerprint=_fingerprint(spec),
        template=layout.name,
        training_rows=training_rows,
        validation_rows=validation.rows,
        last_response=training.last_response,
        fidelity={**training.fidelity, **validation.fidelity},
    )
    _write_json(data_dir / _PREPARED, prepared.model_dump())
    return prepared


def _write_training(spec: TrainingSpec, preparer: "_Preparer", target: Path) -> int:
    """Write the training rows, mixed if there are several sources; return their number."""
    sources = [spec.training_data, *spec.mixture.sources]
    mixing = Mixing(spec.mixture.strategy, spec.mixture.probabilities, spec.seed)
    with open(target, "wb") as out, ExitStack() as stack:
        if len(sources) == 1 and sources[0].num_samples is None:
            out.writelines(preparer.entries(sources[0]))
            rows = preparer.rows
        else:
            parts = [
                stack.enter_context(
                    LineFile(target.with_suffix(f".{number}"), preparer.entries(source))
                )
                for number, source in enumerate(sources)
            ]
            rows = 0
            with _of_request(spec):
                for entry in mixing.entries(parts, _chosen(sources, parts, spec.seed)):
                    out.write(entry)
                    rows += 1
    if not rows:
        raise UnreadableFile("the training data has no rows")
    return rows


@contextmanager
def _of_request(spec: TrainingSpec) -> Iterator[None]:
    """Name the request's field in errors of the mixture."""
    try:
        yield
    except InvalidRequest as error:
        chosen = "strategy" if spec.mixture.probabilities is None else "probabilities"
        error.param = f"mixing.{chosen}"
        raise


def _chosen(
    sources: Sequence[DataSource], parts: Sequence[LineFile], seed: int
) -> list[Sequence[int]]:
    """The rows of each source that are mixed."""
    chosen: list[Sequence[int]] = []
    for source, part in zip(sources, parts, strict=True):
        if not len(part):
            raise _named(source, UnreadableFile("has no rows"))
        samples = source.num_samples
        chosen.append(range(len(part)) if samples is None else drawn(len(part), samples, seed))
    return chosen


class _Preparer:
    """Turns rows into lines of JSON for LLaMA-Factory, and counts them. Rows that training cannot
    learn from are left out."""

    _ROWS_PER_PROGRESS = 50_000

    def __init__(
        self, spec: TrainingSpec, layout: ExampleLayout, progress: Callable[[int], None]
    ) -> None:
        self.rows = 0
        self.last_response = ""
        self.fidelity: dict[str, FidelityReport] = {}
        self._spec = spec
        self._layout = layout
        self._progress = progress

    def entries(self, source: DataSource) -> Iterator[bytes]:
        """The lines of each row of a source, joined; errors name the source and the row."""
        try:
            yield from self._entries(source)
        except UnreadableFile as error:
            raise _named(source, error) from error

    def _entries(self, source: DataSource) -> Iterator[bytes]:
        reader = ExampleReader(
            self._spec.rows, source.format, self._layout, joins_turns=self._spec.joins_turns
        )
        counter = self._counter()
        for record in read_rows(source):
            with _located(record):
                examples = reader.read(record.value)
            if examples.rendered is not None:
                counter.add(record.row, examples.rendered)
            if not examples.rows:
                continue
            lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in examples.rows]
            self.last_response = examples.last_response
            yield "".join(lines).encode()
            self.rows += 1
            if self.rows % self._ROWS_PER_PROGRESS == 0:
                self._progress(self.rows)
        if (report := counter.report()) is not None:
            self.fidelity[source.param or source.label] = report
            check_fidelity(report, source.param, source.label)

    def _counter(self) -> FidelityCounter:
        shown = self._layout.rendering or self._layout.shown
        special = frozenset() if shown is None else shown.encode.special
        return FidelityCounter(special, self._spec.max_lossy_share)


def _named(source: DataSource, error: UnreadableFile) -> UnreadableFile:
    is_named = source.hub_name is not None and source.hub_name in error.message
    named = UnreadableFile(error.message if is_named else f"{source.label}: {error.message}")
    named.param = source.param
    return named


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
