"""How a serving is started: by its request and by the adapters of its model."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from services.contracts.jobs import JobKind
from services.contracts.serving import CreateServing
from services.core.db.engine import Database
from services.core.db.tables import ModelRow
from services.evaluator.serve.handler import ServeHandler
from services.evaluator.serve.spec import SPEC, ServeSpec
from services.inference.relay_protocol import is_kept_warm
from services.jobs.claims import Claim, ClaimStage
from services.jobs.devices import HostDevices
from services.jobs.job import NewJob
from services.jobs.queues import SERVE
from services.jobs.store import create_job
from services.jobs.worker.settings import WorkerSettings
from services.jobs.workers import heartbeat
from tests.support.runtime.stand_in import add_runtime


@pytest.fixture
def settings(tmp_path: Path, database: Database) -> WorkerSettings:
    """A home with a base, two adapters of it, and one that must be merged."""
    add_runtime(tmp_path / "runtimes", "vllm")
    add(database, tmp_path, "base", None, {})
    add(database, tmp_path, "small", "base", {"r": 8})
    add(database, tmp_path, "large", "base", {"r": 16, "rank_pattern": {"q_proj": 32}})
    return WorkerSettings(home=tmp_path, runtimes=tmp_path / "runtimes")


def add(
    database: Database, home: Path, name: str, base: str | None, config: dict[str, Any]
) -> None:
    folder = home / "models" / name
    folder.mkdir(parents=True)
    (folder / ("adapter_config.json" if base else "config.json")).write_text(json.dumps(config))
    with database.write() as session:
        session.add(
            ModelRow(
                id=name,
                kind="adapter" if base else "full",
                base=base,
                folder=name,
                created_at=time.time(),
            )
        )


def spec_of(database: Database, settings: WorkerSettings, **fields: Any) -> ServeSpec:
    request = CreateServing(**{"model": "base", **fields})
    with database.write() as session:
        job = create_job(session, NewJob.of(JobKind.SERVE, request, 0))
    folder = settings.home / "jobs" / job.id
    folder.mkdir(parents=True)
    launch = ServeHandler(settings).work(
        database, Claim(job, ClaimStage.WORK, ("cpu-host-0",)), folder
    )
    assert launch.yields
    assert is_kept_warm(folder) is bool(fields.get("keep_warm"))
    return ServeSpec.model_validate_json((folder / SPEC).read_bytes())


def test_an_engine_has_room_for_the_largest_adapter_of_its_model(
    database: Database, settings: WorkerSettings
) -> None:
    spec = spec_of(database, settings, keep_warm=True)

    assert (spec.name, spec.model.adapter) == ("base", None)
    assert (spec.adapter_rank, spec.adapters) == (32, settings.serving_adapters)
    assert spec.routes.guarded


def test_an_engine_has_no_room_for_adapters_that_are_merged(
    database: Database, settings: WorkerSettings
) -> None:
    with database.write() as session:
        heartbeat(session, "plain", list(SERVE.both), HostDevices("plain", (), cpu_slots=1))

    assert spec_of(database, settings).slots is None


def test_a_model_without_adapters_is_served_without_room_for_any(
    database: Database, settings: WorkerSettings, tmp_path: Path
) -> None:
    add(database, tmp_path, "lonely", None, {})

    spec = spec_of(database, settings, model="lonely", idle_seconds=7)

    assert (spec.slots, spec.idle_seconds) == (None, 7.0)


def test_the_request_may_fix_the_rank(database: Database, settings: WorkerSettings) -> None:
    assert spec_of(database, settings, engine={"max_lora_rank": 64}).adapter_rank == 64
