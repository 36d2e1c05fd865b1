"""Runs a file of tests in a runtime, with the pytest of another environment.

python runtime_runner.py SITE_PACKAGES FILE REPORT
"""

import json
import os
import sys
from pathlib import Path

# Behind the runtime's own packages: what both have is the runtime's.
sys.path.append(sys.argv[1])
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"

import pytest


class Results:
    """The outcome of each test function; the worst one of several cases."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a phase of a test."""
        if report.when != "call" and report.passed:
            return
        name = report.nodeid.rpartition("::")[2].partition("[")[0]
        known = self.found.get(name, {"outcome": "passed"})
        if known["outcome"] != "failed":
            text = report.longreprtext + "".join(text for _, text in report.sections)
            self.found[name] = {"outcome": report.outcome, "text": text}


def main() -> None:
    results = Results()
    code = pytest.main(
        ["-p", "pytest_timeout", "--timeout=500", "-p", "no:cacheprovider", "-q", sys.argv[2]],
        plugins=[results],
    )
    if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        Path(sys.argv[3]).write_text(json.dumps(results.found))


if __name__ == "__main__":
    main()
