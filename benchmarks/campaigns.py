"""Overhead of a campaign's loop, and its time to resume after a restart.

Prints the campaigns worker's CPU time per step of a campaign whose LLM, training and evaluations
are stubs in other processes, and the time during which none of its jobs was running; then the time
until a campaign with a thousand loops waits for its training again. Run from the repository root:

    python -m benchmarks.campaigns [loops]
"""

import sys
import tempfile
import time
from pathlib import Path

import psutil
from sqlalchemy import select

from services.campaigns.loop import advance
from services.campaigns.run.signals import Waiting
from services.contracts.campaigns.loops import StepName
from services.core.db.engine import Database
from services.core.db.migrate import migrate
from services.core.db.tables import JobRow
from tests.integration.campaigns.test_campaigns import BAD, Campaigns, Script, running_campaigns
from tests.support.campaigns.run import StoredCampaign, measured

LOOPS = 10
STEPS_OF_LOOP = 5
HISTORY = 1000
SECONDS = 1200.0


def main() -> None:
    """Run the benchmark."""
    loops = int(sys.argv[1]) if len(sys.argv) > 1 else LOOPS
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        restart(root / "restart")
        (root / "steps").mkdir()
        with running_campaigns(root / "steps") as campaigns:
            steps(campaigns, loops)


def restart(folder: Path) -> None:
    """Measure how fast a worker resumes a campaign whose last loop is training."""
    folder.mkdir()
    database = Database(f"sqlite:///{folder / 'temper.db'}")
    migrate(database)
    campaign = StoredCampaign(database, folder / "home")
    campaign.create(budget={"loops": HISTORY})
    campaign.step(0, StepName.BASE, measured("base", 2))
    for loop in range(1, HISTORY):
        campaign.measured_attempt(loop, 2)
        campaign.step(loop, StepName.FEEDBACK, {"accepted": loop % 100 == 0})
        campaign.step(loop, StepName.RECORD, {"best_loop": 0, "best_model": "base"})
    campaign.step(HISTORY, StepName.PROPOSAL, {"parent": 0, "hypothesis": "more sums"})
    campaign.step(HISTORY, StepName.CODING, {"script": "pass", "settings": "a: 1"})
    campaign.finished_script(HISTORY)
    campaign.training(HISTORY, "ftjob-1")
    begun = time.perf_counter()
    try:
        advance(campaign.run())
    except Waiting as waiting:
        seconds = time.perf_counter() - begun
        print(f"restart after {HISTORY - 1} loops: {seconds:.2f} s, then {waiting.reason}")
    else:
        raise RuntimeError("the campaign did not wait for its training")
    finally:
        database.close()


def steps(campaigns: Campaigns, loops: int) -> None:
    """Take all steps of a campaign; loops are rejected, so that each has every step."""
    campaigns.llm.answer = Script({loop: [BAD] for loop in range(1, loops + 1)})
    with campaigns.worker() as worker:
        process = psutil.Process(worker.pid)
        warm_up = campaigns.create(loops=1)  # exclude imports and first connections
        campaigns.client.wait_until(warm_up, "succeeded", SECONDS)
        before = process.cpu_times()
        campaign = campaigns.create(loops=loops)
        campaigns.client.wait_until(campaign, "succeeded", SECONDS)
        after = process.cpu_times()
    taken = 1 + STEPS_OF_LOOP * loops
    cpu = after.user + after.system - before.user - before.system
    alone = seconds_without_jobs(campaigns.folder / "home" / "temper.db", campaign)
    print(f"{taken} steps: {1000 * cpu / taken:.1f} ms of CPU and {alone / taken:.2f} s each")


def seconds_without_jobs(file: Path, campaign: str) -> float:
    """Return for how long a finished campaign ran without an unfinished job."""
    database = Database(f"sqlite:///{file}")
    with database.read() as session:
        own = session.scalars(select(JobRow).where(JobRow.id == campaign)).one()
        of_it = JobRow.labels["campaign"].as_string() == campaign
        jobs = session.scalars(select(JobRow).where(of_it).order_by(JobRow.created_at)).all()
        alone, at = 0.0, own.started_at or own.created_at
        for job in jobs:
            alone += max(0.0, job.created_at - at)
            at = max(at, job.finished_at or 0.0)
        alone += max(0.0, (own.finished_at or at) - at)
    database.close()
    return alone


if __name__ == "__main__":
    main()
