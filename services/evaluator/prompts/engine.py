"""Answers a prompt batch with vLLM in its own process, which ends with the batch.

Prompts are sorted, so that those with a common prefix hit the engine's prefix cache.
"""

import asyncio
import os
import re
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.batches.offline_engine import (
    OfflineAnswer,
    OfflineOptions,
    OfflinePrompt,
    OfflineSampling,
)
from services.contracts.batches.prompt_batches import OwnEngine, PromptBatch
from services.contracts.errors import InvalidRequest, JobFailed
from services.core.artifacts import ModelSource
from services.core.process.runtimes import Accelerator, Runtime, find_runtime
from services.core.process.tree import kill_tree
from services.evaluator.failures import first_error
from services.evaluator.prompts.cards import choose_cards, visible_cards
from services.evaluator.prompts.rows import PromptRow, PromptRows
from services.evaluator.prompts.status import StatusLine
from services.evaluator.prompts.template import PromptTemplate, RenderFailed
from services.evaluator.tokenizers import TOKENIZER_FOLDER, prepared_source
from services.inference.vllm.launch import OfflineCommand, plan_offline
from services.inference.vllm.log import failure_cause

LOG = "engine.log"
ENDPOINT = "local"
SORTED_PROMPTS = 8192
SORTED_CHARACTERS = 32 * 2**20
"""Prompts that are sorted together, which bounds memory."""
COMPILED_PROMPTS = 1000
"""Minimum records for compiling a GPU engine, which takes about a minute."""
LONGEST_LINE = 64 * 2**20
KEPT_LINES = 400
GRACE_SECONDS = 10.0

_OLD_LIBRARY = re.compile(r"(\S*libstdc\+\+\.so\.6): version `(GLIBCXX_[\d.]+)' not found")


class OwnEngineAnswering:
    """Feeds prompts to an engine and stores its responses."""

    def __init__(
        self,
        batch: PromptBatch,
        template: PromptTemplate,
        rows: PromptRows,
        folder: Path,
        to_ask: int,
    ) -> None:
        assert batch.engine is not None  # noqa: S101 - the caller's condition
        self._engine = batch.engine
        self._sampling = OfflineSampling.model_validate(batch.body)
        self._template = template
        self._rows = rows
        self._log = folder / LOG
        self._to_ask = to_ask
        self._sent = 0
        self._answered = 0
        self.status = StatusLine(rows, lambda: self._sent - self._answered, to_ask)

    async def run(self, records: Iterator[tuple[int, JsonObject]]) -> None:
        """Answer all records; raises `JobFailed` if the engine does not start, or ends early."""
        if ignored := self._sampling.ignored:
            what = "beam search" if self._sampling.use_beam_search else "sampling"
            sys.stderr.write(f"{what} ignores {', '.join(ignored)}\n")
        async with self._started() as process:
            try:
                async with asyncio.TaskGroup() as group:
                    background = self._rows.sync_forever(), self.status.show_forever()
                    around = [group.create_task(each) for each in background]
                    sending = group.create_task(self._send(process, records))
                    await self._keep_answers(process)
                    for task in (*around, sending):
                        task.cancel()
            except BaseExceptionGroup as errors:
                raise first_error(errors) from errors
            finally:
                self.status.clear()
            if await process.wait() != 0:
                raise self._failure("the engine ended early")

    @asynccontextmanager
    async def _started(self) -> AsyncIterator[Process]:
        """The engine's process, ready; it has ended after the block."""
        async with AsyncExitStack() as stack:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="temper-vllm-"))
            sys.stderr.write(f"loading {self._engine.model} (log: {self._log})\n")
            launch = _plan(self._engine, Path(scratch), self._to_ask)
            process = await _start(launch, self._log)
            stack.push_async_callback(_end, process)
            try:
                seconds = self._engine.options.startup_timeout_seconds
                async with asyncio.timeout(seconds):
                    await _write(process, f"{self._sampling.model_dump_json()}\n")
                    ready = await _reader(process).readline()
            except TimeoutError:
                raise self._failure(f"the engine was not ready within {seconds:.0f} s") from None
            except ConnectionError:
                ready = b""
            if not ready:
                await process.wait()
                raise self._failure("the engine did not start")
            yield process

    async def _send(self, process: Process, records: Iterator[tuple[int, JsonObject]]) -> None:
        try:
            for prompts in self._sorted(records):
                for prompt in prompts:
                    self._sent += 1
                    await _write(process, f"{prompt.model_dump_json()}\n")
            await _write(process, "\n")
        except ConnectionError:
            pass  # the engine has ended; reading its answers tells why

    def _sorted(self, records: Iterator[tuple[int, JsonObject]]) -> Iterator[list[OfflinePrompt]]:
        """Prompts in groups that are sorted by their text."""
        group: list[tuple[list[str], OfflinePrompt]] = []
        characters = 0
        for index, record in records:
            try:
                messages = self._template.render(record)
            except RenderFailed as error:
                self._keep(PromptRow(index=index, error=f"Render Error: {error.message}"))
                continue
            texts = [str(message["content"]) for message in messages]
            characters += sum(map(len, texts))
            group.append((texts, OfflinePrompt(index=index, messages=messages)))
            if len(group) >= SORTED_PROMPTS or characters >= SORTED_CHARACTERS:
                yield _in_order(group)
                group, characters = [], 0
        yield _in_order(group)

    async def _keep_answers(self, process: Process) -> None:
        async for line in _reader(process):
            answer = OfflineAnswer.model_validate_json(line)
            self._answered += 1
            self._keep(_row(answer, self._engine.model))

    def _keep(self, row: PromptRow) -> None:
        self._rows.append(row)
        self.status.ended += 1

    def _failure(self, what: str) -> JobFailed:
        lines = self._log.read_text(errors="replace").splitlines()[-KEPT_LINES:]
        for line in lines:
            if found := _OLD_LIBRARY.search(line):
                return JobFailed(
                    f"{what}: {found[1]} is older than {found[2]}, which vLLM needs; install a "
                    "newer one (conda install -c conda-forge libstdcxx-ng) and put its folder "
                    "first in LD_LIBRARY_PATH",
                    code="engine_start_failed",
                )
        cause = failure_cause(lines)
        message = f"{what}: {cause}" if cause else what
        return JobFailed(f"{message} (log: {self._log})", code="engine_start_failed")


