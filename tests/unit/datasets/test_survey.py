"""A survey keeps the first problems of a file and counts its rows."""

from collections.abc import Callable
from pathlib import Path

import pytest

from services.datasets.container import Container
from services.datasets.record import JsonValue, Problem, RowError
from services.datasets.survey import Findings, Survey

Run = Callable[..., tuple[list[int], Findings]]


def positive(row: JsonValue) -> int:
    """The number of a row; negative ones are wrong."""
    number = int(row["n"])
    if number < 0:
        raise RowError("n is negative")
    return number


@pytest.fixture
def survey(tmp_path: Path) -> Run:
    def run(content: str, max_errors: int = 3) -> tuple[list[int], Findings]:
        path = tmp_path / "upload"
        path.write_text(content)
        going = Survey(path, positive, max_errors=max_errors, progress=lambda _: None)
        return list(going), going.findings

    return run


def test_a_valid_file_has_no_errors(survey: Run) -> None:
    values, findings = survey('{"n": 1}\n{"n": 2}\n')
    assert values == [1, 2]
    assert findings == Findings(Container.JSONL, 2, 2, (), complete=True)


def test_rows_that_are_wrong_or_unreadable_are_named(survey: Run) -> None:
    values, findings = survey('{"n": 1}\n{"n": -1}\n{"n": }\n{"n": 4}\n')
    assert values == [1, 4]
    assert (findings.rows, findings.valid_rows) == (4, 2)
    assert [problem.row for problem in findings.errors] == [2, 3]
    assert findings.failure("f.jsonl") == "f.jsonl: row 2: n is negative (and 1 more error)"


def test_reading_stops_behind_the_bound(survey: Run) -> None:
    values, findings = survey('{"n": -1}\n' * 4 + '{"n": 1}\n' * 100)
    assert values == []
    assert len(findings.errors) == 3
    assert not findings.complete
    assert findings.failure("f").endswith("(and 2 more errors; checking stopped there)")


def test_as_many_errors_as_the_bound_leave_the_survey_complete(survey: Run) -> None:
    values, findings = survey('{"n": -1}\n' * 3 + '{"n": 1}\n')
    assert values == [1]
    assert findings.complete


def test_an_unreadable_file_is_an_error_after_those_of_its_rows(survey: Run) -> None:
    values, findings = survey('[{"n": 1}, {"n": -1}, {"n"')
    assert values == [1]
    assert [problem.row for problem in findings.errors] == [2, 3]
    assert findings.rows == 2


@pytest.mark.parametrize("content", ["[]", "\n\n"])
def test_a_file_without_rows_is_an_error(survey: Run, content: str) -> None:
    _, findings = survey(content)
    assert [problem.row for problem in findings.errors] == [None]


def test_a_problem_of_the_whole_file_names_no_row(survey: Run) -> None:
    _, findings = survey("n\n1\n")
    assert findings.container is None
    assert isinstance(findings.errors[0], Problem)
    assert findings.failure("f.csv").startswith("f.csv: the file is neither JSONL")
