"""Reuse of the answers and grades of an equal evaluation, decided when the file is validated.

The rows are copied then, so that nothing can take them away before the job runs: its child finds
every sample answered and only sums up.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from services.core.process.reporter import METRICS, Reporter
from services.evaluator.evaluation.checksums import Checksums, FileState
from services.evaluator.evaluation.identity import (
    ADAPTER,
    CODE,
    WEIGHTS,
    Parts,
    code_version,
    described,
    differences,
)
from services.evaluator.evaluation.results import RESULTS
from services.models.loadable import code_files

REUSE = "reuse.json"
_MODEL_FILES = (
    *("*.safetensors", "*.bin", "*.pt", "*.gguf"),
    *("*.json", "*.model", "*.txt", "*.jinja", "*.tiktoken"),
)
_TRAINING_STATE = {
    *("trainer_state.json", "training_args.bin", "optimizer.pt", "optimizer.bin"),
    *("scheduler.pt", "scheduler.bin"),
}
"""What a checkpoint holds beside the model."""


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EarlierEvaluation(_Frozen):
    """An evaluation that has succeeded: its parts, its rows, and those without a grade."""

    id: str
    folder: Path
    parts: dict[str, JsonValue]
    rows: int
    errors: int
    cached_from: str | None = None


class ReuseSpec(_Frozen):
    """What the validation child needs to find an equal evaluation.

    ``parts`` lack those of ``folders`` (weights or adapter), whose files it reads; they are null
    for an evaluation that is never reused, for the ``refusal``. One with both may be reused later.
    """

    job_dir: Path = Field(description="Where the rows go.")
    validation_dir: Path = Field(description="Where the child reports.")
    checksums: Path = Field(description="The file that keeps checksums.")
    parts: dict[str, JsonValue] | None
    folders: dict[str, Path] = Field(default_factory=dict)
    refusal: str | None = None
    earlier: list[EarlierEvaluation] = Field(default_factory=list, description="Newest first.")


class Reuse(_Frozen):
    """What was decided, and what later evaluations are compared with."""

    parts: dict[str, JsonValue] | None
    model_files: dict[str, FileState] = Field(default_factory=dict)
    cached_from: str | None = None
    not_cached: str | None = None


def decide(spec: ReuseSpec, reporter: Reporter) -> Reuse:
    """Take over the rows of an equal evaluation, or say why there is none.

    Raises `OSError` when the model's files or the rows cannot be read.
    """
    for name in (RESULTS, METRICS):  # an earlier attempt at the validation may have left them
        (spec.job_dir / name).unlink(missing_ok=True)
    if spec.parts is None:
        return Reuse(parts=None, not_cached=spec.refusal)
    reporter.phase("checking_model")
    files = {name: _model_files(folder) for name, folder in spec.folders.items()}
    states = {str(path): FileState.of(path) for paths in files.values() for path in paths}
    progress = _progress(reporter, sum(state.size for state in states.values()))
    checksums = Checksums(spec.checksums)
    parts = dict(spec.parts)
    for name in (WEIGHTS, ADAPTER):
        if name in files:
            parts[name] = _checksum(files[name], checksums, progress)
    checksums.keep()
    found = Reuse(parts=parts, model_files=states)
    if spec.refusal is not None:
        return found.model_copy(update={"not_cached": spec.refusal})
    return take_over(found, spec.earlier, spec.job_dir)


def take_over(reuse: Reuse, earlier: Sequence[EarlierEvaluation], job_dir: Path) -> Reuse:
    """Copy the rows of an equal evaluation into the job's folder, or say why there are none."""
    return reuse.model_copy(update=_taken_over(reuse.parts or {}, earlier, job_dir))


def _taken_over(
    parts: Parts, earlier: Sequence[EarlierEvaluation], job_dir: Path
) -> dict[str, str | None]:
    equal = [each for each in earlier if not differences(parts, each.parts)]
    if not equal:
        return {"not_cached": _nearest(parts, earlier)}
    graded = [each for each in equal if not each.errors]
    if not graded:
        newest = equal[0]
        rows = f"{newest.errors} of its rows" if newest.errors > 1 else "one of its rows"
        return {"not_cached": f"{newest.id} is equal, but {rows} had no answer or no grade"}
    # One that asked the model itself is named rather than one that took its rows over.
    for each in sorted(graded, key=lambda each: each.cached_from is not None):
        if _copy(each, job_dir):
            return {"cached_from": each.id, "not_cached": None}
    return {"not_cached": f"{graded[0].id} is equal, but its rows are gone"}


def _nearest(parts: Parts, earlier: Sequence[EarlierEvaluation]) -> str:
    if not earlier:
        return "no evaluation that can be reused has succeeded before"
    nearest = min(earlier, key=lambda each: len(differences(parts, each.parts)))
    return f"compared with {nearest.id}: {described(differences(parts, nearest.parts))}"


def _copy(source: EarlierEvaluation, job_dir: Path) -> bool:
    """Copy the rows and the times; false when they are not all there."""
    partial = job_dir / f"{RESULTS}.partial"
    try:
        shutil.copyfile(source.folder / RESULTS, partial)
        with open(partial, "rb") as rows:
            if sum(1 for _ in rows) != source.rows:
                return False
        if (source.folder / METRICS).exists():
            shutil.copyfile(source.folder / METRICS, job_dir / METRICS)
        partial.replace(job_dir / RESULTS)
    except FileNotFoundError:
        return False
    finally:
        partial.unlink(missing_ok=True)
    return True


def _model_files(folder: Path) -> list[Path]:
    """The files of a folder that a model is loaded from."""
    found = {path for pattern in _MODEL_FILES for path in folder.glob(pattern)}
    kept = {path for path in found if path.name not in _TRAINING_STATE and path.is_file()}
    return sorted(kept | set(code_files(folder)))


def _checksum(files: Iterable[Path], checksums: Checksums, progress: Callable[[int], None]) -> str:
    """One checksum of the names and the contents of files."""
    lines = (f"{checksums.of(path, progress)}  {path.name}\n" for path in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _progress(reporter: Reporter, total: int) -> Callable[[int], None]:
    """Reports the bytes that were read, in hundredths."""
    done = step = 0

    def read(number: int) -> None:
        nonlocal done, step
        done += number
        if (now := done * 100 // max(1, total)) > step:
            step = now
            reporter.progress(step, 100)

    return read


def write_reuse(job_dir: Path, reuse: Reuse) -> None:
    """Keep the decision in the job's folder."""
    (job_dir / REUSE).write_text(reuse.model_dump_json())


def read_reuse(job_dir: Path) -> Reuse | None:
    """The decision of a job; None for one that made none.

    It lacks the parts, so that nothing is reused any more, if the model's files or the code have
    changed since.
    """
    try:
        reuse = Reuse.model_validate_json((job_dir / REUSE).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    if reuse.parts is None:
        return reuse
    is_same = reuse.parts.get(CODE) == code_version() and all(
        _has_state(Path(name), state) for name, state in reuse.model_files.items()
    )
    return reuse if is_same else reuse.model_copy(update={"parts": None})


def _has_state(path: Path, state: FileState) -> bool:
    try:
        return FileState.of(path) == state
    except OSError:
        return False
