"""Which libraries a process may load."""

import subprocess
import sys

import pytest

HEAVY = (
    *("torch", "transformers", "llamafactory", "trl", "vllm", "datasets"),
    *("sentence_transformers", "onnxruntime"),
)

PROBE = """
import importlib, sys
importlib.import_module(sys.argv[1])
print(*[name for name in sys.argv[2:] if name in sys.modules])
"""


def loaded(module: str, *names: str) -> list[str]:
    command = [sys.executable, "-c", PROBE, module, *names]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(
    "module",
    [
        "services.api.app",
        "services.trainer.worker",
        "services.trainer.sft.validation",
        "services.evaluator.worker",
        "services.evaluator.evaluation.child",
        "services.evaluator.validation",
        "services.evaluator.rollout.child",
        "services.evaluator.rollout.validation",
        "services.retrieval.worker",
        "services.retrieval.builder.__main__",
        "services.retrieval.corpus.validation",
        "temper.cli.main",
    ],
)
def test_only_children_of_a_runtime_load_the_heavy_libraries(module: str) -> None:
    assert loaded(module, *HEAVY) == []


@pytest.mark.parametrize(
    "module",
    [
        "services.trainer.worker",
        "services.evaluator.worker",
        "services.retrieval.worker",
        "services.retrieval.builder.__main__",
    ],
)
def test_workers_load_no_web_framework(module: str) -> None:
    assert loaded(module, "fastapi", "uvicorn") == []


def test_searching_loads_no_database_and_no_queue() -> None:
    assert loaded("services.retrieval.server.server", "sqlalchemy", "celery") == []


def test_the_command_line_loads_no_database_and_no_queue() -> None:
    assert loaded("temper.cli.main", "sqlalchemy", "celery") == []


def test_the_gateway_loads_no_part_of_a_worker() -> None:
    assert loaded("services.api.app", "services.core.worker", "services.trainer") == []


def test_the_worker_of_indexes_leaves_them_to_its_children() -> None:
    assert loaded("services.retrieval.worker", "tantivy", "faiss", "numpy") == []


def test_the_reporter_needs_the_standard_library_only() -> None:
    command = [sys.executable, "-S", "-c", "import services.core.process.reporter"]
    assert subprocess.run(command, check=False).returncode == 0
