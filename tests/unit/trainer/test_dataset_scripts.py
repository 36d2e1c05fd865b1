"""Dataset scripts of the operator: how they are named, found and read."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.training.rows import ScriptReference
from services.trainer.offline.script_child import ScriptError, rows_of, write
from services.trainer.offline.scripts import ScriptRun, find_script

SCRIPT = """
import json
import datasets

LABELS = ["good", "größer"]

class Reviews(datasets.GeneratorBasedBuilder):
    def _info(self):
        return datasets.DatasetInfo()

    def _split_generators(self, dl_manager):
        path = dl_manager.download("reviews.txt")
        return [datasets.SplitGenerator(name="train", gen_kwargs={"filepath": path})]

    def _generate_examples(self, filepath):
        for number, line in enumerate(open(filepath, encoding="utf-8")):
            yield number, {
                "system": "",
                "instruction": line.strip(),
                "output": json.dumps(LABELS[number], ensure_ascii=False),
                "history": [],
            }
"""


class Builder:
    """The part of the library's class that a script uses."""

    name = "reviews"

    def __init__(self, cache_dir: str, base_path: str) -> None:
        self.info = self._info()

    def _info(self) -> object:
        raise NotImplementedError


class Downloads:
    def __init__(self, base_path: str, **_: object) -> None:
        self._folder = Path(base_path)

    def download(self, name: str) -> str:
        return str(self._folder / name)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's interface, without the library."""
    module = ModuleType("datasets")
    stand_ins: dict[str, Any] = {
        "GeneratorBasedBuilder": Builder,
        "DatasetInfo": SimpleNamespace,
        "SplitGenerator": SimpleNamespace,
        "DownloadConfig": SimpleNamespace,
        "DownloadManager": Downloads,
    }
    for name, value in stand_ins.items():
        setattr(module, name, value)
    monkeypatch.setitem(sys.modules, "datasets", module)
    monkeypatch.setattr(sys, "path", list(sys.path))


def run(folder: Path, script: str = SCRIPT, split: str = "train", rows: int = 10) -> ScriptRun:
    (folder / "reviews.py").write_text(script, encoding="utf-8")
    (folder / "reviews.txt").write_text("one\ntwo\n")
    return ScriptRun(
        script=folder / "reviews.py",
        split=split,
        output=folder / "training_file.jsonl",
        python=Path(sys.executable),
        seconds=60.0,
        max_rows=rows,
    )


@pytest.mark.usefixtures("library")
def test_the_rows_of_a_split_are_those_that_the_script_yields(tmp_path: Path) -> None:
    asked = run(tmp_path)

    write(asked, rows_of(asked, tmp_path))

    lines = asked.output.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["output"] for line in lines] == ['"good"', '"größer"']
    assert "größer" in lines[1]
    assert not asked.partial.exists()


@pytest.mark.usefixtures("library")
def test_an_unknown_split_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    asked = run(tmp_path, split="test")

    with pytest.raises(ScriptError, match="has no split 'test'; it has train"):
        list(rows_of(asked, tmp_path))


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("import datasets", "none"),
        (SCRIPT + "\nclass Other(datasets.GeneratorBasedBuilder): ...", "Reviews, Other"),
        ("from datasets import GeneratorBasedBuilder", "none"),
    ],
)
def test_a_script_defines_exactly_one_builder(tmp_path: Path, script: str, found: str) -> None:
    asked = run(tmp_path, script)

    with pytest.raises(ScriptError, match=f"it has {found}$"):
        list(rows_of(asked, tmp_path))


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{"a": 1}] * 11, "more than 10 rows"),
        ([{"a": 1}, 3], "row 2 is a int"),
        ([{"a": float("nan")}], "row 1 is not JSON"),
        ([{"a": b"bytes"}], "row 1 is not JSON"),
    ],
)
def test_unusable_rows_leave_no_file(tmp_path: Path, rows: list[Any], reason: str) -> None:
    asked = run(tmp_path)

    def generated() -> Iterator[Any]:
        yield from rows

    with pytest.raises(ScriptError, match=reason):
        write(asked, generated())

    assert not asked.output.exists()


@pytest.mark.parametrize(
    ("reference", "path", "split"),
    [
        ("script:reviews.py", "reviews.py", "train"),
        ("script:lab/reviews#test", "lab/reviews/reviews.py", "test"),
    ],
)
def test_a_reference_names_a_file_or_its_folder_and_a_split(
    reference: str, path: str, split: str
) -> None:
    parsed = ScriptReference.parse(reference, "training_file")

    assert (parsed.path, parsed.split) == (path, split)
    assert ScriptReference.parse(str(parsed), "training_file") == parsed


@pytest.mark.parametrize(
    "reference",
    ["script:", "script:/etc/x.py", "script:../x.py", "script:a/../b.py", "script:a#b/c"],
)
def test_a_reference_out_of_the_folder_is_refused_naming_the_field(reference: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        ScriptReference.parse(reference, "validation_file")

    assert caught.value.param == "validation_file"


def test_only_files_below_the_operators_folder_are_found(tmp_path: Path) -> None:
    root = tmp_path / "scripts"
    root.mkdir()
    (root / "mine.py").write_text("")
    (tmp_path / "outside.py").write_text("")
    (root / "link.py").symlink_to(tmp_path / "outside.py")

    assert find_script(root, ScriptReference("mine.py"), "training_file") == root / "mine.py"
    for name in ("link.py", "absent.py", "x" * 300 + ".py"):
        with pytest.raises(InvalidRequest, match="no script"):
            find_script(root, ScriptReference(name), "training_file")
    with pytest.raises(InvalidRequest, match="TEMPER_DATASET_SCRIPTS"):
        find_script(None, ScriptReference("mine.py"), "training_file")
