"""``temper index create``: its options are fields of an index's specification."""

from pathlib import Path
from typing import Any

import pytest

from services.contracts.retrieval.index_messages import BuildIndex
from temper.cli.data import index
from temper.cli.main import main


class Sent(Exception):
    """The order that a builder would get."""


@pytest.fixture(autouse=True)
def _corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(out: object, order: BuildIndex, into: object) -> None:
        raise Sent(order)

    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text("{}\n")
    (tmp_path / "encoder").mkdir()
    monkeypatch.setattr(index, "_run", run)


def specification(*options: str) -> dict[str, Any]:
    with pytest.raises(Sent) as sent:
        main(["index", "create", "wiki", "--corpus", "rows.jsonl", *options])
    order: BuildIndex = sent.value.args[0]
    assert order.corpus.is_absolute()
    return order.specification.model_dump(mode="json")


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ([], {"mode": "bm25", "language": "english", "encoder": None, "dense": "auto"}),
        (["--language", "none"], {"language": None}),
        (["--encoder", "org/name"], {"mode": "hybrid", "encoder": "org/name"}),
        (["--mode", "dense", "--dense", "flat"], {"mode": "dense", "dense": "flat"}),
        (["--set", "language=german"], {"language": "german"}),
    ],
)
def test_options_set_fields_of_the_specification(
    options: list[str], fields: dict[str, Any]
) -> None:
    made = specification(*options)

    assert {name: made[name] for name in fields} == fields


def test_the_folder_of_an_encoder_becomes_absolute(tmp_path: Path) -> None:
    assert specification("--encoder", "encoder")["encoder"] == str(tmp_path / "encoder")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mode", "bm25", "--encoder", "x"], "encoder: needs mode dense or hybrid"),
        (["--vectors", "rows.jsonl"], "--vectors needs --encoder"),
        (["--mode", "fast"], "--mode: mode: "),
    ],
)
def test_options_that_fit_no_specification_are_named(
    capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["index", "create", "wiki", "--corpus", "rows.jsonl", *options]) == 2

    assert message in " ".join(capsys.readouterr().err.split())
