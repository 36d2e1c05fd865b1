"""The arguments of ``temper eval``: benchmarks by name with their rows, and evaluation files."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from services.contracts.data.files import FilePurpose
from services.contracts.errors import InvalidRequest
from services.contracts.evaluation.benchmark_entries import BenchmarkEntry
from services.contracts.evaluation.benchmarks import COMPOSITES
from services.contracts.evaluation.evaluations import CreateEvaluation
from services.contracts.evaluation.named_benchmarks import BENCHMARKS
from services.contracts.jobs import JobKind
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.training.rows import HUB_DATASET_PREFIX
from services.parsing.tool_files import parse_tool_file
from temper.submission.hub import fetch_hub_file
from temper.submission.job_file import FILE_ID_PREFIX, read_evaluation_file, read_request
from temper.submission.submission import LocalFile, Submission, SubmissionError, user_path

OF_EACH = BenchmarkEntry.model_fields.keys() & CreateEvaluation.model_fields.keys()
"""Fields that each benchmark of an evaluation may set for itself."""


@dataclass(frozen=True)
class BenchmarkSubmission:
    """An evaluation, named after its benchmark."""

    name: str
    submission: Submission


def read_benchmarks(texts: Sequence[str], given: Mapping[str, Any]) -> BenchmarkSubmission:
    """Combine the benchmarks that ``texts`` name into one evaluation; see `read_benchmark`.

    Raises `SubmissionError`, also if they cannot share an engine.
    """
    found = [each for text in texts for each in read_benchmark(text, given)]
    return found[0] if len(found) == 1 else _combined(found)


def read_benchmark(text: str, given: Mapping[str, Any]) -> Iterator[BenchmarkSubmission]:
    """Yield the evaluations of ``NAME=ROWS``, or of a YAML or JSON file.

    ROWS is a local file, a file of a dataset on the hub, or a file id; for a name that stands for
    several benchmarks, one each, separated by commas. A YAML file holds the fields of an
    evaluation; ``given``, such as the model, overrides them. Raises `SubmissionError`.
    """
    path = user_path(text)
    if path.is_file():
        yield BenchmarkSubmission(path.stem, read_evaluation_file(path, given))
        return
    name, separator, rows = text.partition("=")
    if not separator:
        known = ", ".join(sorted({*BENCHMARKS, *COMPOSITES}))
        raise SubmissionError(
            f"{text!r} is neither a file nor NAME=ROWS, a benchmark ({known}) and the "
            "file of its rows"
        )
    names = COMPOSITES.get(name, (name,))
    files = rows.split(",") if name in COMPOSITES else [rows]
    if len(files) != len(names):
        raise SubmissionError(
            f"{name} takes {len(names)} files separated by commas: {', '.join(names)}"
        )
    for each, file in zip(names, files, strict=True):
        yield BenchmarkSubmission(each, _named(each, file, given))


def _combined(found: Sequence[BenchmarkSubmission]) -> BenchmarkSubmission:
    """Combine evaluations into one that a single engine runs."""
    shared: dict[str, Any] = {}
    entries: list[dict[str, Any]] = []
    files: list[LocalFile] = []
    for number, (name, each) in enumerate(zip(_distinct(found), found, strict=True)):
        request = each.submission.request
        if not isinstance(request, CreateEvaluation) or request.benchmarks is not None:
            raise SubmissionError(f"{each.name} already evaluates several benchmarks")
        fields = {field: getattr(request, field) for field in request.model_fields_set}
        if request.benchmark is not None:
            del fields["grader"]
        entries.append({"name": name, **{key: fields[key] for key in fields.keys() & OF_EACH}})
        files += [
            replace(file, field=f"benchmarks.{number}.{file.field}")
            for file in each.submission.files
        ]
        for field in sorted(fields.keys() - OF_EACH):
            if shared.setdefault(field, fields[field]) != fields[field]:
                raise SubmissionError(
                    f"{each.name}: {field} differs from the other benchmarks': evaluate it alone"
                )
    request = read_request(JobKind.EVALUATION, {**shared, "benchmarks": entries}, "temper eval")
    return BenchmarkSubmission(
        ", ".join(each.name for each in found), Submission(request, (*files,))
    )


def _distinct(found: Sequence[BenchmarkSubmission]) -> list[str]:
    """Return valid entry names: invalid characters replaced, duplicates numbered."""
    seen: Counter[str] = Counter()
    names = []
    for each in found:
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", each.name).lstrip("_.-")[:90] or "benchmark"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return names


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
    path = fetch_hub_file(rows) if is_of_hub else user_path(rows)
    is_local = path.is_file()
    if not is_local and not rows.startswith(FILE_ID_PREFIX):
        raise SubmissionError(f"{name}: {rows!r} is not a file id, and {path} does not exist")
    # The file's name; its id replaces it after the upload.
    fields = {"benchmark": name, "file": path.name if is_local else rows, **given}
    request = read_request(JobKind.EVALUATION, fields, name)
    files = (LocalFile("file", path, FilePurpose.EVALS),) if is_local else ()
    return Submission(request, files)
