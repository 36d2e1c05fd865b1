"""Whether programs can be run right now."""

import time

from services.contracts.errors import Unavailable
from services.sandbox.admission import Admission
from services.sandbox.execution import Ending, Executable, Execution, Limits, Runner

TRUSTED_SECONDS = 2.0

_TRIVIAL = Execution(
    command=Executable(("true",)),
    limits=Limits(seconds=3.0, memory_bytes=64 << 20, output_bytes=1024),
)


class PoolCheck:
    """A health check that runs a trivial program.

    It takes nobody's turn: while every place is taken, programs are run. Its answer holds for a
    moment, however often it is asked for.
    """

    def __init__(self, runner: Runner, admission: Admission) -> None:
        self._runner = runner
        self._admission = admission
        self._trusted_until = 0.0

    async def check(self) -> None:
        """Raise when the pool does not run programs."""
        if self._admission.running == self._admission.places:
            return
        if time.monotonic() < self._trusted_until:
            return
        outcome = await self._runner.run(_TRIVIAL)
        if outcome.ending is not Ending.EXITED or outcome.return_code != 0:
            raise Unavailable(f"a trivial program ended with {outcome.return_code}")
        self._trusted_until = time.monotonic() + TRUSTED_SECONDS
