"""Tests that run in the training runtime, where torch is.

A folder's conftest.py imports `pytest_pycollect_makemodule` from here. Its test files are then not
imported: their test functions are found by their names, long ones by their marker, and a file is
run as a whole, by the pytest of the core environment in a process of the runtime.
"""

import ast
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.core.process.runtimes import REPOSITORY, child_environment
from tests.support.runtimes import installed_runtime

DEADLINE = 500.0
INSIDE = "TEMPER_TESTS_IN_RUNTIME"
CORE_PYTHON = "TEMPER_TESTS_CORE_PYTHON"
RUNNER = Path(__file__).with_name("runner.py")


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> Any:
    """Take the test files of a folder, unless this is the process that runs them."""
    if INSIDE in os.environ:
        return None
    return RuntimeFile.from_parent(parent, path=module_path)


class RuntimeFile(pytest.File):
    """A file of tests; it is run when the first of them is."""

    def collect(self) -> Iterator[pytest.Item]:
        """One item for each test function, whatever its parameters."""
        for statement in ast.parse(self.path.read_bytes()).body:
            if isinstance(statement, ast.FunctionDef) and statement.name.startswith("test_"):
                item: pytest.Item = RuntimeTest.from_parent(self, name=statement.name)
                item.add_marker("runtime")
                if "pytest.mark.long" in map(ast.unparse, statement.decorator_list):
                    item.add_marker("long")
                yield item

    def results(self) -> dict[str, dict[str, str]]:
        """Outcome and output of each test function."""
        if not hasattr(self, "_results"):
            self._results = _run(self.path)
        return self._results


class RuntimeTest(pytest.Item):
    """A test function."""

    def runtest(self) -> None:
        """Report its outcome."""
        assert isinstance(self.parent, RuntimeFile)
        result = self.parent.results().get(self.name)
        if result is None:
            pytest.fail("it was not run", pytrace=False)
        if result["outcome"] == "skipped":
            pytest.skip(result["text"])
        if result["outcome"] != "passed":
            pytest.fail(result["text"], pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it is."""
        return self.path, None, self.name


def _run(path: Path) -> dict[str, dict[str, str]]:
    python = installed_runtime("training").python
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        environment = {
            INSIDE: "1",
            CORE_PYTHON: sys.executable,
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        }
        run = subprocess.run(
            [python, RUNNER, sysconfig.get_path("purelib"), path, report],
            cwd=REPOSITORY,
            env=child_environment(environment),
            capture_output=True,
            timeout=DEADLINE,
            check=False,
        )
        if not report.exists():
            pytest.fail(f"{sys.executable}: {(run.stdout + run.stderr).decode()}", pytrace=False)
        results: dict[str, dict[str, str]] = json.loads(report.read_bytes())
        return results
