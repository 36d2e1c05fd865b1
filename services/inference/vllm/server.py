"""A vLLM server as an async context manager."""

import asyncio
import contextlib
import shutil
import signal
import socket
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Self

import httpx

from services.contracts.engine import VllmOptions
from services.contracts.errors import TemperError
from services.core.artifacts import LoraAdapter, ModelSource
from services.core.process.runtimes import find_runtime
from services.core.process.server import ServerProcess
from services.inference.vllm.launch import HOST, NO_ROUTES, Routes, plan_launch
from services.inference.vllm.log import LogFollower, StartupPhase, failure_cause, milestone
from services.models.loadable import SETTING

LOG = "vllm.log"
POLL_SECONDS = 0.1
PROBE_SECONDS = 5.0
GRACE_SECONDS = 10.0
PORT_ATTEMPTS = 5
KEPT_LINES = 400
SHOWN_LINES = 20
COUNT_SECONDS = 20.0
TOKENS = "tokens"
PORT_TAKEN = "Address already in use"
ASKS_FOR_TRUST = "trust_remote_code=True"


class VllmFailed(TemperError):
    """vLLM did not start, or exited unexpectedly.

    The message has the cause in one line; ``last_lines`` is the tail of its log.
    """

    code = "vllm_failed"

    def __init__(self, message: str, last_lines: Sequence[str]) -> None:
        super().__init__(message)
        self.last_lines = tuple(last_lines)


@dataclass(frozen=True)
class StartupProgress:
    """A startup phase that began ``elapsed_seconds`` after the launch."""

    phase: StartupPhase
    elapsed_seconds: float


