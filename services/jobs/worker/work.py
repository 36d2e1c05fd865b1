"""What a worker does with its claims: the seam between the worker process and its kinds of job."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from services.jobs.claims import Claim, Claimant
from services.jobs.devices import HostDevices
from services.jobs.queues import QueueNames
from services.jobs.worker.shutdown import Shutdown


class Work(Protocol):
    """The work of one worker process: which jobs it claims, and how it runs what it has claimed.

    `ChildWork` gives each claim devices and a child process; a campaign takes its steps in the
    thread that claimed it, and holds no device. The process around it is the same: wake-ups,
    heartbeat, validation slots, recovery from killed workers, shutdown.
    """

    @property
    def queues(self) -> Sequence[QueueNames]:
        """The queues that it serves."""
        ...

    @property
    def devices(self) -> HostDevices:
        """The devices that it offers."""
        ...

    @property
    def slots(self) -> int:
        """How many threads may look for work and run it concurrently; validations have others."""
        ...

    def claim(self, claimant: Claimant) -> Claim | None:
        """Claim the next job whose files are valid; None when none can run here now.

        Raises `LeaseLost` or `IntegrityError` when another worker was faster.
        """
        ...

    def run(self, claim: Claim, deadline: float, stopping: Shutdown, notes: Path) -> None:
        """Run a claim, also of a validation, and record its outcome; errors are not raised.

        ``deadline`` is the end of its lease on the `lease_clock`, ``notes`` the worker's folder
        with a note for each process tree. It ends early once ``stopping`` is set.
        """
        ...
