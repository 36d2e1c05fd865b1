"""Which rows are trained, limited by max_samples, and held out by val_size."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.llamafactory.arguments import ArgumentRefused
from services.contracts.llamafactory.names import MixStrategy
from services.contracts.training.optimizer import TrainingType
from services.core.artifacts import ModelSource
from services.datasets.record import UnreadableFile
from services.datasets.rendering.training_tokens import TokenSettings
from services.trainer.offline.rows.dataset import PreparedData, prepare_data, prepared_data
from services.trainer.offline.rows.examples import RENDERED, ExampleLayout, Rendering
from services.trainer.offline.rows.held_out import held_out_rows
from services.trainer.offline.spec import DataSource, Mixture, TrainingSpec
from tests.unit.trainer.chatml import Characters, chatml, forgetful


class Job:
    """Training files, and the rows that a training reads of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prepared: PreparedData

    def source(self, name: str, words: list[str], **fields: Any) -> DataSource:
        """A file of conversations, whose answers are the words between the semicolons."""
        path = self.folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(conversation(each)) + "\n" for each in words))
        return DataSource(path=path, filename=name, **fields)

    def prepare(
        self,
        *sources: DataSource,
        template: Any = chatml,
        strategy: MixStrategy = MixStrategy.CONCAT,
        seed: int = 42,
        validation: DataSource | None = None,
        **arguments: Any,
    ) -> tuple[list[str], list[str]]:
        """The answers of the training and of the validation rows."""
        spec = self.spec(sources, strategy, seed, validation, arguments)
        layout = ExampleLayout(RENDERED, Rendering(template, Characters(), TokenSettings(4096)))
        self.prepared = prepare_data(spec, layout, self.folder / "data", lambda _: None)
        return self.answers("training"), self.answers("validation")

    def spec(
        self,
        sources: tuple[DataSource, ...],
        strategy: MixStrategy = MixStrategy.CONCAT,
        seed: int = 42,
        validation: DataSource | None = None,
        arguments: dict[str, Any] | None = None,
    ) -> TrainingSpec:
        return TrainingSpec(
            job_id="ftjob-1",
            model=ModelSource(path=Path("/models/base")),
            training_data=sources[0],
            mixture=Mixture(sources=list(sources[1:]), strategy=strategy),
            validation_data=validation,
            method=TrainingType.FULL,
            n_epochs=1.0,
            learning_rate=1e-3,
            seed=seed,
            arguments=arguments or {},
        )

    def answers(self, name: str) -> list[str]:
        path = self.folder / f"data/{name}.jsonl"
        rows = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
        texts = (row["conversations"][-1]["value"] for row in rows)
        return [text.removesuffix("[end]").removeprefix("<think></think>") for text in texts]


def conversation(words: str) -> dict[str, Any]:
    turns = [
        turn
        for word in words.split(";")
        for turn in (
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": word},
        )
    ]
    return {"messages": turns}


def words(count: int, prefix: str = "") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_rows_are_held_out_of_a_file(job: Job) -> None:
    trained, held = job.prepare(job.source("a", words(30)), val_size=0.1)

    assert len(held) == 3
    assert sorted(trained + held) == sorted(words(30))
    assert (job.prepared.training_rows, job.prepared.validation_rows) == (27, 3)
    assert job.prepared.rows_are_chosen
    info = json.loads((job.folder / "data/dataset_info.json").read_text())
    assert list(info) == ["training", "validation"]


def test_a_seed_holds_out_the_same_rows_and_another_others(job: Job) -> None:
    source = job.source("a", words(30))

    chosen = [job.prepare(source, val_size=10, seed=seed)[1] for seed in (1, 1, 2)]

    assert chosen[0] == chosen[1] != chosen[2]
    assert len(chosen[0]) == 10


def test_rows_that_are_drawn_repeatedly_are_not_validated_on(job: Job) -> None:
    source = job.source("a", words(100), num_samples=500)

    trained, held = job.prepare(source, val_size=0.1)

    assert len(trained) == 500
    assert len(set(held)) == len(held) == 10
    assert not set(trained) & set(held)


def test_rows_that_a_mixture_repeats_are_not_validated_on(job: Job) -> None:
    sources = job.source("a", words(60)), job.source("b", words(6, "b"))

    trained, held = job.prepare(*sources, strategy=MixStrategy.OVER, val_size=0.2)

    assert len(held) == 14  # of 66, rounded up
    assert max(Counter(trained).values()) > 1
    assert not set(trained) & set(held)


