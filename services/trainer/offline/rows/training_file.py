"""The files of rows that a training reads: mixed, limited, and with rows held out of them."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from services.contracts.errors import InvalidRequest
from services.datasets.record import UnreadableFile
from services.mixing.line_file import LineFile
from services.mixing.order import Mixing, drawn
from services.trainer.offline.rows.held_out import HeldOut, RowKeys, keyed
from services.trainer.offline.spec import DataSource, TrainingSpec

ReadEntries = Callable[[DataSource], Iterator[bytes]]
"""The rows of a source, each as the lines of its library rows."""


@dataclass(frozen=True)
class WrittenRows:
    """A file of rows: how many, and the numbers of the library rows that are not the last of their
    conversation."""

    rows: int = 0
    earlier: list[int] = field(default_factory=list)


def write_rows(path: Path, entries: Iterable[bytes]) -> WrittenRows:
    """Write rows in their order."""
    rows = lines = 0
    earlier: list[int] = []
    with open(path, "wb") as out:
        for entry in entries:
            out.write(entry)
            rows += 1
            last = lines + entry.count(b"\n") - 1
            earlier.extend(range(lines, last))
            lines = last + 1
    return WrittenRows(rows, earlier)


def read_limit(spec: TrainingSpec, source: DataSource) -> int | None:
    """How many rows of a source are read: with ``max_samples`` its first ones, unless they are
    drawn from all."""
    return None if source.num_samples is not None else max_samples(spec)


def max_samples(spec: TrainingSpec) -> int | None:
    """The most rows of each file of the job, if limited."""
    limit = spec.arguments.get("max_samples")
    return limit if isinstance(limit, int) else None


def val_size(spec: TrainingSpec) -> float:
    """The share or number of rows to hold out; 0 for none."""
    size = spec.arguments.get("val_size")
    return float(size) if isinstance(size, int | float) else 0.0


def write_training(
    spec: TrainingSpec, read: ReadEntries, training: Path, validation: Path
) -> tuple[int, WrittenRows]:
    """Write the training rows, mixed if there are several sources, and those held out of them.

    Returns the number of the first, and the others, which ``validation`` gets if there are any.
    Raises UnreadableFile for a source without a row to train on.
    """
    sources = [spec.training_data, *spec.mixture.sources]
    held = WrittenRows()
    if len(sources) == 1 and sources[0].num_samples is None and not val_size(spec):
        rows = write_rows(training, read(sources[0])).rows
    else:
        rows, held = _write_mixed(spec, sources, read, training, validation)
    if not rows:
        raise UnreadableFile("the training data has no rows")
    return rows, held


def _write_mixed(
    spec: TrainingSpec,
    sources: Sequence[DataSource],
    read: ReadEntries,
    training: Path,
    validation: Path,
) -> tuple[int, WrittenRows]:
    mixing = Mixing(spec.mixture.strategy, spec.mixture.probabilities, spec.seed)
    keys: list[RowKeys] = [array("Q") for _ in sources]
    size, held_out, written = val_size(spec), None, WrittenRows()
    with ExitStack() as stack:
        parts = [
            stack.enter_context(
                LineFile(
                    training.with_suffix(f".{number}"), keyed(read(source), keys[number], spec.seed)
                )
            )
            for number, source in enumerate(sources)
        ]
        for source, part in zip(sources, parts, strict=True):
            if not len(part):
                raise named(source, UnreadableFile("has no rows"))
        if size:
            held_out = HeldOut(keys, size)
            entries = (parts[source].entry(row) for source, row in held_out.distinct(keys))
            written = write_rows(validation, entries)
        chosen = [
            _chosen(spec, source, each, held_out)
            for source, each in zip(sources, keys, strict=True)
        ]
        with _of_request(spec):
            rows = write_rows(training, mixing.entries(parts, chosen)).rows
    return rows, written


def _chosen(
    spec: TrainingSpec, source: DataSource, keys: RowKeys, held_out: HeldOut | None
) -> Sequence[int]:
    """The rows of a source that are mixed."""
    left: Sequence[int] = range(len(keys)) if held_out is None else held_out.left(keys)
    if not left:
        raise named(source, UnreadableFile("val_size holds out all of its rows"))
    if source.num_samples is None:
        return left
    return [left[row] for row in drawn(len(left), source.num_samples, spec.seed)][
        : max_samples(spec)
    ]


@contextmanager
def _of_request(spec: TrainingSpec) -> Iterator[None]:
    """Name the request's field in errors of the mixture."""
    try:
        yield
    except InvalidRequest as error:
        chosen = "strategy" if spec.mixture.probabilities is None else "probabilities"
        error.param = f"mixing.{chosen}"
        raise


def named(source: DataSource, error: UnreadableFile) -> UnreadableFile:
    """The error with the name of its source, and the request's field."""
    is_named = source.hub_name is not None and source.hub_name in error.message
    told = UnreadableFile(error.message if is_named else f"{source.label}: {error.message}")
    told.param = source.param
    return told
