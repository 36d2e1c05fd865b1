"""A scan keeps the first problems of a file and counts its rows."""

from collections.abc import Callable
from pathlib import Path

import pytest

from services.datasets.containers.container import Container
from services.datasets.record import JsonValue, Problem, RowError
from services.datasets.scan import InvalidFile, Scan, ScanReport

Run = Callable[..., tuple[list[int], ScanReport]]


def positive(row: JsonValue) -> int:
    """The number of a row; negative ones are wrong."""
    number = int(row["n"])
    if number < 0:
        raise RowError("n is negative")
    return number


def failure(report: ScanReport, filename: str) -> str:
    """The message of the error that the report raises."""
    with pytest.raises(InvalidFile) as raised:
        report.raise_errors(filename, code="invalid")
    assert raised.value.code == "invalid"
    return raised.value.message


@pytest.fixture
def scan(tmp_path: Path) -> Run:
    def run(content: str, max_errors: int = 3) -> tuple[list[int], ScanReport]:
        path = tmp_path / "upload"
        path.write_text(content)
        going = Scan(path, positive, max_errors=max_errors, progress=lambda _: None)
        return list(going), going.report

    return run


def test_a_valid_file_has_no_errors(scan: Run) -> None:
    values, report = scan('{"n": 1}\n{"n": 2}\n')
    assert values == [1, 2]
    assert report == ScanReport(Container.JSONL, 2, 2, (), complete=True)


def test_invalid_rows_are_reported_by_number(scan: Run) -> None:
    values, report = scan('{"n": 1}\n{"n": -1}\n{"n": }\n{"n": 4}\n')
    assert values == [1, 4]
    assert (report.rows, report.valid_rows) == (4, 2)
    assert [problem.row for problem in report.errors] == [2, 3]
    assert failure(report, "f.jsonl") == "f.jsonl: row 2: n is negative (and 1 more error)"


def test_a_scan_stops_after_max_errors(scan: Run) -> None:
    values, report = scan('{"n": -1}\n' * 4 + '{"n": 1}\n' * 100)
    assert values == []
    assert len(report.errors) == 3
    assert not report.complete
    assert failure(report, "f").endswith("(and 2 more errors; checking stopped there)")


def test_a_scan_with_exactly_max_errors_is_complete(scan: Run) -> None:
    values, report = scan('{"n": -1}\n' * 3 + '{"n": 1}\n')
    assert values == [1]
    assert report.complete


def test_a_syntax_error_is_listed_after_row_errors(scan: Run) -> None:
    values, report = scan('[{"n": 1}, {"n": -1}, {"n"')
    assert values == [1]
    assert [problem.row for problem in report.errors] == [2, 3]
    assert report.rows == 2


@pytest.mark.parametrize("content", ["[]", "\n\n"])
def test_a_file_without_rows_is_an_error(scan: Run, content: str) -> None:
    _, report = scan(content)
    assert [problem.row for problem in report.errors] == [None]


def test_a_file_level_problem_has_no_row(scan: Run) -> None:
    _, report = scan("n\n1\n")
    assert report.container is None
    assert isinstance(report.errors[0], Problem)
    assert failure(report, "f.csv").startswith("f.csv: the file is neither JSONL")