def test_identical_rows_of_several_files_are_on_one_side(job: Job) -> None:
    shared = words(20)
    sources = job.source("a", shared * 2), job.source("b", [*shared, *words(20, "b")])

    trained, held = job.prepare(*sources, val_size=0.5)

    assert len(set(held)) == len(held) == 20
    assert not set(trained) & set(held)
    assert set(trained) | set(held) == {*shared, *words(20, "b")}


def test_the_turns_of_a_conversation_are_on_one_side(job: Job) -> None:
    source = job.source("a", [f"{n}-1;{n}-2;{n}-3" for n in range(10)])

    trained, held = job.prepare(source, template=forgetful, val_size=0.3)

    assert (job.prepared.training_rows, job.prepared.validation_rows) == (7, 3)
    assert len(held) == 9
    number = {text.partition("-")[0] for text in held}
    assert not number & {text.partition("-")[0] for text in trained}
    assert job.prepared.earlier_turns == {"validation": [0, 1, 3, 4, 6, 7]}


def test_a_limit_counts_the_conversations_of_each_file(job: Job) -> None:
    sources = job.source("a", ["1;2;3", "4;5;6", "7;8;9"]), job.source("b", ["b1;b2", "b3;b4"])
    validation = job.source("v", ["v1;v2", "v3", "v4"])

    trained, checked = job.prepare(
        *sources, template=forgetful, validation=validation, max_samples=2
    )

    assert trained == [*"123456", "b1", "b2", "b3", "b4"]
    assert checked == ["v1", "v2", "v3"]
    assert (job.prepared.training_rows, job.prepared.validation_rows) == (4, 2)
    assert job.prepared.earlier_turns == {"validation": [0]}


def test_a_limit_is_of_the_rows_that_are_drawn(job: Job) -> None:
    drawn = job.source("a", words(20), num_samples=10), job.source("b", words(20, "b"))

    trained, _ = job.prepare(*drawn, max_samples=4)

    assert len(trained) == 8
    assert trained[4:] == words(4, "b")
    assert not set(trained[:4]) <= set(words(4)), "drawn from all rows"


def test_rows_are_held_out_of_those_within_the_limit(job: Job) -> None:
    trained, held = job.prepare(job.source("a", words(50)), val_size=0.25, max_samples=8)

    assert sorted(trained + held) == words(8)
    assert len(held) == 2


@pytest.mark.parametrize("size", [0.999, 3, 100])
def test_a_row_must_be_left_to_train_on(job: Job, size: float) -> None:
    with pytest.raises(ArgumentRefused, match="leaves none to train on") as caught:
        job.prepare(job.source("a", words(3)), val_size=size)

    assert caught.value.param == "llamafactory.val_size"


def test_a_file_without_a_row_left_is_named(job: Job) -> None:
    sources = job.source("a", words(40)), job.source("few", ["same"] * 3)

    with pytest.raises(UnreadableFile, match="few: val_size holds out all of its rows"):
        job.prepare(*sources, val_size=40)


def test_a_validation_file_and_a_split_exclude_each_other(job: Job) -> None:
    source = job.source("a", words(4))

    with pytest.raises(ArgumentRefused, match="without a validation file"):
        job.prepare(source, validation=source, val_size=0.5)


def test_data_of_earlier_versions_are_left_to_the_split_of_the_library(job: Job) -> None:
    source = job.source("a", words(4))
    job.prepare(source, val_size=0.5)
    path = job.folder / "data/prepared.json"
    stored = json.loads(path.read_text())
    new = ("turn_ends", "rows_are_chosen", "earlier_turns")
    old = {name: value for name, value in stored.items() if name not in new}
    path.write_text(json.dumps(old | {"last_response": "3[end]"}))

    found = prepared_data(job.folder / "data", job.spec((source,), arguments={"val_size": 0.5}))

    assert found is not None
    assert not found.rows_are_chosen
    assert found.last_response == "3[end]"


@given(st.one_of(st.floats(1e-6, 0.99), st.integers(1, 50)), st.integers(2, 60))
def test_the_number_of_rows_is_that_of_the_library(size: float, rows: int) -> None:
    try:
        held = held_out_rows(size, rows)
    except ArgumentRefused:
        assert size >= rows or size * rows > rows - 1
        return
    assert 0 < held < rows
    assert held == size if size >= 1 else size * rows - 1e-9 <= held < size * rows + 1


def test_a_share_is_exact_in_decimals() -> None:
    assert held_out_rows(0.07, 100) == 7
