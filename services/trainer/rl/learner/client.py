"""The learner as the coordinator sees it: processes in the training runtime that answer one request
at a time over a Unix socket."""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from services.contracts.base import JsonObject
from services.contracts.errors import JobFailed
from services.core.process.runtimes import child_environment
from services.core.process.server import ServerProcess
from services.core.processors import usable_cores
from services.inference import exact
from services.trainer.rl.learner.protocol import (
    ANSWER,
    SPEC,
    Answer,
    Broadcast,
    DescribeWeights,
    Done,
    Export,
    Failed,
    Finish,
    JoinGroup,
    LearnerSpec,
    MakeGroup,
    MeasureBatch,
    Probe,
    Publish,
    Ready,
    Request,
    Save,
    SendChunk,
    Update,
)

MODULE = "services.trainer.rl.learner"
LOG = "learner.log"
START_SECONDS = 3600.0
ANSWER_SECONDS = 6 * 3600.0
SEND_SECONDS = 300.0
"""Time limit of a part of a transfer: a peer that died may leave the other in NCCL forever."""
FINISH_SECONDS = 30.0
GRACE_SECONDS = 10.0
POLL_SECONDS = 0.2
MAX_ANSWER_BYTES = 256 << 20
TAIL_LINES = 30
TAIL_BYTES = 16_384


class LearnerFailed(JobFailed):
    """The learner failed or died; ``log_tail`` holds the last lines of its log."""

    code = "learner_failed"

    def __init__(
        self,
        message: str,
        log_tail: Sequence[str],
        *,
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message, code=code, param=param)
        self.log_tail = tuple(log_tail)


