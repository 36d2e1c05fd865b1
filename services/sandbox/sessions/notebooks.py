"""Opening notebooks as the operator's settings say."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.sandbox.execution import Execution, Limits, PythonFile
from services.sandbox.pool.pool import Pool
from services.sandbox.sessions.notebook import Notebook
from services.sandbox.sessions.outputs import Room
from services.sandbox.settings import SandboxSettings


@dataclass(frozen=True)
class Notebooks:
    """Opens notebooks in a pool."""

    settings: SandboxSettings
    pool: Pool

    async def open(
        self, files: Mapping[str, bytes], memory_bytes: int, fetch: tuple[str, ...] = ()
    ) -> Notebook:
        """A notebook with these files and this memory; raises `SandboxFailure`.

        Its outcome will hold the files ``fetch``. Whoever opens it ends it.
        """
        output = self.settings.sandbox_output_bytes
        execution = Execution(
            command=PythonFile("notebook"),  # as a notebook's driver it runs anyway
            limits=Limits(self.settings.sandbox_session_max_seconds, memory_bytes, output),
            files=files,
            fetch=fetch,
        )
        most_bytes = max(output, self.settings.sandbox_max_body_bytes)
        return await Notebook.start(self.pool, execution, most_bytes)

    def room(self) -> Room:
        """How much may be kept of each stream, and of all that is shown."""
        size = self.settings.sandbox_output_bytes
        return Room(stdout=size, stderr=size, display=size)
