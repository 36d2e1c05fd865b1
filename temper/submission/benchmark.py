"""What ``temper eval`` evaluates: a benchmark by name with its rows, or an evaluation's file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.contracts.benchmarks import BENCHMARKS
from services.contracts.errors import InvalidRequest
from services.contracts.files import FilePurpose
from services.contracts.fine_tuning import HUB_DATASET_PREFIX
from services.contracts.jobs import JobKind
from services.contracts.multi_turn import Tool
from services.contracts.tool_files import parse_tool_file
from temper.submission.hub import fetch_hub_file
from temper.submission.job_file import FILE_ID_PREFIX, read_evaluation_file, read_request
from temper.submission.submission import LocalFile, Submission, SubmissionError


@dataclass(frozen=True)
class BenchmarkSubmission:
    """An evaluation, under the name of its benchmark."""

    name: str
    submission: Submission


def read_benchmark(text: str, given: Mapping[str, Any]) -> BenchmarkSubmission:
    """Return the evaluation that ``NAME=ROWS`` or the path of a YAML or JSON file means.

    ROWS is a local file, a file of a data set on the hub, or a file id. A YAML file holds the
    fields of an evaluation; those of ``given``, such as the model, replace them. Raises
    `SubmissionError`.
    """
    path = Path(text).expanduser()
    if path.is_file():
        return BenchmarkSubmission(path.stem, read_evaluation_file(path, given))
    name, separator, rows = text.partition("=")
    if not separator:
        known = ", ".join(sorted(BENCHMARKS))
        raise SubmissionError(
            f"{text!r} is neither a file nor NAME=ROWS with the name of a benchmark ({known}) "
            "and the file of its rows"
        )
    return BenchmarkSubmission(name, _named(name, rows, given))


def read_tools(path: Path) -> list[Tool]:
    """Return the tools that a tool file declares. Raises `SubmissionError`."""
    try:
        return parse_tool_file(path.read_text(encoding="utf-8"), path.name)
    except UnicodeDecodeError as error:
        raise SubmissionError(f"{path}: not UTF-8 text: {error}") from error
    except InvalidRequest as error:
        raise SubmissionError(error.message) from error


def _named(name: str, rows: str, given: Mapping[str, Any]) -> Submission:
    is_of_hub = rows.startswith(HUB_DATASET_PREFIX)
    path = fetch_hub_file(rows) if is_of_hub else Path(rows).expanduser()
    is_local = path.is_file()
    if not is_local and not rows.startswith(FILE_ID_PREFIX):
        raise SubmissionError(f"{name}: {rows!r} is not a file id, and {path} does not exist")
    # The file's name; its id replaces it after the upload.
    fields = {"benchmark": name, "file": path.name if is_local else rows, **given}
    request = read_request(JobKind.EVALUATION, fields, name)
    files = (LocalFile("file", path, FilePurpose.EVALS),) if is_local else ()
    return Submission(request, files)
