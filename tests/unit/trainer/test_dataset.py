import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.llamafactory.names import MixStrategy
from services.contracts.training.optimizer import TrainingType
from services.core.artifacts import ModelSource
from services.datasets.record import UnreadableFile
from services.datasets.rendering.training_tokens import TokenSettings
from services.trainer.offline.rows.dataset import (
    PreparedData,
    prepare_data,
    prepared_data,
)
from services.trainer.offline.rows.examples import RENDERED, ExampleLayout, Rendering
from services.trainer.offline.spec import DataSource, Mixture, TrainingSpec

from .chatml import Characters, chatml

RENDERING = Rendering(chatml, Characters(), TokenSettings(cutoff=2048))

ROWS = [
    {
        "messages": [
            {"role": "user", "content": f"question {index}"},
            {"role": "assistant", "content": f"answer {index}"},
        ]
    }
    for index in range(3)
]


def write(path: Path, rows: list[Any]) -> Path:
    match path.suffix:
        case ".json":
            path.write_text(json.dumps(rows))
        case ".parquet":
            pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path)
        case _:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def spec(
    training: Path, validation: Path | None = None, template: str | None = None
) -> TrainingSpec:
    return TrainingSpec(
        job_id="ftjob-1",
        model=ModelSource(path=Path("/models/base")),
        training_data=DataSource(path=training),
        validation_data=DataSource(path=validation) if validation else None,
        method=TrainingType.FULL,
        template=template,
        n_epochs=1.0,
        learning_rate=1e-3,
    )


def prepare(
    asked: TrainingSpec, data_dir: Path, layout: ExampleLayout | None = None
) -> PreparedData:
    return prepare_data(
        asked, layout or ExampleLayout(RENDERED, RENDERING), data_dir, lambda rows: None
    )


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.parquet"])
def test_all_containers_yield_the_same_rows(tmp_path: Path, name: str) -> None:
    prepared = prepare(spec(write(tmp_path / name, ROWS)), tmp_path / "data")

    assert prepared.training_rows == 3
    assert read(tmp_path / "data/training.jsonl")[0] == {
        "conversations": [
            {"from": "human", "value": "[user]\nquestion 0[end]\n[assistant]\n"},
            {"from": "gpt", "value": "answer 0[end]"},
        ],
        "system": "",
        "tools": "",
    }


def test_dataset_info_describes_the_files(tmp_path: Path) -> None:
    asked = spec(write(tmp_path / "t.jsonl", ROWS), write(tmp_path / "v.jsonl", ROWS[:1]))

    prepared = prepare(asked, tmp_path / "data")

    info = json.loads((tmp_path / "data/dataset_info.json").read_text())
    assert {name: entry["file_name"] for name, entry in info.items()} == {
        "training": "training.jsonl",
        "validation": "validation.jsonl",
    }
    assert prepared.validation_rows == 1


def test_a_named_template_receives_roles_and_tools(tmp_path: Path) -> None:
    row = {**ROWS[0], "tools": [{"name": "add"}]}
    row["messages"] = [{"role": "system", "content": "s"}, *ROWS[0]["messages"]]

    prepare(
        spec(write(tmp_path / "t.jsonl", [row]), template="qwen"),
        tmp_path / "data",
        ExampleLayout("qwen"),
    )

    (written,) = read(tmp_path / "data/training.jsonl")
    assert written["system"] == "s"
    assert [turn["from"] for turn in written["conversations"]] == ["human", "gpt"]
    assert json.loads(written["tools"]) == [{"type": "function", "function": {"name": "add"}}]


def test_an_invalid_row_is_named(tmp_path: Path) -> None:
    rows = [*ROWS, {"messages": [{"role": "user"}]}]

    with pytest.raises(UnreadableFile, match=r"row 4: messages\[0\]\.content is missing"):
        prepare(spec(write(tmp_path / "t.jsonl", rows)), tmp_path / "data")