class VllmServer:
    """Serves a model and its adapters on a loopback port with a random API key.

    ``async with VllmServer(...) as server`` starts it and waits until it is ready; clients need
    ``base_url`` (including /v1) and ``api_key``. No process is left after the block. Output is
    appended to ``log`` in ``job_dir``.

    Entering raises `RuntimeMissing`, `InvalidRequest` for a missing model or adapter, and
    `VllmFailed`. ``on_progress`` is called at the start of each startup phase. ``devices`` are the
    GPUs to use; None means all visible ones. For ``exact`` see `plan_launch`.
    """

    def __init__(
        self,
        runtime_python: Path,
        model: ModelSource,
        served_name: str,
        adapters: Sequence[tuple[str, Path]],
        job_dir: Path,
        options: VllmOptions | None = None,
        *,
        on_progress: Callable[[StartupProgress], None] | None = None,
        routes: Routes = NO_ROUTES,
        devices: Sequence[str] | None = None,
        log: str = LOG,
        exact: bool = False,
    ) -> None:
        self._runtime_folder = runtime_python.parents[1]
        self._model = model
        self._served_name = served_name
        self._adapters = [LoraAdapter(name, path) for name, path in adapters]
        self._job_dir = job_dir
        self._options = options or VllmOptions()
        self._on_progress = on_progress
        self._routes = routes
        self._devices = devices
        self._exact = exact
        self._log = job_dir / log
        self._last_lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._phase: StartupPhase | None = None
        self._process: ServerProcess | None = None
        self._follower = LogFollower(self._log)
        self._scratch: Path | None = None
        self._begun = 0.0
        self.base_url = ""
        self.api_key = ""

    async def __aenter__(self) -> Self:
        self._begun = time.monotonic()
        # For Unix sockets, whose paths must be short: not in the job's folder.
        self._scratch = Path(tempfile.mkdtemp(prefix="temper-vllm-"))
        try:
            async with asyncio.timeout(self._options.startup_timeout_seconds):
                await self._start_on_free_port()
        except TimeoutError:
            await self._stop()
            raise self._failure(
                f"vLLM was not ready within {self._options.startup_timeout_seconds:.0f} s"
            ) from None
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    @property
    def ended(self) -> bool:
        """Whether the server process has exited."""
        return self._process is None or self._process.returncode() is not None

    async def watch(self) -> None:
        """Never return; raise `VllmFailed` when the server exits."""
        assert self._process is not None  # noqa: S101 - the block has been entered
        counter = asyncio.create_task(self._count_tokens())
        try:
            while (code := self._process.returncode()) is None:
                self._last_lines.extend(self._follower.new_lines())
                await asyncio.sleep(1.0)
        finally:
            counter.cancel()
        raise self._ended(code)

    async def _count_tokens(self) -> None:
        """Keep the engine's count of tokens in a file of the job's folder: a long generation is
        progress, although nothing else tells of it until it ends."""
        file = self._job_dir / f"{self._log.stem}.{TOKENS}"
        headers = {"Authorization": f"Bearer {self.api_key}"}
        url = self.base_url.removesuffix("/v1") + "/metrics"
        counted = None
        async with httpx.AsyncClient(
            headers=headers, timeout=PROBE_SECONDS, trust_env=False
        ) as client:
            while True:
                await asyncio.sleep(COUNT_SECONDS)
                with contextlib.suppress(httpx.HTTPError):  # watched by the engine's own users
                    count = token_count((await client.get(url)).text)
                    if count != counted:
                        counted = count
                        file.write_text(f"{count:.0f}\n")

    async def _start_on_free_port(self) -> None:
        for attempt in range(1, PORT_ATTEMPTS + 1):
            self._start(_free_port())
            code = await self._ready()
            if code is None:
                return
            if attempt == PORT_ATTEMPTS or not any(PORT_TAKEN in x for x in self._last_lines):
                raise self._ended(code)
            self._last_lines.clear()

    def _start(self, port: int) -> None:
        assert self._scratch is not None  # noqa: S101 - created on entry
        launch = plan_launch(
            find_runtime(self._runtime_folder.parent, self._runtime_folder.name),
            self._model,
            self._served_name,
            self._adapters,
            self._options,
            port=port,
            scratch=self._scratch,
            routes=self._routes,
            devices=self._devices,
            exact=self._exact,
        )
        self.base_url = f"http://{HOST}:{port}/v1"
        self.api_key = launch.api_key
        self._process = ServerProcess(
            launch.command,
            cwd=self._job_dir,
            environment=launch.environment,
            log=self._log,
            grace_seconds=GRACE_SECONDS,
        )
        self._report(StartupPhase.IMPORTING)

    async def _ready(self) -> int | None:
        """Wait until the server answers; return its exit code if it exits first."""
        assert self._process is not None  # noqa: S101 - started before
        headers = {"Authorization": f"Bearer {self.api_key}"}
        # The environment's proxy must not be used for loopback addresses.
        async with httpx.AsyncClient(
            headers=headers, timeout=PROBE_SECONDS, trust_env=False
        ) as client:
            while (code := self._process.returncode()) is None:
                self._follow()
                if await self._answers(client):
                    self._report(StartupPhase.READY)
                    return None
                await asyncio.sleep(POLL_SECONDS)
        self._follow()
        return code

    async def _answers(self, client: httpx.AsyncClient) -> bool:
        """Healthy and ours: another server on this port would not know the key."""
        try:
            health = await client.get(self.base_url.removesuffix("/v1") + "/health")
            models = await client.get(self.base_url + "/models")
        except httpx.TransportError:
            return False
        return health.status_code == models.status_code == HTTPStatus.OK

    def _follow(self) -> None:
        for line in self._follower.new_lines():
            self._last_lines.append(line)
            phase = milestone(line)
            if phase is not None:
                self._report(phase)

    def _report(self, phase: StartupPhase) -> None:
        order = list(StartupPhase)
        if self._phase is not None and order.index(phase) <= order.index(self._phase):
            return  # several workers log the same milestone
        self._phase = phase
        if self._on_progress is not None:
            self._on_progress(StartupProgress(phase, time.monotonic() - self._begun))

    def _ended(self, code: int) -> VllmFailed:
        self._last_lines.extend(self._follower.new_lines())
        if code == -signal.SIGKILL:
            failure = self._failure("vLLM was killed; the machine may have run out of memory")
        else:
            how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
            failure = self._failure(f"vLLM {how}")
        failure.retryable = code < 0 or self._phase is StartupPhase.READY
        return failure

    def _failure(self, what: str) -> VllmFailed:
        lines = list(self._last_lines)
        cause = failure_cause(lines)
        if not self._model.trusted and any(ASKS_FOR_TRUST in line for line in lines):
            cause = f"its own code may not run: the operator has not named it in {SETTING}"
        message = f"{what}: {cause}" if cause else what
        if self._model.hub_id is not None:
            # Few of vLLM's messages name what could not be loaded.
            message = f"model {self._model.hub_id!r}: {message}"
        return VllmFailed(message, [line for line in lines if line.strip()][-SHOWN_LINES:])

    async def _stop(self) -> None:
        # Shielded, so that a second cancellation leaves no processes behind.
        await asyncio.shield(asyncio.to_thread(self._clean_up))

    def _clean_up(self) -> None:
        if self._process is not None:
            self._process.stop()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)


_TOKEN_COUNTERS = ("vllm:prompt_tokens_total{", "vllm:generation_tokens_total{")


def token_count(exposition: str) -> float:
    """Tokens that an engine has read and generated, from its metrics in Prometheus' format."""
    lines = (line for line in exposition.splitlines() if line.startswith(_TOKEN_COUNTERS))
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
