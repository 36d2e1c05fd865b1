"""Data scripts: started in the sandbox without secrets, and polled, as they may take hours.

The campaign holds no slot meanwhile. After a kill, the next worker finds the script again, since
its id follows from the step. Only a script that the sandbox has lost is restarted, a few times.
"""

import ast
import asyncio
import base64
import contextlib
import hashlib
import json
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from services.campaigns.data.rows import DATA, MAX_DATA_BYTES, TOO_LARGE
from services.campaigns.run.effects import Effect
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import BudgetSpent, Cause, Interrupted, StepFailed, Waiting
from services.campaigns.scripts.calls import CALLS, script_token
from services.campaigns.scripts.data import shared_folder
from services.campaigns.scripts.service import ScriptService
from services.contracts.campaigns.limits import Limit
from services.contracts.campaigns.loops import Failure
from services.contracts.errors import JobFailed
from services.contracts.sandbox.programs import CommandResult, CommandStatus
from services.contracts.sandbox.scripts import Script, ScriptState, StartScript
from services.jobs.campaign_records import (
    close_script,
    open_script,
    refusal_of,
    scripts_usage,
)

SCRIPT = "process_data.py"
MESSAGE_CHARACTERS = 2000
POLL_SECONDS = 0.5
ATTENDED_SECONDS = 20.0
"""A script that takes longer is polled later."""
STARTS = 3

_GOES_ON = (Cause.STOPPING, Cause.PAUSED)
"""Interrupts of a step that later resumes with the same script."""


class _Lost(Exception):
    """The sandbox has lost the script: its result will never exist."""


@dataclass(frozen=True)
class _Program:
    """A script with its arguments and its time limit in seconds."""

    source: str
    arguments: tuple[str, ...]
    seconds: float

    def problem(self, result: CommandResult, printed: str, size: int | None) -> str | None:
        """Why there is no data, for the LLM; None if there is. ``size`` is the size of the data,
        None if no file can be downloaded."""
        tail = printed[-MESSAGE_CHARACTERS:]
        if result.status is CommandStatus.TIME_LIMIT_EXCEEDED:
            return f"{SCRIPT} ran for more than {self.seconds:g} s; the end of its output:\n{tail}"
        if result.out_of_memory:
            return f"{SCRIPT} exceeded its memory; the end of its output:\n{tail}"
        if result.return_code != 0:
            return f"{SCRIPT} ended with code {result.return_code}; the end of its output:\n{tail}"
        if size is None:
            return f"{SCRIPT} wrote no {DATA} of at most {MAX_DATA_BYTES >> 20} MiB"
        if size > MAX_DATA_BYTES:
            return TOO_LARGE
        return None


def check_script(source: str) -> None:
    """Raise `StepFailed` unless the script is valid Python."""
    try:
        ast.parse(source, SCRIPT)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise StepFailed(Failure.CONFIG, f"{SCRIPT} is not Python: {error}") from None


def run_script(run: CampaignRun, key: str, source: str, *, debug: bool) -> Path:
    """Run a script once; return its data, a file in the folder of the loop.

    Raises `StepFailed` with the tail of its output or when the sandbox has lost it too often, and
    `Waiting` while the sandbox is unavailable or the script takes long.
    """
    target = run.folder / f"{key}.json"
    limits = run.request.time_limits
    program = _Program(
        source,
        ("--debug",) if debug else (),
        min(run.settings.most_script_seconds, limits.debug_script if debug else limits.script),
    )
    kept = _kept(run, program) if run.request.reuse_data else None
    if kept is not None and kept.exists():
        effect = run.once(key, lambda: _reuse(kept, target))
    else:
        effect = _run(run, key, program, target)
    problem = effect.response.get("problem")
    if problem is not None:
        raise StepFailed(Failure.DATA, str(problem))
    if kept is not None and not kept.exists():
        _copy(target, kept)
    return target


async def _reuse(kept: Path, target: Path) -> Effect:
    _copy(kept, target)
    return Effect({"problem": None, "reused": True})


def _kept(run: CampaignRun, program: _Program) -> Path:
    """The data that this script has already generated from the campaign's datasets, if any."""
    files = (each.file for each in run.request.datasets)
    return run.shared_file(program.source, SCRIPT, *program.arguments, *files)


def _copy(source: Path, target: Path) -> None:
    """Copy atomically: the worker may be killed, and another loop may copy concurrently."""
    partial = target.with_suffix(f".{secrets.token_hex(4)}.partial")
    shutil.copyfile(source, partial)
    partial.replace(target)


def _run(run: CampaignRun, key: str, program: _Program, target: Path) -> Effect:
    """Run a script once and write its data to ``target``; return the effect ``key``."""
    done = run.recorded(key)
    if done is not None:
        return done
    for number in range(1, STARTS + 1):
        if run.recorded(f"{key}.lost.{number}") is None:
            effect = _start_or_find(run, key, number, program, target)
            if effect is not None:
                return effect
    raise StepFailed(Failure.ENVIRONMENT, f"the sandbox lost {SCRIPT} {STARTS} times")


