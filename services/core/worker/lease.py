"""One claim's right to run, in the database and on the clock of its watchdog."""

from services.core.db.engine import Database
from services.core.jobs.claims import Claim, check_claim, renew_lease
from services.core.jobs.job import Job
from services.core.process.supervised import lease_clock

RENEW_SHARE = 0.25
"""The part of a lease after which it is renewed: three renewals may fail."""


class Lease:
    """Keeps a claim alive. ``deadline`` is on the `lease_clock`, never later than the database's.

    The database's lease begins when its transaction runs, the deadline's before: however long
    that takes, the watchdog ends the work before another worker may begin it.
    """

    def __init__(self, database: Database, claim: Claim, seconds: float, deadline: float) -> None:
        self.deadline = deadline
        self._database = database
        self._claim = claim
        self._seconds = seconds

    @property
    def expired(self) -> bool:
        """Whether another worker may have the job by now."""
        return lease_clock() >= self.deadline

    def renew_if_due(self) -> bool:
        """Extend the lease when a part of it has passed; true when it was extended.

        Raises `LeaseLost` when the job was taken.
        """
        asked = lease_clock()
        if self.deadline - asked > self._seconds * (1 - RENEW_SHARE):
            return False
        with self._database.write() as session:
            renew_lease(session, self._claim, self._seconds)
        self.deadline = asked + self._seconds
        return True

    def check(self) -> Job:
        """Return the job as it stands; raise `LeaseLost` when it was taken."""
        with self._database.read() as session:
            return check_claim(session, self._claim, lock=False)
