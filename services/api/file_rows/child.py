"""The child that reads rows, which contains the cost of hostile files and templates.

Run as ``python -m services.api.file_rows.child`` by `services.core.process.worker_pool`.
"""

import resource
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from services.api.file_rows.spec import ReadExamples, ReadRows, Refusal, RowAnswer, RowRequest
from services.contracts.data.file_rows import (
    MAX_TOKENS_SHOWN,
    ExampleRow,
    ExampleRows,
    FileRow,
    FileRows,
    TrainingExample,
)
from services.contracts.errors import InvalidRequest
from services.contracts.training.offline import OfflineHyperparameters
from services.contracts.training.rows import DataFormat
from services.core.process.worker_child import serve
from services.datasets.record import Problem, Record, RowError, UnreadableFile
from services.datasets.rendering.fidelity import warnings_of
from services.datasets.rendering.rows import TrainingSequence
from services.datasets.rendering.text_encoding import TokenizerEncoder
from services.datasets.row_pages import Place, rows_behind
from services.datasets.training_rows import TrainingRowReader
from services.rollouts.chat.examples import ExampleReader, load_encoder
from services.rollouts.chat.hub import TokenizerUnavailable, fetch_chat_files

PAGE_BYTES = 4 << 20
"""A page ends after the row that exceeds this size; a single row may exceed it."""
PAGE_SECONDS = 5.0
"""A page ends after the row that exceeds this time."""
MEMORY_BYTES = 4 << 30
ROWS_TO_DETECT = 1000

_REQUEST: TypeAdapter[ReadRows | ReadExamples] = TypeAdapter(RowRequest)


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """Handle one request."""
    request = _REQUEST.validate_python(message)
    try:
        page = example_page(request) if isinstance(request, ReadExamples) else row_page(request)
        return RowAnswer(page=page).model_dump()
    except InvalidRequest as error:
        refusal = Refusal(message=error.message, param=error.param, code=error.code)
        return RowAnswer(refused=refusal).model_dump()


def row_page(request: ReadRows) -> str:
    """A page of rows, as JSON."""

    def row_view(place: Place, record: Record | Problem) -> FileRow:
        if isinstance(record, Problem):
            return FileRow(id=place.id, row=place.row, problem=record.message)
        return FileRow(id=place.id, row=place.row, value=record.value)

    page = _Page(request)
    rows = [row_view(*each) for each in page]
    return FileRows(data=rows, **page.cursor()).model_dump_json()


def example_page(request: ReadExamples) -> str:
    """A page of examples, as JSON; raises InvalidRequest for a model that cannot be used."""
    settings = request.method.as_offline
    folder = _folder(request)
    encode = _tokenizer(folder)
    reader = ExampleReader(
        folder,
        encode,
        settings,
        _format(request.path, settings),
    )

    def row_view(place: Place, record: Record | Problem) -> ExampleRow:
        row = ExampleRow(id=place.id, row=place.row)
        if isinstance(record, Problem):
            return row.model_copy(update={"problem": record.message})
        try:
            rendered = reader.read(record.value)
        except RowError as error:
            return row.model_copy(update={"problem": error.message})
        return row.model_copy(
            update={
                "label": rendered.label,
                "examples": list(map(_example_view, rendered.sequences)),
                "missing": [str(each) for each in rendered.missing],
                "warnings": warnings_of(rendered, encode.special),
            }
        )

    page = _Page(request)
    rows = [row_view(*each) for each in page]
    return ExampleRows(data=rows, **page.cursor()).model_dump_json()


def _example_view(example: TrainingSequence) -> TrainingExample:
    sequence = example.tokens
    tokens = sequence.tokens[:MAX_TOKENS_SHOWN]
    return TrainingExample(
        part=example.part,
        token_ids=[token.id for token in tokens],
        texts=[token.text for token in tokens],
        mask=list(map(int, sequence.mask[:MAX_TOKENS_SHOWN])),
        cut_tokens=sequence.cut,
        more_tokens=len(sequence.tokens) - len(tokens),
    )


class _Page:
    """The rows of one page; its `cursor` is known once they have been read."""

    def __init__(self, request: ReadRows | ReadExamples) -> None:
        self._request = request
        self._begin = Place.parse(request.after)
        self._ids: list[str] = []
        self._has_more = False
        self._problem: str | None = None

    def __iter__(self) -> Iterator[tuple[Place, Record | Problem]]:
        size, begun = 0, time.monotonic()
        try:
            for place, record in rows_behind(self._request.path, self._begin):
                late = bool(self._ids) and time.monotonic() - begun > PAGE_SECONDS
                if len(self._ids) == self._request.limit or size > PAGE_BYTES or late:
                    self._has_more = True
                    return
                self._ids.append(place.id)
                size += len(repr(record))
                yield place, record
        except UnreadableFile as error:
            self._problem = str(error.problem)

    def cursor(self) -> dict[str, Any]:
        """The fields of a page beside its rows."""
        first, last = (self._ids[0], self._ids[-1]) if self._ids else (None, None)
        return {
            "has_more": self._has_more,
            "first_id": first,
            "last_id": last,
            "problem": self._problem,
        }


def _folder(request: ReadExamples) -> Path:
    if request.folder is not None:
        return request.folder
    try:
        return _fetched(str(request.hub_id), request.revision)
    except TokenizerUnavailable as error:
        raise InvalidRequest(error.message, param="model", code=error.code) from error


@lru_cache(maxsize=8)
def _fetched(hub_id: str, revision: str | None) -> Path:
    """Cached for the lifetime of this child."""
    return fetch_chat_files(hub_id, revision)


def _tokenizer(folder: Path) -> TokenizerEncoder:
    path = folder / "tokenizer.json"
    return _loaded(folder, path.stat().st_mtime_ns if path.is_file() else 0)


@lru_cache(maxsize=1)
def _loaded(folder: Path, _changed: int) -> TokenizerEncoder:
    return load_encoder(folder)


def _format(path: Path, settings: OfflineHyperparameters) -> DataFormat:
    """The format of the rows; a detected one is that of the file's first usable row, on every
    page."""
    rows = TrainingRowReader(settings.rows, settings.data_format, joins_turns=settings.join_turns)
    try:
        for place, record in rows_behind(path, Place()):
            if rows.format is not None or place.row > ROWS_TO_DETECT:
                break
            if isinstance(record, Record):
                _try(rows, record)
    except UnreadableFile:
        pass  # the page reports it
    return rows.format or settings.data_format


def _try(rows: TrainingRowReader, record: Record) -> None:
    try:
        rows.read(record.value)
    except RowError:
        return


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    serve(lambda: answer)
