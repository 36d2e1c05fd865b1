"""The child process that validates a job's files before the job queues for a device.

Each kind of job has a module with a spec, a function that checks one file, and

    if __name__ == "__main__":
        validate(Path(sys.argv[1]), Spec, check_file)

so that ``python -m MODULE JOB_DIR`` imports what this kind needs and nothing else. The child
reads ``validation.json``. It succeeds with one report per file, or fails with the first error in
its message; every error that was kept is also a message.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.base import JsonObject
from services.contracts.errors import TemperError
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.sampling import ChatTemplateKwargs
from services.core.artifacts import SourceFile
from services.core.process.reporter import Reporter
from services.datasets.record import JsonValue
from services.datasets.scan import InvalidFile, Row, Scan

SPEC = "validation.json"
DEFAULT_MAX_ERRORS = 20

_PROGRESS_STEPS = 100


class PromptTemplate(BaseModel):
    """The folder with the chat template of the model that prompts are for, its variables, the tools
    on offer, and whether special tokens in texts are ordinary text."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    folder: Path
    variables: ChatTemplateKwargs = Field(default_factory=dict)
    tools: list[Tool] = Field(default_factory=list)
    neutralizes: bool = False


class ValidationSpec(BaseModel):
    """What to validate; at most ``max_errors`` problems are reported per file."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    max_errors: int = Field(default=DEFAULT_MAX_ERRORS, ge=1, le=1000)

    def files(self) -> dict[str, SourceFile]:
        """The files, by the request field that names each."""
        files = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: file for name, file in files.items() if isinstance(file, SourceFile)}


Spec = TypeVar("Spec", bound=ValidationSpec)


class FileValidation:
    """The validation of one file: ``param`` is the request field that names it."""

    def __init__(
        self, param: str, file: SourceFile, reporter: Reporter, progress: Callable[[float], None]
    ) -> None:
        self.param = param
        self.path = file.path
        self.filename = file.filename
        self.job_dir = reporter.job_dir
        self.progress = progress
        """Takes the share of the file read so far, from 0 to 1."""
        self._reporter = reporter

    def scan(self, check: Callable[[JsonValue], Row], max_errors: int) -> Scan[Row]:
        """Iterate over the file's valid rows."""
        return Scan(self.path, check, max_errors=max_errors, progress=self.progress)

    def message(self, text: str, level: str = "info", **data: JsonValue) -> None:
        """Report a message about the file to the user."""
        self._reporter.message(f"{self.filename}: {text}", level, **data)


def validation_command(module: str, spec: ValidationSpec, job_dir: Path) -> list[str]:
    """Write the spec into the job directory and return the command of the child that checks it."""
    (job_dir / SPEC).write_text(spec.model_dump_json())
    return [sys.executable, "-m", module, str(job_dir)]


def validate(
    job_dir: Path,
    spec_type: type[Spec],
    check: Callable[[Spec, FileValidation], JsonObject],
    check_together: Callable[[Spec, JsonObject], JsonObject | None] | None = None,
) -> None:
    """Check every file of the job and write result.json.

    ``check`` returns the report of one file; it raises `InvalidFile` for unusable rows, which still
    lets the remaining files be checked, or any other `TemperError`, which ends the child.
    ``check_together`` gets the reports of valid files, and may raise a `TemperError` too; its
    return value is added to the result.
    """
    reporter = Reporter(job_dir)
    spec = spec_type.model_validate_json((job_dir / SPEC).read_bytes())
    reporter.phase("validating_files")
    files = spec.files()
    progress = _Progress(reporter, len(files))
    reports: JsonObject = {}
    failures: list[TemperError] = []
    for index, (param, file) in enumerate(files.items()):
        try:
            reports[param] = check(spec, FileValidation(param, file, reporter, progress.of(index)))
        except InvalidFile as error:
            error.announce(reporter)
            failures.append(error)
        except TemperError as error:
            error.param = error.param or param
            failures.append(error)
            break
    if not failures and check_together is not None:
        try:
            reports |= check_together(spec, reports) or {}
        except TemperError as error:
            failures.append(error)
    if failures:
        first = failures[0]
        rows = first.rows if isinstance(first, InvalidFile) else ()
        reporter.fail(first.code, first.message, first.param, rows=rows)
    else:
        reporter.finish(**reports)


class _Progress:
    """Reports the share of all files read, in percent; every file weighs the same."""

    def __init__(self, reporter: Reporter, files: int) -> None:
        self._reporter = reporter
        self._files = files
        self._step = -1

    def of(self, index: int) -> Callable[[float], None]:
        return lambda share: self._report((index + share) / self._files)

    def _report(self, share: float) -> None:
        step = int(share * _PROGRESS_STEPS)
        if step > self._step:
            self._step = step
            self._reporter.progress(step, _PROGRESS_STEPS)