def _in_order(group: list[tuple[list[str], OfflinePrompt]]) -> list[OfflinePrompt]:
    group.sort(key=lambda each: each[0])
    return [prompt for _, prompt in group]


def _plan(engine: OwnEngine, scratch: Path, prompts: int) -> OfflineCommand:
    runtime = find_runtime(engine.runtimes, "vllm")
    folder = Path(engine.model).expanduser()
    if engine.model.startswith(("/", ".", "~")) and not folder.is_dir():
        raise InvalidRequest(f"there is no model folder {folder}")
    is_folder = folder.is_dir()
    model = ModelSource(path=folder.absolute()) if is_folder else ModelSource(hub_id=engine.model)
    model = prepared_source(model, scratch / TOKENIZER_FOLDER, runtime.python)
    options = engine.options
    if runtime.accelerator is Accelerator.CUDA and options.enforce_eager is None:
        options = options.model_copy(update={"enforce_eager": prompts < COMPILED_PROMPTS})
    devices = _devices(engine.devices, options, runtime)
    return plan_offline(runtime, model, options, scratch=scratch, devices=devices)


def _devices(wanted: list[str], options: OfflineOptions, runtime: Runtime) -> list[str]:
    if runtime.accelerator is Accelerator.CPU:
        if wanted or options.tensor_parallel_size > 1:
            raise InvalidRequest("the vllm runtime is built for CPUs: it uses no devices")
        return []
    if wanted:
        return wanted
    count, share = options.tensor_parallel_size, options.gpu_memory_utilization
    return choose_cards(visible_cards(), count, share)


def _row(answer: OfflineAnswer, model: str) -> PromptRow:
    if answer.error is not None:
        return PromptRow(
            index=answer.index,
            status_code=HTTPStatus.BAD_REQUEST,
            error=answer.error,
            attempts=1,
            model=model,
            endpoint=ENDPOINT,
        )
    single = len(answer.texts) == 1
    return PromptRow(
        index=answer.index,
        status_code=HTTPStatus.OK,
        result=answer.texts[0] if single else list(answer.texts),
        time_cost=answer.seconds,
        usage={
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "total_tokens": answer.prompt_tokens + answer.completion_tokens,
        },
        attempts=1,
        model=model,
        endpoint=ENDPOINT,
        finish_reason=answer.finish_reasons[0] if single else answer.finish_reasons,
    )


async def _start(launch: OfflineCommand, log: Path) -> Process:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        return await asyncio.create_subprocess_exec(
            *launch.command,
            env=launch.environment,
            stdin=PIPE,
            stdout=PIPE,
            stderr=descriptor,
            limit=LONGEST_LINE,
            start_new_session=True,  # Ctrl-C is for this process, which ends the engine
        )
    finally:
        os.close(descriptor)


async def _write(process: Process, line: str) -> None:
    assert process.stdin is not None  # noqa: S101 - a pipe
    process.stdin.write(line.encode())
    await process.stdin.drain()


def _reader(process: Process) -> asyncio.StreamReader:
    assert process.stdout is not None  # noqa: S101 - a pipe
    return process.stdout


async def _end(process: Process) -> None:
    """Stop the engine, which exits once its stdin is closed."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(GRACE_SECONDS):
            await process.wait()
    except TimeoutError:
        kill_tree(process.pid)
        await process.wait()
