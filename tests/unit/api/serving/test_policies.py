"""The policy of a running online training, queried by the name of its job."""

from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from sqlalchemy import update

from services.contracts.jobs import JobStatus
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.tables import JobRow
from services.inference.relay import Destination, Relay
from services.inference.relay_protocol import RelayEndpoint, ServedAdapter, publish_endpoint
from services.jobs.job import Job, NewJob
from services.jobs.queues import TRAINING
from services.jobs.store import create_job
from tests.support.engines.stand_in import KEY, EngineStandIn
from tests.support.threaded_server import LoopThread

STEP_SECONDS = 60.0
EPOCH = 2
REINFORCEMENT = {
    "type": "reinforcement",
    "reinforcement": {"rewards": [{"name": "r", "reward": {"type": "search_em"}}]},
}


class Policy:
    """An engine behind a relay, which calls its model ``policy``."""

    def __init__(self, url: str) -> None:
        self._destination = Destination(url, KEY, {"model": "policy", "priority": 1})

    @asynccontextmanager
    async def using(self, adapter: ServedAdapter | None) -> AsyncIterator[Destination]:
        assert adapter is None
        yield self._destination


class Trainings:
    """Jobs of a gateway whose home is ``home``, in the states that tests need."""

    def __init__(self, home: Path, loop: LoopThread) -> None:
        self._database = Database(f"sqlite:///{home / 'temper.db'}")
        self._artifacts = Artifacts(home)
        self._loop = loop
        self._engine = EngineStandIn("policy")
        self._relay: Relay | None = None

    def running(self, method: object = REINFORCEMENT, status: str = "running") -> Job:
        """A training in this status."""
        request = {"model": "base", "training_file": "file-1", "method": method}
        with self._database.write() as session:
            new = NewJob(
                "ftjob-" + "0" * 24, "fine_tuning", TRAINING.work, TRAINING.validation, request
            )
            job = create_job(session, new)
            row = update(JobRow).where(JobRow.id == job.id)
            session.execute(row.values(status=status, epoch=EPOCH))
        return job

    def open(self, job: Job, epoch: int = EPOCH) -> EngineStandIn:
        """Publish the relay of a training."""
        self._loop.run(self._engine.start())
        self._relay = Relay(Policy(self._engine.url), "127.0.0.1")
        self._loop.run(self._relay.__aenter__())
        folder = self._artifacts.job(job.id)
        folder.mkdir(parents=True)
        endpoint = RelayEndpoint(epoch=epoch, url=self._relay.url, secret=self._relay.secret)
        publish_endpoint(folder, endpoint)
        return self._engine

    def finish(self, job: Job, model: str) -> None:
        """Finish a training successfully."""
        with self._database.write() as session:
            row = update(JobRow).where(JobRow.id == job.id)
            session.execute(row.values(status="succeeded", result={"fine_tuned_model": model}))

    def close(self) -> None:
        """Stop all relays and engines."""
        if self._relay is not None:
            self._loop.run(self._relay.__aexit__())
        self._loop.run(self._engine.stop())
        self._database.close()


@pytest.fixture
def trainings(url: str, home: Path) -> Iterator[Trainings]:
    assert url
    with LoopThread() as loop:
        trainings = Trainings(home, loop)
        yield trainings
        trainings.close()


def ask(client: openai.OpenAI, job_id: str, prompt: str = "hello") -> str | None:
    message: Any = {"role": "user", "content": prompt}
    first: Any = {"priority": -1}
    answer = client.chat.completions.create(
        model=f"run:{job_id}", messages=[message], extra_body=first
    )
    return answer.choices[0].message.content


def test_the_policy_answers_while_it_is_trained(
    trainings: Trainings, client: openai.OpenAI
) -> None:
    job = trainings.running()
    engine = trainings.open(job)

    assert ask(client, job.id) == "echo: hello"

    assert [(body["model"], body["priority"]) for body in engine.bodies] == [("policy", 1)]
    assert engine.keys == {f"Bearer {KEY}"}


def test_a_request_waits_until_the_training_samples(
    trainings: Trainings,
    client: openai.OpenAI,
    meanwhile: Callable[[Callable[[], Any]], Future[Any]],
) -> None:
    job = trainings.running()
    early = meanwhile(lambda: ask(client, job.id))

    trainings.open(job)

    assert early.result(STEP_SECONDS) == "echo: hello"


@pytest.mark.parametrize("settings", [{"serving_wait_seconds": 0.1}])
def test_the_engine_of_an_earlier_attempt_is_not_used(
    trainings: Trainings, client: openai.OpenAI
) -> None:
    job = trainings.running()
    engine = trainings.open(job, epoch=EPOCH - 1)

    with pytest.raises(openai.InternalServerError, match="its training is starting"):
        ask(client, job.id)

    assert engine.bodies == []


def test_after_the_training_the_answer_names_its_model(
    trainings: Trainings, client: openai.OpenAI
) -> None:
    job = trainings.running()
    trainings.finish(job, "ft:base:temper::1")

    with pytest.raises(openai.ConflictError, match="its model is 'ft:base:temper::1'") as refused:
        ask(client, job.id)

    assert refused.value.code == "training_ended"


def test_requests_do_not_wait_for_a_paused_training(
    trainings: Trainings, client: openai.OpenAI
) -> None:
    job = trainings.running(status=JobStatus.PAUSED.value)

    with pytest.raises(openai.ConflictError, match="is paused; resume it"):
        ask(client, job.id)


def test_only_an_online_training_has_a_policy(trainings: Trainings, client: openai.OpenAI) -> None:
    job = trainings.running(method={"type": "supervised"})

    with pytest.raises(openai.BadRequestError, match="is not an online training"):
        ask(client, job.id)
    with pytest.raises(openai.NotFoundError, match="no training 'ftjob-none'"):
        ask(client, "ftjob-none")


def test_the_names_of_policies_are_reserved(url: str) -> None:
    taken = httpx.post(f"{url}/v1/models", json={"id": "run:ftjob-1", "folder": "base"}, timeout=60)

    assert taken.status_code == 400
