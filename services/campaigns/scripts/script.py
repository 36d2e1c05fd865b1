"""Data scripts, run in the sandbox without secrets, and their rows."""

import ast
import base64
import json
import secrets
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.campaigns.data.benchmark import ItemsInData, KnownItems
from services.campaigns.run.effects import Effect
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import StepFailed, Waiting
from services.campaigns.scripts.long_script import run_long_script
from services.campaigns.scripts.program import (
    DATA,
    MAX_DATA_BYTES,
    MESSAGE_CHARACTERS,
    SCRIPT,
    TOO_LARGE,
    ScriptProgram,
)
from services.contracts.campaigns.loops import Failure
from services.contracts.sandbox.programs import (
    CommandStatus,
    Language,
    RunCodeRequest,
    RunCodeResponse,
)
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import Retries, ServiceFailed

QUEUE_SECONDS = 90.0
MAX_CONTAMINATED_SHARE = 0.1
NAMED_ROWS = 5

# The sandbox runs code without arguments.
_LAUNCHER = """import runpy, sys
sys.argv = {arguments!r}
runpy.run_path({script!r}, run_name="__main__")
"""


class Row(BaseModel):
    """A row of data.json, in Alpaca's format."""

    model_config = ConfigDict(extra="ignore", strict=True)

    instruction: str = Field(min_length=1)
    input: str = ""
    output: str = Field(min_length=1)

    def holds_any(self, items: ItemsInData) -> bool:
        """Whether a text of the row, or its texts joined, contain an item."""
        texts = [self.instruction, self.input, self.output]
        return any(items.holds(text) for text in (*texts, "\n".join(texts)))


@dataclass(frozen=True)
class Rows:
    """Usable rows, and how many were removed because they contain benchmark items.

    ``made`` are all rows that the script generated, which the LLM may be told of: removals because
    of the final part do not show in them.
    """

    rows: list[Row]
    contaminated: int
    made: list[Row] = field(default_factory=list)

    def first(self, number: int | None) -> "Rows":
        """The first usable rows, or all of them."""
        return replace(self, rows=self.rows[:number])

    def duplicates(self) -> int:
        """How many of the generated rows duplicate an earlier one."""
        return len(self.made) - len({(row.instruction, row.input, row.output) for row in self.made})


def check_script(source: str) -> None:
    """Raise `StepFailed` unless the script is valid Python."""
    try:
        ast.parse(source, SCRIPT)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise StepFailed(Failure.CONFIG, f"{SCRIPT} is not Python: {error}") from None


def run_script(run: CampaignRun, key: str, source: str, *, debug: bool) -> Path:
    """Run a script once; return its data, a file in the folder of the loop.

    Raises `StepFailed` with the tail of its output, and `Waiting` while the sandbox is unavailable
    or the script takes long.
    """
    target = run.folder / f"{key}.json"
    limits = run.request.time_limits
    program = ScriptProgram(
        source,
        ("--debug",) if debug else (),
        min(run.settings.most_script_seconds, limits.debug_script if debug else limits.script),
    )
    kept = _kept(run, program) if run.request.reuse_data else None
    if kept is not None and kept.exists():
        effect = run.once(key, lambda: _reuse(kept, target))
    elif run.settings.campaign_script_key is not None:
        effect = run_long_script(run, key, program, target)
    else:
        effect = run.once(key, lambda: _run(run, program, target), long=True)
    problem = effect.response.get("problem")
    if problem is not None:
        raise StepFailed(Failure.DATA, str(problem))
    if kept is not None and not kept.exists():
        _copy(target, kept)
    return target


async def _reuse(kept: Path, target: Path) -> Effect:
    _copy(kept, target)
    return Effect({"problem": None, "reused": True})


