"""The operator's dataset scripts: finding them, and writing their rows to a file to validate."""

import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.errors import InvalidRequest
from services.contracts.training.rows import ScriptReference
from services.core.process.runtimes import child_environment
from services.core.process.server import ServerProcess

CHILD = "services.trainer.offline.script_child"
SETTING = "TEMPER_DATASET_SCRIPTS"
FAILED = "dataset_script_failed"
MAX_BYTES = 16 << 30
"""Limit of the rows of one script, and of any file that it writes."""
POLL_SECONDS = 0.1
GRACE_SECONDS = 2.0
MAX_REASON = 1000


class ScriptRun(BaseModel):
    """One run: a split of a script, into a file of JSON lines.

    ``python`` is the training runtime's. A file that exists is complete.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    script: Path
    split: str
    output: Path
    python: Path
    seconds: float = Field(gt=0)
    max_rows: int = Field(ge=1)
    max_bytes: int = MAX_BYTES

    @property
    def partial(self) -> Path:
        """The rows while they are being written."""
        return self.output.with_suffix(".partial")

    @property
    def error(self) -> Path:
        """Why there are no rows."""
        return self.output.with_suffix(".error")


def find_script(root: Path | None, reference: ScriptReference, param: str) -> Path:
    """The file of a reference; raises `InvalidRequest` if the operator has none by that name."""
    if root is None:
        raise InvalidRequest(f"dataset scripts need the operator's {SETTING}", param=param)
    try:
        path = (root / reference.path).resolve()
        is_there = path.is_relative_to(root.resolve()) and path.is_file()
    except (OSError, RuntimeError):  # a name too long, or a symlink loop
        is_there = False
    if not is_there:
        raise InvalidRequest(f"no script {reference.path!r} in the folder of scripts", param=param)
    return path


def write_rows(run: ScriptRun, param: str) -> None:
    """Run a script, unless an earlier attempt has; raises `InvalidRequest` with its error."""
    if run.output.is_file():
        return
    run.output.parent.mkdir(parents=True, exist_ok=True)
    run.error.unlink(missing_ok=True)
    spec = run.output.with_suffix(".json")
    spec.write_text(run.model_dump_json())
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    offline |= {"HF_TOKEN": ""}  # inherited by children that download
    process = ServerProcess(
        [str(run.python), "-m", CHILD, str(spec)],
        cwd=run.script.parent,
        environment=child_environment(offline),
        log=run.output.with_suffix(".log"),
        grace_seconds=GRACE_SECONDS,
    )
    deadline = time.monotonic() + run.seconds
    try:
        while process.returncode() is None:
            if time.monotonic() > deadline:
                message = f"{run.script.name} did not finish within {run.seconds:g} s"
                raise InvalidRequest(message, param=param, code=FAILED)
            time.sleep(POLL_SECONDS)
    finally:
        process.stop()
    if not run.output.is_file():
        raise InvalidRequest(f"{run.script.name}: {_reason(run)}", param=param, code=FAILED)


def _reason(run: ScriptRun) -> str:
    try:
        return run.error.read_text(encoding="utf-8")[:MAX_REASON]
    except FileNotFoundError:
        return "it exited the process"
