"""Which of our files the processes of a test execute in which phase of it.

A test names the phase in a file of the folder, and waits until the processes have taken notice.
"""

import sys
from pathlib import Path

from tests.support.docs.recorder import PHASE
from tests.support.processes import REPOSITORY
from tests.support.waiting import wait_for

NOT_COUNTED = (
    "services/contracts/",
    "services/core/settings.py",
    "services/campaigns/settings.py",
    "services/evaluator/evaluation/spec.py",
    "services/trainer/rl/spec.py",
    "services/api/alerts/",
    "services/api/files/expiry.py",
    "services/api/jobs/removal.py",
    "services/api/responses/",
    "services/api/serving/usage.py",
    "services/api/webhooks/",
    "services/core/process/startup/",
    "services/core/process/supervised.py",
    "services/jobs/campaign_records.py",
    "services/jobs/pause.py",
    "services/jobs/worker/heartbeat.py",
    "services/jobs/worker/presence.py",
)
"""Files that declare, and work that recurs without a request: no walk names them."""


def recording(folder: Path, python: str = sys.executable) -> list[str]:
    """What is put before the command of a process for it to record into a folder."""
    return [python, "-m", "tests.support.docs.recorder", str(folder)]


def begin(phase: str, folder: Path, processes: int) -> None:
    """Let all processes that record into a folder begin a phase; so many have recorded before."""
    (folder / "next").write_text(phase)
    (folder / "next").rename(folder / PHASE)
    wait_for(lambda: len(list(folder.glob(f"*.{phase}"))) >= processes, f"{phase} has begun")


def executed(phase: str, folder: Path) -> set[str]:
    """The files below services of which a function ran in a phase, relative to the repository."""
    parts = [part.read_text().split("\n") for part in folder.glob(f"*.{phase}.files")]
    return {str(Path(file).relative_to(REPOSITORY)) for part in parts for file in part if file}
