"""Datasets from files and from the hub, in their published schemas."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from temper.datasets.rows import read_rows, write_rows
from temper.datasets.sources import open_source
from temper.submission.submission import SubmissionError
from tests.support.models.hub import MAIN, Kind, Repository, running_hub

CHEMCOT = {
    "id": "1",
    "query": "Is it aromatic?",
    "task": "mol_und",
    "subtask": "ring",
    "struct_cot": '{"output": "yes"}',
    "raw_cot": "It has a ring.",
    "meta": {"smiles": "c1ccccc1"},
}
RCR = {
    "id": "2",
    "query": "Which reagent?",
    "task": "rxn",
    "subtask": "rcr",
    "raw_cot": "Think.",
    "cot_result": '```json\n{"output": "water"}\n```',
    "gt": "O",
    "meta": {"reaction": "A>>B"},
}
FINANCEIQ_ROW = "{number},\u95ee{number}?,a,b,c,d,B\n"
TABLE = {
    "id": "1",
    "qtype": "NumericalReasoning",
    "qsubtype": "Counting",
    "table": '{"columns": ["year"], "data": [[1990], [1991]]}',
    "question": "How many years?",
    "instruction": "Answer the question on the table.",
    "instruction_type": "TCoT",
    "response": "Two rows. Final Answer: 2",
}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "PQA": {"question": "Which buffer?", "choices": ["PBS", "TE"], "answer": "TE", "id": "1"},
    "ORD": {"question": "Order.", "wrong_steps": ["b", "a"], "correct_steps": ["a", "b"]},
    "ERR": {"context": {"purpose": "Lyse."}, "corrupted_text": None, "is_correct": True},
    "GEN": {"instruction": "List.", "input": "Lyse cells.", "output": ["1. Lyse."]},
}
PATENT = {"application_number": "1", "context": "A claim.", "answer": "B"}


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def publish(root: Path) -> None:
    """Write repositories with the layouts of the published datasets."""
    problems = [{"problem": "1 + 1?", "answer": "2", "solution": ""}]
    write_json(root / "deepscaler" / "deepscaler.json", problems)
    for task in ("mol_und", "mol_edit", "mol_opt"):
        rows = [{**CHEMCOT, "task": task}]
        write_json(root / "chemcot" / "chemcotbench-cot" / task / "a.json", rows)
    write_json(root / "chemcot" / "chemcotbench-cot" / "rxn" / "rcr.json", [RCR])
    for task in ("PAR4PC", "PI4PC", "NOC4PC"):
        for part in ("train", "validation", "test"):
            patents = [{**PATENT, "task": task, "part": part}]
            write_parquet(root / "panorama" / task / f"{part}-00000-of-00001.parquet", patents)

    for task, row in PROTOCOLS.items():
        write_json(root / "bioprobench" / f"{task}.json", [row])
        write_json(root / "bioprobench" / f"{task}_test.json", [{"id": "held out"}])
    instructions = root / "tableinstruct" / "TableInstruct_instructions.jsonl"
    instructions.parent.mkdir()
    instructions.write_text(json.dumps(TABLE) + "\n")
    for folder, number in (("dev", 5), ("test", 240), ("test", 5)):
        file = root / "financeiq" / "data" / folder / f"{number}.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = (FINANCEIQ_ROW.format(number=each) for each in range(number))
        file.write_text(",Question,A,B,C,D,Answer\n" + "".join(lines))


REPOSITORIES = {
    "deepscaler": "agentica-org/DeepScaleR-Preview-Dataset",
    "chemcot": "OpenMol/ChemCoTDataset",
    "panorama": "LG-AI-Research/PANORAMA",
    "financeiq": "Duxiaoman-DI/FinanceIQ",
    "tableinstruct": "Multilingual-Multimodal-NLP/TableInstruct",
    "bioprobench": "bowenxian/BioProBench",
}
NAMES = (
    "deepscaler",
    "chemcot",
    "chemcot-mol_edit",
    "panorama-pi4pc",
    "financeiq",
    "tableinstruct",
    "bioprobench",
    "hf://OpenMol/ChemCoTDataset",
)
LOADING = """
import json, sys
from temper.datasets.sources import open_source
found = {}
for name in sys.argv[1:]:
    source = open_source(name)
    found[name] = [source.origin, list(source.rows)]
