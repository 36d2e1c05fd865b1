"""Reads the rows of training data one after another, in bounded memory."""

from collections.abc import Iterator
from importlib import import_module

from services.datasets.reader import open_records
from services.datasets.record import Problem, Record, UnreadableFile
from services.trainer.sft.spec import DataSource


def read_rows(source: DataSource) -> Iterator[Record]:
    """The rows of a file or hub dataset, counted from 1; raises UnreadableFile at a bad one."""
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
    except Exception as error:  # of many kinds, and hardly one names the dataset
        message = f"dataset {source.hub_name!r} cannot be read: {error}"
        raise UnreadableFile(message) from error
