"""A worker of servings for tests: the real job machine and relay, before an engine that is a
stand-in."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from services.contracts.jobs import JobError, JobKind, JobStatus
from services.contracts.serving import ServingResult
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.tables import JobRow
from services.evaluator.serve.activity import Activity
from services.evaluator.serve.adapters import Adapters
from services.evaluator.serve.engine import ServedEngine
from services.inference.relay import Destination, Relay
from services.inference.relay_protocol import RelayEndpoint, publish_endpoint, withdraw_endpoint
from services.inference.vllm.control import VllmControl
from services.inference.vllm.launch import AdapterSlots
from services.jobs.claims import Claim, Claimant, claim_work
from services.jobs.devices import HostDevices, release_devices
from services.jobs.job import Job
from services.jobs.queues import SERVE
from services.jobs.store import fail_job, get_job, move_job
from services.jobs.workers import heartbeat
from tests.support.engines.stand_in import KEY, EngineStandIn
from tests.support.threaded_server import LoopThread
from tests.support.waiting import wait_for


@dataclass
class RunningServing:
    """A claimed serving whose relay answers."""

    claim: Claim
    engine: EngineStandIn
    relay: Relay
    activity: Activity
    adapters: Adapters
    stack: AsyncExitStack


class ServingWorker:
    """Runs the servings of a gateway whose home is ``home``, one on each GPU and CPU slot."""

    def __init__(
        self, home: Path, loop: LoopThread, cpu_slots: int = 4, gpus: tuple[str, ...] = ()
    ) -> None:
        self.database = Database(f"sqlite:///{home / 'temper.db'}")
        self._devices = HostDevices("host", gpus, cpu_slots)
        self._artifacts = Artifacts(home)
        self._loop = loop
        self._started: list[RunningServing] = []
        with self.database.write() as session:
            heartbeat(session, "host:worker", list(SERVE.both), self._devices)

    def next_job(self) -> Job:
        """The serving that waits to be started, once there is one."""
        return wait_for(self._waiting, "a serving is queued", 60)

    def serve_next(self, slots: AdapterSlots | None = None, model: str = "base") -> RunningServing:
        """Start the next serving and let the gateway know."""
        claim = self.claim_next()
        engine = EngineStandIn(model)
        self._loop.run(engine.start())
        serving = self._loop.run(self._relay(claim, engine, slots))
        self.publish(serving)
        return serving

    def resume(self, lost: RunningServing, *, publish: bool = True) -> RunningServing:
        """Start the next epoch of a serving that was lost and queued again."""
        claim = self._claim()
        assert claim.job.id == lost.claim.job.id
        engine = EngineStandIn()
        self._loop.run(engine.start())
        serving = self._loop.run(self._relay(claim, engine, None))
        if publish:
            self.publish(serving)
        return serving

    def wait_until(self, probe: Callable[[], bool]) -> bool:
        """Wait for a condition."""
        return wait_for(probe, "the condition holds", 60)

    def claim_next(self) -> Claim:
        """Claim the next serving, as a worker does whose engine is starting."""
        job = self.next_job()
        with self.database.write() as session:
            move_job(session, job, JobStatus.QUEUED, "valid")
        return self._claim()

    def _claim(self) -> Claim:
        with self.database.write() as session:
            claimant = Claimant("host:worker", self._devices, 600.0)
            claim = claim_work(session, [SERVE.work], claimant, ())
        assert claim is not None
        self._artifacts.job(claim.job.id).mkdir(parents=True, exist_ok=True)
        return claim

    def publish(self, serving: RunningServing) -> None:
        """Write where the relay is."""
        job, relay = serving.claim.job, serving.relay
        endpoint = RelayEndpoint(epoch=job.epoch, url=relay.url, secret=relay.secret)
        publish_endpoint(self._artifacts.job(job.id), endpoint)

    def withdraw(self, serving: RunningServing) -> None:
        """Take that back."""
        withdraw_endpoint(self._artifacts.job(serving.claim.job.id))

    def kill(self, serving: RunningServing) -> None:
        """End engine and relay at once; the job and the endpoint stay as they are."""
        self._loop.run(serving.engine.stop())
        self._loop.run(serving.stack.aclose())

    def succeed(self, serving: RunningServing, *, outgrown: bool = False) -> None:
        """Record the end of a serving that has left."""
        result = ServingResult(requests=1, reason="idle", outgrown=outgrown)
        with self.database.write() as session:
            job = get_job(session, serving.claim.job.id)
            release_devices(session, job.id, job.epoch)
            move_job(session, job, JobStatus.SUCCEEDED, "left", result=result.model_dump())

    def fail(self, claim: Claim, message: str) -> None:
        """Record that an engine did not start."""
        with self.database.write() as session:
            error = JobError(code="engine_start_failed", message=message)
            fail_job(session, get_job(session, claim.job.id), error)
            release_devices(session, claim.job.id, claim.job.epoch)

    def close(self) -> None:
        """End what runs."""
        for serving in self._started:
            self.kill(serving)
        self.database.close()

    def jobs(self) -> list[JobRow]:
        """All servings, oldest first."""
        with self.database.read() as session:
            return list(session.scalars(select(JobRow).order_by(JobRow.seq)))

    async def _relay(
        self, claim: Claim, engine: EngineStandIn, slots: AdapterSlots | None
    ) -> RunningServing:
        stack = AsyncExitStack()
        control = await stack.enter_async_context(VllmControl(f"{engine.url}/v1", KEY))
        links = self._artifacts.job(claim.job.id) / "adapters"
        activity, adapters = Activity(), Adapters(control, slots, links)
        served = ServedEngine(Destination(engine.url, KEY), adapters, activity)
        relay = Relay(served, "127.0.0.1")
        await stack.enter_async_context(relay)
        serving = RunningServing(claim, engine, relay, activity, adapters, stack)
        self._started.append(serving)
        return serving

    def _waiting(self) -> Job | None:
        with self.database.read() as session:
            found = session.scalar(
                select(JobRow.id).where(
                    JobRow.status == JobStatus.VALIDATING_FILES.value,
                    JobRow.kind == JobKind.SERVE.value,
                )
            )
            return get_job(session, found) if found is not None else None