print(json.dumps(found))
"""

Loaded = dict[str, tuple[str, list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """Origin and rows of datasets from the real hub client, which reads its URL once."""
    root = tmp_path_factory.mktemp("hub")
    publish(root)
    with running_hub() as hub:
        for folder, repository in REPOSITORIES.items():
            hub.add(Repository(Kind.DATASET, repository, {MAIN: root / folder}))
        done = subprocess.run(
            [sys.executable, "-c", LOADING, *NAMES],
            env={**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(root / "cache")},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("deepscaler", [{"problem": "1 + 1?", "answer": "2", "solution": ""}]),
        ("chemcot-mol_edit", [{**CHEMCOT, "task": "mol_edit"}]),
        ("panorama-pi4pc", [{**PATENT, "task": "PI4PC", "part": "train"}]),
        ("tableinstruct", [TABLE]),
        ("bioprobench", [PROTOCOLS[task] for task in sorted(PROTOCOLS)]),
    ],
)
def test_a_published_name_loads_its_rows_except_held_out_ones(
    name: str, expected: list[dict[str, Any]], loaded: Loaded
) -> None:
    origin, rows = loaded[name]

    assert rows == expected
    assert origin.startswith("hf://")


def test_the_last_rows_of_each_category_are_held_out(loaded: Loaded) -> None:
    _, rows = loaded["financeiq"]

    questions = [row["Question"] for row in rows]
    assert questions == [f"\u95ee{number}?" for number in [*range(140), *range(2)]]
    assert rows[0]["Answer"] == "B"


def test_reagent_rows_are_converted_to_the_common_schema(loaded: Loaded) -> None:
    _, rows = loaded["chemcot"]

    assert len(rows) == 4
    (reagent,) = [row for row in rows if row["task"] == "rxn"]
    assert set(reagent) == set(CHEMCOT)
    assert reagent["meta"] == {"reaction": "A>>B", "gt": "O"}
    assert reagent["struct_cot"] == '{"output": "water"}'


def test_a_repository_is_loaded_unchanged(loaded: Loaded) -> None:
    _, rows = loaded["hf://OpenMol/ChemCoTDataset"]

    assert RCR in rows


def test_a_folder_is_read_without_its_test_files(tmp_path: Path) -> None:
    rows = [{"q": "é", "n": 1}, {"q": "b", "n": 2}]
    write_parquet(tmp_path / "train.parquet", rows)
    write_json(tmp_path / "test.json", rows)
    (tmp_path / "more.csv").write_text("q,n\nc,3\n")
    (tmp_path / "readme.txt").write_text("no rows")

    assert list(open_source(str(tmp_path)).rows) == [{"q": "c", "n": "3"}, *rows]


def test_rows_are_written_as_json_lines_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"

    assert write_rows(path, iter([{"a": "é"}, {"a": None}, {"a": 3}]), most=2) == 2
    assert list(read_rows(path)) == [{"a": "é"}, {"a": None}]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"a": 1}\n{"a": }\n', "a.jsonl: after row 1"),
        ("a.json", '[{"a": 1}, 2]', "row 2 is not an object"),
        ("a.parquet", "no", "a.parquet: after row 0"),
        ("a.txt", "no", "is not one of .jsonl"),
    ],
)
def test_a_bad_file_is_reported_with_its_row(
    name: str, content: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(content)

    with pytest.raises(SubmissionError, match=message):
        list(read_rows(path))


def test_an_unknown_source_lists_the_published_names() -> None:
    with pytest.raises(SubmissionError, match="nor one of deepscaler, panorama"):
        open_source("deepscalar")
