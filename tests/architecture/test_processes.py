"""Which libraries a process may load: processes that only wait load nothing that computes."""

import subprocess
import sys
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest

# One worker process runs them all, so that each module is imported once.
pytestmark = pytest.mark.xdist_group("processes")

HEAVY = (
    *("torch", "transformers", "llamafactory", "trl", "vllm", "datasets"),
    *("sentence_transformers", "onnxruntime"),
)

COMPUTING = ("pyarrow", "sympy", "faiss", "pandas", "scipy", "sklearn")
RARE = ("azure", "boto3", "google", "requests", "alembic", "tokenizers")
"""What a process loads for the few requests and jobs that need it."""
WORKERS = (
    *("services.trainer.__main__", "services.evaluator.__main__"),
    *("services.campaigns.__main__", "services.retrieval.worker"),
)

PROBE = "import importlib, sys; importlib.import_module(sys.argv[1]); print(*sys.modules)"


@cache
def modules_of(module: str) -> frozenset[str]:
    """Everything that a fresh interpreter has loaded after importing a module."""
    command = [sys.executable, "-c", PROBE, module]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return frozenset(run.stdout.split())


def loaded(module: str, *names: str) -> list[str]:
    return [name for name in names if name in modules_of(module)]


@pytest.mark.parametrize(
    "module",
    [
        "services.api.app",
        "services.trainer.__main__",
        "services.trainer.offline.validation",
        "services.campaigns.__main__",
        "services.evaluator.__main__",
        "services.evaluator.evaluation.child",
        "services.evaluator.evaluation.validation",
        "services.evaluator.serve.child",
        "services.evaluator.rollout.child",
        "services.evaluator.rollout.validation",
        "services.retrieval.worker",
        "services.retrieval.builder.__main__",
        "services.retrieval.corpus.validation",
        "temper.stack.supervisor",
    ],
)
def test_only_children_of_a_runtime_load_the_heavy_libraries(module: str) -> None:
    assert loaded(module, *HEAVY) == []


@pytest.mark.parametrize(
    "module",
    [
        "services.trainer.__main__",
        "services.campaigns.__main__",
        "services.evaluator.__main__",
        "services.retrieval.worker",
        "services.retrieval.builder.__main__",
    ],
)
def test_workers_load_no_web_framework(module: str) -> None:
    assert loaded(module, "fastapi", "uvicorn") == []


@pytest.mark.parametrize(
    ("module", "unused"),
    [
        ("services.api.app", ("numpy", "httpx", "rapidfuzz", "pynvml", "jsonschema")),
        *((module, ("numpy", "fastapi", "httpx", "aiohttp", "rapidfuzz")) for module in WORKERS),
        # It asks services itself, with httpx.
        ("temper.stack.supervisor", ("numpy", "fastapi")),
    ],
)
def test_a_process_does_not_load_what_it_does_not_use(module: str, unused: tuple[str, ...]) -> None:
    assert loaded(module, *COMPUTING, *RARE, *unused) == []


def test_a_running_worker_has_no_command_line(tmp_path: Path) -> None:
    code = f"""
        import signal, sys
        from pathlib import Path
        from celery.signals import worker_ready
        from services.core.settings import Settings
        from services.jobs.broker import consume, create_celery_app

        def stop(**_):
            signal.raise_signal(signal.SIGTERM)

        worker_ready.connect(stop)
        app = create_celery_app(Settings(home=Path({str(tmp_path)!r})))
        consume(app, queues=["training"], name="test@host", threads=1, log_level="ERROR")
        print(*sys.modules, file=sys.__stdout__)  # Celery takes what is printed for its log
    """

    command = [sys.executable, "-c", dedent(code)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)

    modules = run.stdout.split()
    assert "celery.worker.consumer" in modules
    assert {"celery.bin", "prompt_toolkit", "pygments"}.isdisjoint(modules)


def test_the_sandbox_loads_neither_database_nor_broker() -> None:
    absent = ("sqlalchemy", "celery", "kombu", "redis", "psycopg", "services.core.db")
    assert loaded("services.sandbox.__main__", *absent) == []


def test_the_search_service_loads_no_database_and_no_queue() -> None:
    assert loaded("services.retrieval.server.server", "sqlalchemy", "celery") == []


def test_the_supervisor_of_a_stack_loads_no_database_and_no_queue() -> None:
    assert loaded("temper.stack.supervisor", "sqlalchemy", "celery") == []


def test_the_gateway_loads_no_part_of_a_worker() -> None:
    assert loaded("services.api.app", "services.jobs.worker", "services.trainer") == []


def test_the_indexing_worker_loads_no_index_library() -> None:
    assert loaded("services.retrieval.worker", "tantivy", "faiss", "numpy") == []


@pytest.mark.parametrize(
    "module",
    ["services.core.process.reporter", "services.rewards.reward_models.child"],
)
def test_what_runs_in_a_foreign_runtime_needs_the_standard_library_only(module: str) -> None:
    command = [sys.executable, "-S", "-c", f"import {module}"]
    assert subprocess.run(command, check=False).returncode == 0
