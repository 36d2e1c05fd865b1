"""The spec of an exporting child."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.contracts.errors import PermissionDenied
from services.contracts.jobs import JobKind
from services.contracts.models.jobs import CreateExport
from services.contracts.models.registered import Lineage
from services.core.db.engine import Database
from services.core.db.migrate import migrate
from services.core.db.tables import ModelRow
from services.jobs.claims import Claim, ClaimStage
from services.jobs.job import NewJob
from services.jobs.store import create_job
from services.jobs.worker.handler import Launch
from services.jobs.worker.settings import WorkerSettings
from services.trainer.exporting.handler import ExportHandler
from services.trainer.exporting.spec import SPEC, VARIABLE, Credentials, ExportSpec
from tests.support.runtime.stand_in import add_runtime

ADAPTER = "ft:base:temper:x:11111111"
KEYS = {"s3": {"key": "store-key"}, "gs": {"token": "other-key"}}


@pytest.fixture
def settings(tmp_path: Path) -> WorkerSettings:
    add_runtime(tmp_path / "runtimes", "training")
    (tmp_path / "models/base").mkdir(parents=True)
    (tmp_path / "exports").mkdir()
    return WorkerSettings.model_validate(
        {
            "home": tmp_path,
            "export_destinations": [str(tmp_path / "exports"), "s3://bucket"],
            "export_hub_token": "hub-key",
            "export_options": KEYS,
        }
    )


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'temper.db'}")
    migrate(database)
    (tmp_path / "models/adapter").mkdir(parents=True)
    lineage = Lineage(
        job_id="ftjob-1",
        parent="base",
        arguments={"model_name_or_path": "/srv/base", "lora_rank": 8},
        library_versions={},
    )
    with database.write() as session:
        session.add(ModelRow(id="base", kind="full", folder="base", created_at=0.0))
        session.add(
            ModelRow(
                id=ADAPTER,
                kind="adapter",
                base="base",
                folder="adapter",
                lineage=lineage.model_dump(mode="json"),
                created_at=0.0,
            )
        )
    yield database
    database.close()


def launch(database: Database, settings: WorkerSettings, destination: str) -> Launch:
    request = CreateExport(model=ADAPTER, destination=destination, gpus=0)
    with database.write() as session:
        new = NewJob.of(JobKind.EXPORT, request, 0)
        job = create_job(session, new)
    claim = Claim(job, ClaimStage.WORK, ("cpu-host-0",))
    return ExportHandler(settings).work(database, claim, settings.home)


def test_an_adapter_is_exported_with_its_lineage_but_no_paths_of_this_host(
    database: Database, settings: WorkerSettings
) -> None:
    launch(database, settings, "s3://bucket/x")

    spec = ExportSpec.model_validate_json((settings.home / SPEC).read_bytes())
    assert spec.folder == settings.home / "models/adapter"
    assert (spec.base, spec.about["id"]) == ("base", ADAPTER)
    assert spec.about["lineage"]["arguments"] == {"lora_rank": 8}


def test_credentials_are_only_in_the_childs_environment(
    database: Database, settings: WorkerSettings
) -> None:
    launched = launch(database, settings, "s3://bucket/x")

    environment = dict(launched.environment)
    credentials = Credentials.take_from(environment)
    assert (credentials.hub_token, credentials.options) == ("hub-key", {"key": "store-key"})
    assert VARIABLE not in environment
    written = (settings.home / SPEC).read_text() + " ".join(launched.command)
    assert "hub-key" not in written
    assert "store-key" not in written
    assert credentials.hide_in("GET ?key=store-key refused") == "GET ?key=*** refused"


def test_a_link_out_of_the_allowed_folder_is_refused(
    database: Database, settings: WorkerSettings
) -> None:
    (settings.home / "exports/link").symlink_to(settings.home)

    with pytest.raises(PermissionDenied, match="TEMPER_EXPORT_DESTINATIONS"):
        launch(database, settings, f"{settings.home}/exports/link/x")