async def _run(run: CampaignRun, program: ScriptProgram, target: Path) -> Effect:
    seconds = program.seconds
    request = RunCodeRequest(
        code=_LAUNCHER.format(arguments=[SCRIPT, *program.arguments], script=SCRIPT),
        language=Language.PYTHON,
        run_timeout=seconds,
        files={SCRIPT: _encode(program.source.encode()), **_datasets(run)},
        fetch_files=[DATA],
    )
    key = run.settings.sandbox_api_key
    service = JsonService(
        f"{run.settings.sandbox_url}/run_code",
        key.get_secret_value() if key else None,
        timeout=seconds + QUEUE_SECONDS,
        retries=Retries(2, 2 * seconds),
        connections=1,
        direct=True,
    )
    try:
        async with service:
            body = request.model_dump(mode="json")
            answer = await service.post(body, RunCodeResponse.model_validate_json)
    except ServiceFailed as error:
        raise Waiting(f"waiting for the sandbox: {error.message}") from error
    problem = _problem(answer.value, program)
    if problem is None:
        partial = target.with_suffix(".partial")
        partial.write_bytes(base64.b64decode(answer.value.files[DATA]))
        partial.replace(target)
    return Effect({"problem": problem})


def _kept(run: CampaignRun, program: ScriptProgram) -> Path:
    """The data that this script has already generated from the campaign's datasets, if any."""
    files = (each.file for each in run.request.datasets)
    return run.shared_file(program.source, SCRIPT, *program.arguments, *files)


def _copy(source: Path, target: Path) -> None:
    """Copy atomically: the worker may be killed, and another loop may copy concurrently."""
    partial = target.with_suffix(f".{secrets.token_hex(4)}.partial")
    shutil.copyfile(source, partial)
    partial.replace(target)


def _datasets(run: CampaignRun) -> dict[str, str | None]:
    return {
        f"datasets/{each.name}.jsonl": _encode(run.artifacts.file(each.file).read_bytes())
        for each in run.request.datasets
    }


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _problem(answer: RunCodeResponse, program: ScriptProgram) -> str | None:
    """Why there is no data, for the LLM; None if there is."""
    result = answer.run_result
    if result is None or result.status is CommandStatus.ERROR:
        raise Waiting(f"waiting for the sandbox: {answer.message[:MESSAGE_CHARACTERS]}")
    printed = (result.stdout or "") + (result.stderr or "")
    data = answer.files.get(DATA)
    return program.problem(result, printed, None if data is None else _decoded_bytes(data))


def _decoded_bytes(encoded: str) -> int:
    return len(encoded) // 4 * 3 - encoded[-2:].count("=")


def read_rows(path: Path, items: KnownItems) -> Rows:
    """Check all rows; raises `StepFailed` that names the first bad one.

    Rows that contain benchmark items are removed. The data is rejected if more than a tenth of the
    rows contain items of the search part. Items of the final part change neither that nor the
    message; otherwise the LLM could discover them by guessing.
    """
    rows = _parse(path)
    leaks = [number for number, row in enumerate(rows, 1) if row.holds_any(items.search)]
    if len(leaks) > MAX_CONTAMINATED_SHARE * len(rows):
        first = ", ".join(map(str, leaks[:NAMED_ROWS]))
        raise StepFailed(
            Failure.DATA,
            f"{len(leaks)} of {len(rows)} rows hold items of the benchmark's search part, the "
            f"first of them rows {first}; make other data",
        )
    leaked = set(leaks)
    clean = [
        row
        for number, row in enumerate(rows, 1)
        if number not in leaked and not row.holds_any(items.final)
    ]
    return Rows(clean, len(rows) - len(clean), rows)


def _parse(path: Path) -> list[Row]:
    if path.stat().st_size > MAX_DATA_BYTES:
        raise StepFailed(Failure.DATA, TOO_LARGE)
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise StepFailed(Failure.DATA, f"{DATA} is not JSON: {error}") from None
    if not isinstance(content, list) or not content:
        raise StepFailed(Failure.DATA, f"{DATA} is not a list of at least one row")
    rows = []
    for number, value in enumerate(content, 1):
        try:
            rows.append(Row.model_validate(value))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "row"
            raise StepFailed(
                Failure.DATA, f"{DATA}, row {number}: {where}: {first['msg']}"
            ) from None
    return rows