class LearnerClient:
    """``async with LearnerClient(...) as learner`` starts the learner and waits until its weights
    are loaded.

    One process per GPU in ``gpus``, or one on the CPU; none outlives the block. Output
    is appended to ``learner.log`` in ``job_dir``. Entering and all methods raise `LearnerFailed`.
    """

    def __init__(
        self, python: Path, spec: LearnerSpec, job_dir: Path, gpus: Sequence[str] = ()
    ) -> None:
        self._python = python
        self._spec = spec
        self._job_dir = job_dir
        self._gpus = gpus
        self._process: ServerProcess | None = None
        self._streams: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        self._scratch: Path | None = None
        self._server: asyncio.Server | None = None
        self._healthy = False
        self.trainable_parameters = 0
        self.padded: str | None = None
        self.busy_seconds = 0.0
        self.sends = False
        """Whether the weights that were published last can be sent from the GPU."""

    async def __aenter__(self) -> Self:
        self._streams = asyncio.get_running_loop().create_future()
        # Socket paths are limited to about 100 bytes, too short for the job's folder.
        self._scratch = Path(tempfile.mkdtemp(prefix="temper-learner-"))
        socket = self._scratch / "socket"
        spec = self._spec.model_copy(update={"socket": socket})
        try:
            self._server = await asyncio.start_unix_server(
                self._connected, socket, limit=MAX_ANSWER_BYTES
            )
            (self._job_dir / SPEC).write_text(spec.model_dump_json())
            self._process = ServerProcess(
                self._command(),
                cwd=self._job_dir,
                environment=self._environment(),
                log=self._job_dir / LOG,
                grace_seconds=GRACE_SECONDS,
            )
            ready = await self._answer("start", START_SECONDS)
        except BaseException:
            await self._stop()
            raise
        if not isinstance(ready, Ready):
            await self._stop()
            raise self._failure(f"the learner began with {ready.type!r}")
        self.trainable_parameters = ready.trainable_parameters
        self.padded = ready.padded
        self._healthy = True
        return self

    def _environment(self) -> dict[str, str]:
        extra = {"CUDA_VISIBLE_DEVICES": ",".join(self._gpus)}
        if not self._gpus:
            extra["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS") or str(usable_cores())
        if self._spec.is_exact:
            extra |= exact.ENVIRONMENT
        return child_environment(extra)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.shield(self._stop())

    async def update(self, step: int, batch: Path) -> dict[str, float]:
        """Train on a batch; return the metrics of the update."""
        return (await self._ask(Update(step=step, batch=batch))).metrics

    async def measure(self, batch: Path) -> dict[str, float]:
        """The metrics of a batch under the current weights, without an update."""
        return (await self._ask(MeasureBatch(batch=batch))).metrics

    async def publish(self, folder: Path, outdated: Path | None = None) -> Sequence[str] | None:
        """Write the weights for an engine; see `PolicyLearner.publish`."""
        done = await self._ask(Publish(folder=folder, outdated=outdated))
        self.sends = done.sends
        return done.changed

    async def send_chunk(self) -> JsonObject | None:
        """Pack the next part of the weights for an engine of the same GPU; None after the last."""
        return (await self._ask(SendChunk(), SEND_SECONDS)).sent

    async def end_chunks(self) -> None:
        """Free the buffer of `send_chunk`."""
        await self._ask(SendChunk(end=True), SEND_SECONDS)

    async def describe(self) -> JsonObject:
        """The tensors that `broadcast` sends."""
        return (await self._ask(DescribeWeights(), SEND_SECONDS)).sent or {}

    async def make_group(self) -> str:
        """The id of a new group of NCCL, in base64."""
        return str(((await self._ask(MakeGroup(), SEND_SECONDS)).sent or {})["id"])

    async def join_group(self, engine: str, size: int) -> None:
        """Join the group that was made last, while the GPUs of an engine do."""
        await self._ask(JoinGroup(engine=engine, size=size), SEND_SECONDS)

    async def broadcast(self, engine: str) -> None:
        """Send the weights to an engine's group, while it receives them."""
        await self._ask(Broadcast(engine=engine), SEND_SECONDS)

    async def probe(self, token_ids: Sequence[Sequence[int]]) -> list[list[float]]:
        """The log-probability of every token after the first, of each sequence."""
        return (await self._ask(Probe(token_ids=[list(ids) for ids in token_ids]))).log_probs

    async def save(self, folder: Path) -> None:
        """Write everything that resuming needs."""
        await self._ask(Save(folder=folder))

    async def export(self, folder: Path) -> None:
        """Write the trained model."""
        await self._ask(Export(folder=folder))

    def _command(self) -> list[str]:
        command = [str(self._python), "-m"]
        if len(self._gpus) > 1:
            command += ["torch.distributed.run", "--standalone"]
            command += [f"--nproc-per-node={len(self._gpus)}", "--module"]
        return [*command, MODULE, str(self._job_dir)]

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._streams.done():
            writer.close()  # only one learner may connect
        else:
            self._streams.set_result((reader, writer))

    async def _ask(self, request: Request, seconds: float | None = None) -> Done:
        if not self._healthy:
            raise self._failure("the learner failed earlier")
        self._healthy = False  # no other request until it has answered
        _, writer = await self._streams
        # Not drained, which has no timeout; a dead learner is reported by the missing answer.
        began = time.monotonic()
        writer.write(request.model_dump_json().encode() + b"\n")
        answer = await self._answer(request.type, seconds or ANSWER_SECONDS)
        self.busy_seconds += time.monotonic() - began
        if not isinstance(answer, Done):
            raise self._failure(f"the learner answered {request.type} with {answer.type!r}")
        self._healthy = True
        return answer

    async def _answer(self, what: str, seconds: float) -> Answer:
        """The next answer; raises on a failure or a timeout."""
        try:
            async with asyncio.timeout(seconds):
                line = await self._line()
        except TimeoutError:
            raise self._failure(f"the learner did not answer {what} in {seconds:.0f} s") from None
        try:
            answer = ANSWER.validate_json(line)
        except ValidationError as error:
            raise self._failure(f"the learner's answer to {what} cannot be read") from error
        if isinstance(answer, Failed):
            raise self._failure(answer.message, code=answer.code, param=answer.param)
        return answer

    async def _line(self) -> bytes:
        reader, _ = await self._connection()
        try:
            line = await reader.readline()
        except ConnectionError as error:  # it died before reading a request
            raise await self._death() from error
        except ValueError as error:
            raise self._failure(f"the learner's answer is too long: {error}") from error
        if not line.endswith(b"\n"):
            raise await self._death()
        return line

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while not self._streams.done():
            if self._running.returncode() is not None:
                raise await self._death()
            await asyncio.sleep(POLL_SECONDS)
        return self._streams.result()

    async def _death(self) -> LearnerFailed:
        """How the process exited; the exit may lag behind the closed connection."""
        code = await self._wait_for_exit(GRACE_SECONDS)
        if code is None:
            how = "closed its connection"
        else:
            how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        failure = self._failure(f"the learner {how}")
        failure.retryable = True
        return failure

    async def _wait_for_exit(self, seconds: float) -> int | None:
        """Wait up to ``seconds`` for the exit; return its code, None if it is still running."""
        last = time.monotonic() + seconds
        while True:
            code = self._running.returncode()
            if code is not None or time.monotonic() > last:
                return code
            await asyncio.sleep(POLL_SECONDS)

    @property
    def _running(self) -> ServerProcess:
        assert self._process is not None  # noqa: S101 - started on entry
        return self._process

    def _failure(
        self, message: str, *, code: str | None = None, param: str | None = None
    ) -> LearnerFailed:
        return LearnerFailed(message, _tail(self._job_dir / LOG), code=code, param=param)

    async def _stop(self) -> None:
        if self._healthy:
            await self._finish()
        if self._process is not None:
            await asyncio.to_thread(self._process.stop)
        if self._streams.done():
            self._streams.result()[1].close()
        if self._server is not None:
            self._server.close()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    async def _finish(self) -> None:
        """Let it exit on its own, so that several processes leave their process group cleanly."""
        self._healthy = False
        _, writer = self._streams.result()
        writer.write(Finish().model_dump_json().encode() + b"\n")
        await self._wait_for_exit(FINISH_SECONDS)


def _tail(log: Path) -> list[str]:
    with suppress(OSError), log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
        return [line[:500] for line in lines if line.strip()][-TAIL_LINES:]
    return []
