"""A second attempt for tests that are marked ``flaky_under_load(reason)``, and for no others.

A pytest plugin. A rerun is reported as such, with the failure of the first attempt, so that it
never passes unnoticed.
"""

import pytest
from _pytest.runner import runtestprotocol

MARKER = "flaky_under_load"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a marked test, and once more if it fails."""
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return None
    (reason,) = marker.args
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    failed = [report for report in reports if report.failed]
    if failed:
        for report in failed:
            report.outcome = "rerun"  # type: ignore[assignment]  # pytest's types do not know reruns
            report.sections.append(("Known to fail under load", reason))
            item.ihook.pytest_runtest_logreport(report=report)
        item._initrequest()  # type: ignore[attr-defined]  # what pytest-rerunfailures calls, too
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """How a rerun is shown and counted."""
    return ("rerun", "R", "RERUN") if report.outcome == "rerun" else None  # type: ignore[comparison-overlap]  # pytest's types do not know reruns


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each rerun with the failure that caused it."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.section(f"RERUN {report.nodeid}", "-")
        terminalreporter.line(report.longreprtext)
        for title, text in report.sections:
            terminalreporter.line(f"{title}: {text}")
