"""A merged copy of an adapter's base in a job's folder, made by a child when it is needed."""

import asyncio
import os
from pathlib import Path

from services.contracts.errors import JobFailed
from services.core.process.runtimes import child_environment
from services.core.process.server import ServerProcess
from services.inference.merging.spec import AdapterMerge

CHILD = "services.inference.merging"
FOLDER = "merged"
SPEC = "merge.json"
LOG = "merge.log"
POLL_SECONDS = 0.2
GRACE_SECONDS = 5.0
LIMIT_SECONDS = 6 * 3600.0


async def merged_model(python: Path, merge: AdapterMerge, job_dir: Path) -> Path:
    """The folder of the merged model; one completed by an earlier attempt is reused.

    ``python`` is the training runtime's. Raises ``JobFailed`` with the code ``merge_failed``.
    """
    target = job_dir / FOLDER
    if target.is_dir():
        return target
    spec = job_dir / SPEC
    spec.write_text(merge.model_dump_json())
    process = ServerProcess(
        [str(python), "-m", CHILD, str(spec), str(target)],
        cwd=job_dir,
        environment=child_environment({"CUDA_VISIBLE_DEVICES": ""}),
        log=job_dir / LOG,
        grace_seconds=GRACE_SECONDS,
    )
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            while True:
                if process.returncode() is not None:
                    break
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise JobFailed("merging the adapter took too long", code="merge_failed") from None
    finally:
        await asyncio.to_thread(process.stop)
    if not target.is_dir():
        raise JobFailed(f"the adapter was not merged: {_last_line(job_dir)}", code="merge_failed")
    return target


def _last_line(job_dir: Path) -> str:
    """The last line of the child's log, where Python prints its error."""
    with open(job_dir / LOG, "rb") as log:
        log.seek(max(0, os.fstat(log.fileno()).st_size - 2000))
        lines = log.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:500] if lines else "it exited without a message"