def _start_or_find(
    run: CampaignRun, key: str, number: int, program: _Program, target: Path
) -> Effect | None:
    """The effect of a script that was started earlier or is started now; None if the sandbox has
    lost it."""
    script_id = _script_id(run, f"{key}.start.{number}")
    try:
        run.once(f"{key}.start.{number}", lambda: _start(run, script_id, program))
        effect = run.once(key, lambda: _end(run, script_id, program, target), long=True)
    except _Lost as lost:
        message = f"{SCRIPT} was lost, start {number} of {STARTS}: {lost}"
        run.note(message)
        run.once(f"{key}.lost.{number}", lambda: _record(message))
        effect = None
    except (BudgetSpent, Interrupted) as ended:
        if isinstance(ended, BudgetSpent) or ended.cause not in _GOES_ON:
            _delete(run, script_id)
        raise
    _delete(run, script_id)
    return effect


def _script_id(run: CampaignRun, key: str) -> str:
    return hashlib.sha256(run.idempotency_key(key).encode()).hexdigest()


async def _start(run: CampaignRun, script_id: str, program: _Program) -> Effect:
    root = run.settings.campaign_script_data
    named = {each.name: each.file for each in run.request.datasets}
    request = StartScript(
        code=program.source,
        file=SCRIPT,
        arguments=list(program.arguments),
        seconds=program.seconds,
        files={} if root else {f"datasets/{name}.jsonl": _read(run, named[name]) for name in named},
        folders={"datasets": await shared_folder(run, root)} if root else {},
        environment=_llm_environment(run, script_id),
        network=run.request.script_llms is not None,
        fetch_files=[DATA],
    )
    if run.request.script_llms is not None:
        with run.database.write() as session:
            open_script(session, script_id, run.id)
    async with ScriptService(run.settings) as service:
        await service.start(script_id, request)
    return Effect({"script": script_id})


def _llm_environment(run: CampaignRun, script_id: str) -> dict[str, str]:
    llms = run.request.script_llms
    if llms is None:
        return {}
    return {
        "OPENAI_API_KEY": script_token(run.settings, script_id),
        "OPENAI_BASE_URL": f"{run.settings.proxy_url}/v1",
        "STRONG_MODEL_POOL": json.dumps([llm.model for llm in llms.strong]),
        "WEAK_MODEL_POOL": json.dumps([llm.model for llm in llms.weak]),
    }


def _read(run: CampaignRun, file: str) -> str:
    return base64.b64encode(run.artifacts.file(file).read_bytes()).decode()


async def _end(run: CampaignRun, script_id: str, program: _Program, target: Path) -> Effect:
    async with ScriptService(run.settings) as service:
        script = await _wait_for_end(run, service, script_id, program)
        problem = _stop_reason(run, script_id)
        if problem is not None:
            return Effect({"problem": problem})
        if script.result is None:
            raise _Lost(script.message)
        problem = program.problem(
            script.result, script.stdout + script.stderr, script.files.get(DATA)
        )
        if problem is None:
            await service.download(script_id, DATA, target)
    return Effect({"problem": problem})


async def _wait_for_end(
    run: CampaignRun, service: ScriptService, script_id: str, program: _Program
) -> Script:
    """The script once it has ended or must be stopped; raises `Waiting` if that takes long, and
    `_Lost`."""
    while True:
        script = await service.get(script_id)
        if script is not None and _refusal(run, script_id) is not None:
            return script
        if script is None:
            raise _Lost("the sandbox was started again, or was not asked for it for too long")
        if script.state is not ScriptState.RUNNING:
            return script
        if script.seconds >= ATTENDED_SECONDS:
            minutes, most = script.seconds / 60, program.seconds / 60
            raise Waiting(f"waiting for {SCRIPT}: {minutes:.0f} of at most {most:.0f} minutes")
        await asyncio.sleep(POLL_SECONDS)


def _refusal(run: CampaignRun, script_id: str) -> str | None:
    """The limit at which the script was denied an LLM call."""
    if run.request.script_llms is None:
        return None
    with run.database.read() as session:
        return refusal_of(session, script_id)


def _stop_reason(run: CampaignRun, script_id: str) -> str | None:
    """The reason to stop the script, if any; raises `BudgetSpent` when that ends the campaign."""
    llms, limit = run.request.script_llms, _refusal(run, script_id)
    if llms is None or limit is None:
        return None
    message = f"{SCRIPT} was stopped: with its calls of LLMs the limit of {limit} was reached"
    run.note(message)
    if limit != CALLS:
        raise BudgetSpent(Limit(limit))
    return f"{message}; all scripts together have {llms.calls} calls"


async def _record(message: str) -> Effect:
    return Effect({"lost": message})


def _delete(run: CampaignRun, script_id: str) -> None:
    """Kill it and free its slot; the sandbox does so by itself when nobody polls it."""
    if run.request.script_llms is not None:
        with run.database.write() as session:
            close_script(session, script_id)
            run.budget.by_scripts = scripts_usage(session, run.id)

    async def delete() -> None:
        async with ScriptService(run.settings) as service:
            await service.delete(script_id)

    with contextlib.suppress(Waiting, JobFailed):
        asyncio.run(delete())
