"""An encoder process in its runtime's Python, kept running by a supervisor thread."""

import shutil
import tempfile
from pathlib import Path
from typing import Self

from services.core.process.runtimes import find_runtime
from services.retrieval.encoder.specification import EncoderDescription, EncoderSpecification
from services.retrieval.encoder.supervisor import EncoderState, EncoderSupervisor

RUNTIME = "encoder"
CHILD = "services.retrieval.encoder.child"


class EncoderProcess:
    """An encoder that runs until `close` or until the owning process dies.

    A supervisor thread restarts it when it crashes or hangs. Clients may be in any process of the
    same user on this host; all they need is ``socket``.
    """

    def __init__(
        self,
        specification: EncoderSpecification,
        *,
        runtimes: Path,
        log: Path,
        start_seconds: float = 300.0,
    ) -> None:
        """Prepare, but do not start, the process.

        ``runtimes`` is the folder of the installed runtimes; ``log`` receives the output of the
        encoder's libraries. An encoder that has not loaded its model (download included) after
        ``start_seconds`` is restarted. Raises `RuntimeMissing` when the runtime ``encoder`` is not
        installed.
        """
        python = find_runtime(runtimes, RUNTIME).python
        # Short, because socket paths are limited to 107 bytes; private to this user.
        self._folder = Path(tempfile.mkdtemp(prefix="temper-encoder-"))
        self.socket = self._folder / "socket"
        self._state = EncoderState()
        self._supervisor = EncoderSupervisor(
            [str(python), "-P", "-m", CHILD, str(self.socket), specification.model_dump_json()],
            socket=self.socket,
            log=log,
            start_seconds=start_seconds,
            state=self._state,
        )

    def start(self) -> Self:
        """Start it without waiting."""
        self._supervisor.start()
        return self

    def wait_ready(self, timeout: float) -> EncoderDescription:
        """Wait up to ``timeout`` seconds until it is ready.

        Raises `EncoderUnusable` when its model cannot be loaded, `EncoderUnavailable` when it is
        not ready in time.
        """
        return self._state.wait_ready(timeout)

    @property
    def description(self) -> EncoderDescription | None:
        """Its description; None before it is first ready."""
        return self._state.description

    @property
    def problem(self) -> str | None:
        """Why it is not ready; None when it is."""
        return self._state.problem

    @property
    def restarts(self) -> int:
        """Number of restarts."""
        return self._state.restarts

    @property
    def pid(self) -> int | None:
        """The current process id."""
        return self._state.pid

    def close(self) -> None:
        """Stop it and remove its files except the log. Idempotent."""
        self._supervisor.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()
