"""The program that ``temper batch`` executes: ``python -m services.evaluator.prompts run FOLDER``.

``run`` starts or resumes the batch requested in ``FOLDER``, ``retry`` resends its failed records,
``compare A B`` prints the rows that differ. Exit codes are the same as those of ``temper``.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop
from pydantic import ValidationError

from services.contracts.batches.prompt_batches import REQUEST, REQUESTED, PromptBatch
from services.contracts.errors import InvalidRequest, TemperError
from services.contracts.validation import first_fault
from services.evaluator.prompts.compare import compare
from services.evaluator.prompts.identity import claimed
from services.evaluator.prompts.run import answer

INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """Run one action; the error of a failed one is a line on stderr."""
    action, *paths = arguments
    try:
        if action == "compare":
            return compare(Path(paths[0]), Path(paths[1]), sys.stdout)
        return _answer(Path(paths[0]), failed_again=action == "retry")
    except TemperError as error:
        sys.stderr.write(f"temper: error: {' '.join(error.message.split())}\n")
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        sys.stderr.write(f"temper: error: {error.strerror or error}{where}\n")
    return 1


def _answer(folder: Path, *, failed_again: bool) -> int:
    path = folder / (REQUEST if failed_again else REQUESTED)
    batch = _read(path)
    with claimed(folder, batch), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        path.replace(folder / REQUEST)
        try:
            summary = runner.run(_until_stopped(batch, folder, failed_again))
        except asyncio.CancelledError:
            sys.stderr.write("interrupted; answers are kept, and the same command goes on\n")
            return INTERRUPTED
    sys.stderr.write(f"{summary}\n")
    return 0


async def _until_stopped(batch: PromptBatch, folder: Path, failed_again: bool) -> str:
    """Answer the batch; SIGINT and SIGTERM cancel it, so that its rows are synced."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - this is a coroutine of a running loop
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await answer(batch, folder, failed_again=failed_again, environment=os.environ)


def _read(path: Path) -> PromptBatch:
    try:
        return PromptBatch.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise InvalidRequest(f"{path}: {first_fault(error).sentence()}") from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
