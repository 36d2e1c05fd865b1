"""The encoder's process: started with the Python of its runtime, and kept running."""

import shutil
import tempfile
from pathlib import Path
from typing import Self

from services.core.process.runtimes import find_runtime
from services.retrieval.encoder.specification import EncoderDescription, EncoderSpecification
from services.retrieval.encoder.supervisor import EncoderKeeper, EncoderState

RUNTIME = "encoder"
CHILD = "services.retrieval.encoder.child"


class EncoderProcess:
    """An encoder that runs until `close`, or until the process that started it ends.

    It is started again when it dies or hangs; a thread of this process sees to that. Its clients
    may be in any process of this user on this host: they only need ``socket``.
    """

    def __init__(
        self,
        specification: EncoderSpecification,
        *,
        runtimes: Path,
        log: Path,
        start_seconds: float = 300.0,
    ) -> None:
        """Nothing is started yet. ``runtimes`` is the folder of the installed runtimes; to ``log``
        goes what the encoder's libraries write. An encoder that has not loaded its model after
        ``start_seconds`` (which may mean a download) is ended and started again.

        Raises `RuntimeMissing` when the runtime ``encoder`` is not installed.
        """
        python = find_runtime(runtimes, RUNTIME).python
        # Short, for the path of a socket has 107 bytes; nobody else can look into it.
        self._folder = Path(tempfile.mkdtemp(prefix="temper-encoder-"))
        self.socket = self._folder / "socket"
        self._state = EncoderState()
        self._keeper = EncoderKeeper(
            [str(python), "-P", "-m", CHILD, str(self.socket), specification.model_dump_json()],
            socket=self.socket,
            log=log,
            start_seconds=start_seconds,
            state=self._state,
        )

    def start(self) -> Self:
        """Start it and return at once."""
        self._keeper.start()
        return self

    def wait_ready(self, timeout: float) -> EncoderDescription:
        """Wait until it answers, at most ``timeout`` seconds.

        Raises `EncoderUnusable` when its model cannot be loaded and `EncoderUnavailable` when it
        is not ready in time.
        """
        return self._state.wait_ready(timeout)

    @property
    def description(self) -> EncoderDescription | None:
        """What it is; None until it is ready for the first time."""
        return self._state.description

    @property
    def problem(self) -> str | None:
        """Why it does not answer at present; None while it does."""
        return self._state.problem

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        return self._state.restarts

    @property
    def pid(self) -> int | None:
        """The process that runs at present."""
        return self._state.pid

    def close(self) -> None:
        """End it and what it left on disk but its log. May be called twice."""
        self._keeper.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()
