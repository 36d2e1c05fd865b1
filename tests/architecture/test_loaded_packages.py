"""Processes that only wait do not load what their children compute with."""

import os
import subprocess
import sys

import pytest

from tests.support.processes import REPOSITORY

COMPUTING = {"torch", "pyarrow", "sympy", "faiss", "pandas", "scipy", "sklearn", "transformers"}
PROCESSES = [
    "temper.stack.supervisor",
    "services.trainer.__main__",
    "services.evaluator.__main__",
    "services.retrieval.worker",
]
CAMPAIGNS = ["services.campaigns.__main__"]
"""Their worker tests differences of scores itself, with numpy."""


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        (["services.api.app"], COMPUTING | {"azure", "boto3", "google", "requests", "alembic"}),
        (PROCESSES, COMPUTING | {"numpy", "fastapi", "azure", "requests", "alembic"}),
        (CAMPAIGNS, COMPUTING | {"fastapi", "azure", "requests", "alembic"}),
    ],
    ids=["gateway", "supervisor and workers", "campaigns"],
)
def test_a_process_does_not_load_what_it_does_not_use(
    modules: list[str], unwanted: set[str]
) -> None:
    code = f"import sys\nfor name in {modules}: __import__(name)\nprint(*sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}

    loaded = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()

    assert unwanted.isdisjoint(loaded)
