"""Dataset scripts, run by the real library in a child without a network."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from services.contracts.errors import InvalidRequest
from services.trainer.offline.scripts import ScriptRun, write_rows
from tests.support.runtimes import installed_runtime

pytestmark = pytest.mark.runtime

BUILDER = """
import datasets, json, socket, time
class Rows(datasets.GeneratorBasedBuilder):
    def _info(self):
        features = datasets.Features({{"output": datasets.Value("string")}})
        return datasets.DatasetInfo(features=features)
    def _split_generators(self, dl_manager):
        path = dl_manager.download_and_extract("rows.json")
        return [datasets.SplitGenerator(name=datasets.Split.TRAIN, gen_kwargs={{"filepath": path}})]
    def _generate_examples(self, filepath):
        with open(filepath) as file:
            rows = json.load(file)
        {body}
"""
EACH = "yield from ((n, {'instruction': 'q', 'output': row}) for n, row in enumerate(rows))"

Asked = Callable[..., ScriptRun]


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    def build(body: str, seconds: float = 120.0) -> ScriptRun:
        (tmp_path / "rows.json").write_text(json.dumps(["a", "b"]))
        (tmp_path / "rows.py").write_text(BUILDER.format(body=body))
        return ScriptRun(
            script=tmp_path / "rows.py",
            split="train",
            output=tmp_path / "job" / "training_file.jsonl",
            python=installed_runtime("training").python,
            seconds=seconds,
            max_rows=10,
        )

    return build


def test_a_script_reads_files_beside_it_and_its_rows_are_json_lines(asked: Asked) -> None:
    run = asked(EACH)

    write_rows(run, "training_file")

    rows = [json.loads(line) for line in run.output.read_text().splitlines()]
    assert [row["output"] for row in rows] == ["a", "b"]


def test_a_script_has_no_network(asked: Asked) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        run = asked(f"socket.create_connection(('127.0.0.1', {port}), 5); {EACH}")

        with pytest.raises(InvalidRequest, match="Network is unreachable") as caught:
            write_rows(run, "training_file")

    assert (caught.value.code, caught.value.param) == ("dataset_script_failed", "training_file")


def test_a_hanging_script_is_killed_with_its_children(asked: Asked) -> None:
    run = asked(f"time.sleep(600); {EACH}", seconds=20.0)

    with pytest.raises(InvalidRequest, match="did not finish within 20 s"):
        write_rows(run, "training_file")

    assert not run.output.exists()
