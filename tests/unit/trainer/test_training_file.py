"""Validation of whole training files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.training.checks import RowCounts
from services.contracts.training.fine_tuning import Method
from services.contracts.training.offline import SupervisedHyperparameters
from services.contracts.training.rows import DataFormat, RowKind
from services.core.artifacts import SourceFile
from services.core.process.reporter import Reporter
from services.datasets.containers.container import Container
from services.datasets.record import RowError
from services.datasets.scan import InvalidFile
from services.datasets.validate import FileValidation
from services.trainer.offline.rows.examples import ExampleLayout, ExampleReader
from services.trainer.offline.rows.lengths import CharacterLengths
from services.trainer.offline.rows.split_count import SplitCounter
from services.trainer.offline.spec import TrainingFilesSpec
from services.trainer.offline.validation import (
    TrainingFileReport,
    check_labels_together,
    check_training_file,
    scan_training_file,
)

CHAT = {"messages": [{"role": "user", "content": "abc"}, {"role": "assistant", "content": "de"}]}
ALPACA = {"instruction": "abc", "output": "de"}
SHAREGPT = {"conversations": [{"from": "human", "value": "abc"}, {"from": "gpt", "value": "de"}]}

Validate = Callable[..., TrainingFileReport]


@pytest.fixture
def validate(tmp_path: Path) -> Validate:
    """Validate rows, written as JSONL."""

    def run(
        rows: list[Any],
        layout: DataFormat = DataFormat.AUTO,
        kind: RowKind = RowKind.DEMONSTRATION,
        split: SplitCounter | None = None,
    ) -> TrainingFileReport:
        path = tmp_path / "upload"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return scan_training_file(
            path,
            kind,
            layout,
            CharacterLengths(),
            max_errors=20,
            progress=lambda _: None,
            split=split,
        )

    return run


@pytest.mark.parametrize(
    ("row", "layout"),
    [(CHAT, DataFormat.CHAT), (ALPACA, DataFormat.ALPACA), (SHAREGPT, DataFormat.SHAREGPT)],
)
def test_the_first_row_determines_the_format(
    validate: Validate, row: dict[str, Any], layout: DataFormat
) -> None:
    report = validate([row, row])
    assert report.layout is layout
    assert report.scan.container is Container.JSONL
    assert report.scan.errors == ()
    assert report.counts == RowCounts(
        messages=4, turns=2, tool_calls=0, rows_with_tools=0, desirable=0, undesirable=0
    )
    assert report.lengths is not None
    assert (report.lengths.unit, report.lengths.mean) == ("characters", 5)
    assert report.lengths.truncated is None


def test_a_report_counts_the_rows_that_are_held_out(validate: Validate) -> None:
    def counted(**arguments: Any) -> tuple[int, int] | None:
        settings = SupervisedHyperparameters(llamafactory=arguments)
        split = validate([*rows, *rows[:4]], split=SplitCounter.of(settings)).split
        return None if split is None else (split.training_rows, split.validation_rows)

    rows = [{"instruction": "abc", "output": f"answer {number}"} for number in range(20)]

    assert counted() is None
    assert counted(max_samples=6) == (6, 0)
    assert counted(max_samples=6, val_size=2) == (4, 2)
    trained, held = counted(val_size=0.2) or (0, 0)
    assert held == 4, "a fifth of 20 different rows"
    assert 16 <= trained <= 20, "with the repeats of rows that are not held out"


def test_rows_in_another_format_are_errors(validate: Validate) -> None:
    report = validate([CHAT, ALPACA])
    assert [str(problem) for problem in report.scan.errors] == ["row 2: messages is missing"]
    assert (report.scan.rows, report.scan.valid_rows) == (2, 1)


def test_an_explicit_format_is_used(validate: Validate) -> None:
    report = validate([CHAT], DataFormat.ALPACA)
    assert str(report.scan.errors[0]) == "row 1: instruction is missing"


def test_an_unknown_format_lists_the_known_keys(validate: Validate) -> None:
    report = validate([{"text": "x"}, 3])
    first, second = report.scan.errors
    assert first.message.startswith("has none of the keys that mark a format: messages (chat)")
    assert str(second) == "row 2: is 3, not an object"
    assert report.layout is None
    assert report.lengths is None


def test_the_report_is_json(validate: Validate) -> None:
    report = json.loads(json.dumps(validate([CHAT, {}]).to_json()))
    assert report["rows"] == 2
    assert report["errors"] == [{"row": 2, "message": "messages is missing"}]
    assert report["layout"] == "chat"
    assert report["counts"]["messages"] == 2
    assert report["lengths"]["max"] == 5


def test_the_summary_is_one_line(validate: Validate) -> None:
    assert validate([CHAT] * 1200).summary() == (
        "1,200 rows, chat; characters per row: mean 5, p95 5, max 5 "
        "(the model has no tokenizer.json yet)"
    )


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("images", ["a.png"], "images: only text"),
        ("chosen", "x", "chosen: supervised training"),
        ("rejected", {"value": "x"}, "rejected: supervised training"),
        ("kto_tag", True, "kto_tag: supervised training"),
        ("label", False, "label is false"),
    ],
)
def test_columns_that_would_lose_their_meaning_are_refused(
    validate: Validate, column: str, value: object, reason: str
) -> None:
    for row in (CHAT, ALPACA, SHAREGPT):
        (problem,) = validate([{**row, column: value}]).scan.errors
        assert problem.message.startswith(reason)


def test_unused_columns_are_named(validate: Validate) -> None:
    rows = [{**CHAT, "id": 3, "images": [], "label": True}, {**CHAT, "source": "x", "note": None}]
    report = validate(rows)
    assert report.scan.errors == ()
    assert report.ignored_columns == ("id", "images", "label", "source")


def test_feedback_of_one_kind_alone_cannot_be_trained_on(tmp_path: Path) -> None:
    row = {**CHAT, "label": True}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    spec = TrainingFilesSpec(
        uploaded={"training_file": SourceFile(path=path, filename="rows.jsonl")},
        rows=RowKind.FEEDBACK,
        max_seq_length=64,
    )
    file = FileValidation(
        "training_file", spec.uploaded["training_file"], Reporter(tmp_path), lambda _: None
    )

    with pytest.raises(InvalidFile, match="every answer is desirable; both kinds are needed"):
        check_training_file(spec, file)


def turns(*roles: str, weight: int | None = None) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": role, "content": "abc"} for role in roles]
    if weight is not None:
        messages[1]["weight"] = weight
    return {"messages": messages}


@pytest.mark.parametrize("kind", [RowKind.DEMONSTRATION, RowKind.PREFERENCE])
@pytest.mark.parametrize("weight", [None, 0, 1])
def test_a_named_template_refuses_the_same_rows_before_and_in_training(
    kind: RowKind, weight: int | None, tmp_path: Path
) -> None:
    row = turns(*("user", "assistant") * 2, weight=weight)
    if kind is RowKind.PREFERENCE:
        answer, other = row["messages"].pop(), {"role": "assistant", "content": "other"}
        row = {"input": row, "preferred_output": [answer], "non_preferred_output": [other]}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    name = "supervised" if kind is RowKind.DEMONSTRATION else "dpo"
    settings = {"hyperparameters": {"template": "qwen"}}
    spec = TrainingFilesSpec(
        uploaded={"training_file": SourceFile(path=path, filename="rows.jsonl")},
        rows=kind,
        max_seq_length=64,
        method=Method.model_validate({"type": name, name: settings}),
    )
    given = spec.uploaded["training_file"]
    file = FileValidation("training_file", given, Reporter(tmp_path), lambda _: None)
    reader = ExampleReader(kind, DataFormat.AUTO, ExampleLayout("qwen"))

    try:
        reader.read(row)
    except RowError as error:
        assert weight == 0
        with pytest.raises(InvalidFile, match=f"row 1: {error.message}"):
            check_training_file(spec, file)
    else:
        assert weight != 0 or kind is RowKind.PREFERENCE  # only the answers of a pair are trained
        assert not check_training_file(spec, file)["errors"]


def labels(desirable: int, undesirable: int) -> dict[str, Any]:
    return {"counts": {"desirable": desirable, "undesirable": undesirable}}


def several(**changes: Any) -> TrainingFilesSpec:
    fields: dict[str, Any] = {"uploaded": {}, "rows": RowKind.FEEDBACK, "max_seq_length": 64}
    return TrainingFilesSpec(**(fields | changes))


def test_several_files_have_both_kinds_of_feedback_together() -> None:
    good, bad = labels(3, 0), labels(0, 2)
    names = ("training_files.0.file", "training_files.1.file")

    check_labels_together(several(), dict(zip(names, (good, bad), strict=True)))

    with pytest.raises(InvalidRequest, match="of all files is undesirable") as caught:
        reports = {**dict.fromkeys(names, bad), "validation_file": good}
        check_labels_together(several(), reports)
    assert caught.value.param == "training_files"


def test_labels_of_a_mixture_with_a_hub_dataset_are_not_judged_by_the_uploaded_files() -> None:
    check_labels_together(several(all_uploaded=False), {"training_files.1.file": labels(3, 0)})


def test_the_longest_answer_of_a_preference_counts(validate: Validate) -> None:
    row = {"instruction": "abc", "chosen": "d", "rejected": "defg"}

    report = validate([row], kind=RowKind.PREFERENCE)

    assert report.layout is DataFormat.ALPACA
    assert report.lengths is not None
    assert report.lengths.max == 7


def test_unknown_keys_of_messages_are_named_like_columns(validate: Validate) -> None:
    chat = {"messages": [{**CHAT["messages"][0], "mood": "glad"}, CHAT["messages"][1]]}
    gpt = {"from": "gpt", "value": "de", "rating": 3, "note": None}
    sharegpt = {"conversations": [SHAREGPT["conversations"][0], gpt]}

    assert validate([chat]).ignored_columns == ("messages[].mood",)
    assert validate([sharegpt]).ignored_columns == ("conversations[].rating",)