def test_prepared_data_is_reused_only_for_the_same_input(tmp_path: Path) -> None:
    asked = spec(write(tmp_path / "t.jsonl", ROWS))
    prepared = prepare(asked, tmp_path / "data")

    assert prepared_data(tmp_path / "data", asked) == prepared
    other = spec(write(tmp_path / "other.jsonl", ROWS))
    assert prepared_data(tmp_path / "data", other) is None


def test_interrupted_preparation_is_not_reused(tmp_path: Path) -> None:
    asked = spec(write(tmp_path / "t.jsonl", [*ROWS, {}]))
    with pytest.raises(UnreadableFile):
        prepare(asked, tmp_path / "data")

    assert (tmp_path / "data/training.jsonl").exists()
    assert prepared_data(tmp_path / "data", asked) is None


def test_several_sources_are_mixed_by_strategy_and_number_of_samples(tmp_path: Path) -> None:
    first, second = (write(tmp_path / f"{name}.jsonl", ROWS) for name in "ab")
    mixture = Mixture(sources=[DataSource(path=second, num_samples=5)], strategy=MixStrategy.OVER)
    asked = spec(first).model_copy(update={"mixture": mixture})

    prepared = prepare(asked, tmp_path / "data")

    answers = [row["conversations"][-1]["value"] for row in read(tmp_path / "data/training.jsonl")]
    assert prepared.training_rows == len(answers) == 10
    assert answers[::2] == [f"answer {n}[end]" for n in (0, 1, 2, 0, 1)]
    assert set(answers[1:6:2]) == {f"answer {n}[end]" for n in range(3)}
    left = {path.name for path in (tmp_path / "data").iterdir()}
    assert left == {"training.jsonl", "dataset_info.json", "prepared.json"}


def test_each_validation_set_has_a_dataset_of_its_name(tmp_path: Path) -> None:
    sets = {
        name: DataSource(path=write(tmp_path / f"{name}.jsonl", ROWS[:count]))
        for name, count in (("math", 1), ("chat", 2))
    }
    asked = spec(write(tmp_path / "t.jsonl", ROWS)).model_copy(update={"validation_sets": sets})

    prepared = prepare(asked, tmp_path / "data")

    info = json.loads((tmp_path / "data/dataset_info.json").read_text())
    assert list(info) == ["training", "math", "chat"]
    assert prepared.validation_rows == 3
    assert len(read(tmp_path / "data/chat.jsonl")) == 2


def test_a_bad_row_of_a_mixture_is_named_by_its_file_and_field(tmp_path: Path) -> None:
    second = DataSource(
        path=write(tmp_path / "b.jsonl", [*ROWS, {}]),
        param="training_files.1.file",
        filename="mine.jsonl",
    )
    asked = spec(write(tmp_path / "a.jsonl", ROWS))
    asked = asked.model_copy(update={"mixture": Mixture(sources=[second])})

    with pytest.raises(UnreadableFile, match=r"mine\.jsonl: row 4") as caught:
        prepare(asked, tmp_path / "data")

    assert caught.value.param == "training_files.1.file"


@pytest.mark.parametrize(
    ("probabilities", "param"), [(None, "mixing.strategy"), ((0.5, 0.5), "mixing.probabilities")]
)
def test_a_mixture_of_too_many_rows_names_the_field_of_the_request(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    probabilities: tuple[float, ...] | None,
    param: str,
) -> None:
    monkeypatch.setattr("services.mixing.order.MAX_ROWS", 3)
    second = DataSource(path=write(tmp_path / "b.jsonl", ROWS))
    mixture = Mixture(sources=[second], strategy=MixStrategy.OVER, probabilities=probabilities)
    asked = spec(write(tmp_path / "a.jsonl", ROWS)).model_copy(update={"mixture": mixture})

    with pytest.raises(InvalidRequest, match="more than 3 rows") as caught:
        prepare(asked, tmp_path / "data")

    assert caught.value.param == param
