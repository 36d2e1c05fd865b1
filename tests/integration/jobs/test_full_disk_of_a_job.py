"""A disk that fills up while a job works is the cause that the job names."""

import subprocess
import sys
from pathlib import Path

from services.core.process.runtimes import REPOSITORY
from tests.support.small_disk import IN_A_SMALL_FILE_SYSTEM, require_mounts

CHILD = """
import sys
from pathlib import Path
from services.core.process.reporter import Reporter
reporter = Reporter(Path.cwd())
try:
    with open("checkpoint", "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
except OSError as error:
    reporter.fail("storage_full", str(error))
"""
"""Fills the disk so that not even its result can be written."""

WORKER = """
import sys
from pathlib import Path
from services.core.db.engine import Database
from services.core.db.migrate import migrate
from services.core.process.supervised import lease_clock
from services.jobs.worker.handler import Launch
from services.jobs.worker.run import ClaimRun
from services.jobs.worker.settings import WorkerSettings
from services.jobs.worker.shutdown import Shutdown
from tests.unit.jobs.machine import claim, cpu_worker, queued_job, read

class Handler:
    def work(self, *_):
        return Launch([sys.executable, "-c", sys.argv[3]])

database = Database(f"sqlite:///{sys.argv[1]}")
migrate(database)
queued_job(database)
held = claim(database, cpu_worker())
ClaimRun(held, deadline=lease_clock() + 600, database=database, handler=Handler(),
         settings=WorkerSettings(home=Path(sys.argv[2])), job_dir=Path(sys.argv[2]) / "job",
         notes=Path(sys.argv[2]) / "notes",
         stopping=Shutdown()).run()
job = read(database, held.job.id)
print(job.status.value, job.attempt, job.error.code, job.error.hint)
database.close()
"""


def test_a_job_that_fills_the_disk_fails_at_once_naming_it(tmp_path: Path) -> None:
    require_mounts()
    home = tmp_path / "home"
    home.mkdir()
    mount = f"mount -t tmpfs -o size=1m tmpfs {home}"

    worker = [sys.executable, "-c", WORKER, str(tmp_path / "temper.db"), str(home), CHILD]

    run = subprocess.run(
        [*IN_A_SMALL_FILE_SYSTEM, f'{mount}; exec "$@"', "sh", *worker],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.stdout.startswith("failed 1 storage_full Delete finished jobs"), run.stderr
