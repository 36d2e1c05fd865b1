"""Convert the rows of LLaMA-Factory's datasets, and mix those of several."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import ijson

from services.contracts.errors import InvalidRequest
from services.contracts.llamafactory.names import MixStrategy
from services.contracts.training.rows import RowKind, unusable_column
from services.mixing.line_file import LineFile
from services.mixing.order import Mixing, drawn
from services.parsing.foreign_json import escape_line_ends
from temper.formats.llamafactory_datasets import (
    ALPACA,
    PLAIN_TEXT,
    SHAREGPT,
    SHAREGPT_TAGS,
    Columns,
    Dataset,
    Tags,
)

HEAD_BYTES = 4096
FORMAT_KEYS = frozenset(
    {"messages", "conversations", "instruction", "input", "output", "history", "system", "tools"}
)

Row = Mapping[str, Any]

CONCATENATED = Mixing()


def merge(
    datasets: Sequence[Dataset],
    limit: int | None,
    target: Path,
    kind: RowKind,
    mixing: Mixing = CONCATENATED,
) -> Path:
    """Write the rows of the datasets to ``target`` and return it: text unchanged, other kinds
    of rows in sharegpt format.

    From each dataset, ``num_samples`` rows are drawn with the seed of ``mixing``, and the first
    ``limit`` of them are mixed. Rows are streamed, or spooled to files beside ``target`` if they
    are reordered. Raises `InvalidRequest` with dataset and row number (from 0) for a row that does
    not have its dataset's format.
    """
    if mixing.strategy is MixStrategy.CONCAT and not any(d.entry.num_samples for d in datasets):
        with open(target, "wb") as out:
            for dataset in datasets:
                out.writelines(_lines_of(dataset, kind, limit))
        return target
    with ExitStack() as stack:
        parts = [
            stack.enter_context(_part(dataset, kind, limit, target.with_suffix(f".{number}")))
            for number, dataset in enumerate(datasets)
        ]
        chosen = [
            _chosen(dataset, len(part), limit, mixing.seed)
            for dataset, part in zip(datasets, parts, strict=True)
        ]
        with open(target, "wb") as out:
            out.writelines(mixing.entries(parts, chosen))
    return target


def _chosen(dataset: Dataset, rows: int, limit: int | None, seed: int) -> Sequence[int]:
    """Return the row numbers of a dataset to mix."""
    if not rows:
        raise InvalidRequest(f"dataset {dataset.name}: has no rows")
    samples = dataset.entry.num_samples
    picked: Sequence[int] = range(rows) if samples is None else drawn(rows, samples, seed)
    return picked[:limit]


def _part(dataset: Dataset, kind: RowKind, limit: int | None, path: Path) -> LineFile:
    """Spool a dataset's converted rows: all of them if ``num_samples`` are to be drawn."""
    return LineFile(path, _lines_of(dataset, kind, None if dataset.entry.num_samples else limit))


def _lines_of(dataset: Dataset, kind: RowKind, limit: int | None) -> Iterator[bytes]:
    """Yield the first ``limit`` rows as lines of JSON."""
    for number, row in enumerate(islice(_rows(dataset), limit)):
        try:
            if isinstance(row, dict) and (unusable := unusable_column(row, kind)) is not None:
                raise ValueError(unusable)
            converted = _convert(dataset, row, kind)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidRequest(
                f"dataset {dataset.name}: row {number} does not have the declared format: {error!r}"
            ) from error
        text = json.dumps(converted, ensure_ascii=False)
        yield f"{escape_line_ends(text)}\n".encode()


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
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if line.startswith("\ufeff"):
                raise InvalidRequest(
                    f"{path}: line {number} begins with a byte order mark, as where files were "
                    "joined; remove the mark"
                )
            if text := line.rstrip():
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
    turns: list[Row] = []
    for question, answer in (row.get(columns.history) or []) if columns.history else []:
        turns += [_turn("human", question), _turn("gpt", answer)]
    turns.append(_turn("human", "\n".join(question for question in questions if question)))
    if kind is RowKind.PREFERENCE:
        chosen, rejected = (
            _turn("gpt", _text(row, name)) for name in (columns.chosen, columns.rejected)
        )
        return {**_conversation(turns, row, columns), "chosen": chosen, "rejected": rejected}
    turns.append(_turn("gpt", _text(row, columns.response)))
    return {**_conversation(turns, row, columns), **_label(row, columns, kind)}


def _from_sharegpt(row: Row, columns: Columns, tags: Tags, kind: RowKind) -> Row:
    roles = {
        tags.user_tag: "human",
        tags.assistant_tag: "gpt",
        tags.observation_tag: "observation",
        tags.function_tag: "function_call",
        tags.system_tag: "system",
    }
    column = columns.messages or "conversations"

    def turn(message: Row, path: str) -> Row:
        role, content = message.get(tags.role_tag), message.get(tags.content_tag)
        if role not in roles:
            known = ", ".join(map(repr, roles))
            raise ValueError(f"{path}.{tags.role_tag} is {role!r}; the dataset's tags are {known}")
        if not isinstance(content, str):
            raise ValueError(f"{path}.{tags.content_tag} is not a string")
        # Other keys, such as the loss of a turn, mean the same in the converted row.
        rest = {
            key: message[key] for key in message if key not in (tags.role_tag, tags.content_tag)
        }
        return {**rest, "from": roles[role], "value": content}

    turns = [turn(message, f"{column}[{place}]") for place, message in enumerate(row[column])]
    conversation = _conversation(turns, row, columns)
    if kind is RowKind.PREFERENCE:
        answers = ((columns.chosen or "chosen"), (columns.rejected or "rejected"))
        chosen, rejected = (turn(row[name], name) for name in answers)
        return {**conversation, "chosen": chosen, "rejected": rejected}
    return {**conversation, **_label(row, columns, kind)}


def _label(row: Row, columns: Columns, kind: RowKind) -> Row:
    """Return the label of a feedback row; raises KeyError without one."""
    return {"kto_tag": row[columns.kto_tag or "kto_tag"]} if kind is RowKind.FEEDBACK else {}


def _turn(role: str, text: str) -> Row:
    return {"from": role, "value": text}


def _conversation(turns: Sequence[Row], row: Row, columns: Columns) -> Row:
    extras = {
        name: row[key]
        for name, key in (("system", columns.system), ("tools", columns.tools))
        if key is not None and row.get(key)
    }
    read = {*FORMAT_KEYS, *columns.model_dump(exclude_none=True).values()}
    rest = {name: value for name, value in row.items() if name not in read}
    return {**rest, **extras, "conversations": list(turns)}


def _text(row: Row, key: str | None) -> str:
    """Return the string under ``key``; empty without such a column or value."""
    if key is None:
        return ""
    value = row.get(key) or ""
    if not isinstance(value, str):
        raise TypeError(f"{key} is not a string")
    return value
