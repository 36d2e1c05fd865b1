"""Several datasets of LLaMA-Factory, each with columns of its own, as one file of one layout."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import ijson

from temper.submission.dataset_info import Columns, Dataset, Tags
from temper.submission.errors import SubmissionError

Row = Mapping[str, Any]

HEAD_BYTES = 4096
ALPACA = Columns(prompt="instruction", query="input", response="output")
SHAREGPT = Columns(messages="conversations")
SHAREGPT_TAGS = Tags()


def merge(datasets: Sequence[Dataset], limit: int | None, target: Path) -> Path:
    """Write the rows of all datasets, the first ``limit`` of each, in the sharegpt layout.

    Rows stream: their number does not matter to memory. Raises `SubmissionError` with dataset
    and row for one that does not have its dataset's layout. Return ``target``.
    """
    with open(target, "w", encoding="utf-8") as out:
        for dataset in datasets:
            most = min((n for n in (dataset.entry.num_samples, limit) if n), default=None)
            for number, row in enumerate(islice(_rows(dataset), most)):
                try:
                    converted = _convert(dataset, row)
                except (KeyError, TypeError, ValueError) as error:
                    raise SubmissionError(
                        f"dataset {dataset.name}: row {number} is not of its layout: {error!r}"
                    ) from error
                out.write(json.dumps(converted, ensure_ascii=False) + "\n")
    return target


def _rows(dataset: Dataset) -> Iterator[Row]:
    path = dataset.source
    if not isinstance(path, Path) or path.suffix not in {".json", ".jsonl"}:
        raise SubmissionError(
            f"dataset {dataset.name}: only JSON and JSONL files of this machine can be combined "
            "or have columns of their own"
        )
    with open(path, "rb") as file:
        is_array = file.read(HEAD_BYTES).lstrip().startswith(b"[")
        file.seek(0)
        try:
            # Lines of JSON are a stream of many values; an array is one value of many items.
            yield from ijson.items(
                file, "item" if is_array else "", multiple_values=not is_array, use_float=True
            )
        except ijson.JSONError as error:
            raise SubmissionError(f"dataset {dataset.name}: {path}: {error}") from error


def _convert(dataset: Dataset, row: Row) -> Row:
    entry = dataset.entry
    if entry.formatting == "alpaca":
        return _from_alpaca(row, entry.columns or ALPACA)
    return _from_sharegpt(row, entry.columns or SHAREGPT, entry.tags or SHAREGPT_TAGS)


def _from_alpaca(row: Row, columns: Columns) -> Row:
    questions = [_text(row, columns.prompt), _text(row, columns.query)]
    turns: list[tuple[str, str]] = []
    for question, answer in (row.get(columns.history) or []) if columns.history else []:
        turns += [("human", question), ("gpt", answer)]
    turns.append(("human", "\n".join(question for question in questions if question)))
    turns.append(("gpt", _text(row, columns.response)))
    return _conversation(turns, row, columns)


def _from_sharegpt(row: Row, columns: Columns, tags: Tags) -> Row:
    roles = {
        tags.user_tag: "human",
        tags.assistant_tag: "gpt",
        tags.observation_tag: "observation",
        tags.function_tag: "function_call",
        tags.system_tag: "system",
    }
    messages = row[columns.messages or "conversations"]
    turns = [(roles[message[tags.role_tag]], message[tags.content_tag]) for message in messages]
    return _conversation(turns, row, columns)


def _conversation(turns: Sequence[tuple[str, str]], row: Row, columns: Columns) -> Row:
    extras = {
        name: row[key]
        for name, key in (("system", columns.system), ("tools", columns.tools))
        if key is not None and row.get(key)
    }
    return {"conversations": [{"from": role, "value": text} for role, text in turns], **extras}


def _text(row: Row, key: str | None) -> str:
    """The text under a key, which the dataset may not use or the row not have."""
    if key is None:
        return ""
    value = row.get(key) or ""
    if not isinstance(value, str):
        raise TypeError(f"{key} is no text")
    return value
