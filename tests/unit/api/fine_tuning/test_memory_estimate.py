"""A fine-tune that cannot fit on any GPU is rejected when it is created."""

import json
from pathlib import Path
from typing import Any

import pytest

from services.api.fine_tuning.memory import estimate_memory
from services.api.settings import ApiSettings
from services.contracts.errors import InvalidRequest
from services.contracts.training.fine_tuning import CreateFineTuningJob, MemoryEstimate
from services.core.db.engine import Database
from services.core.db.tables import ModelRow
from services.jobs.devices import HostDevices
from services.jobs.workers import heartbeat
from tests.unit.models.test_shape import LLAMA_3_8B

GIGABYTE = 10**9


def with_gpus(database: Database, *gigabytes: int) -> None:
    names = tuple(f"GPU-{number}" for number, _ in enumerate(gigabytes))
    devices = HostDevices("host", names, 1, tuple(size * GIGABYTE for size in gigabytes))
    with database.write() as session:
        heartbeat(session, "host:1", ["training"], devices)


@pytest.fixture
def settings(database: Database, tmp_path: Path) -> ApiSettings:
    folder = tmp_path / "models" / "llama"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(LLAMA_3_8B))
    with database.write() as session:
        session.add(ModelRow(id="llama", kind="full", folder="llama", created_at=0.0))
        session.add(ModelRow(id="distant", kind="full", hub_id="owner/name", created_at=0.0))
    return ApiSettings(home=tmp_path)


def estimated(
    database: Database, settings: ApiSettings, training_type: str = "lora", **fields: Any
) -> MemoryEstimate | None:
    method = {"type": "dpo", "dpo": {"hyperparameters": {"training_type": training_type}}}
    body = {"model": "llama", "training_file": "file-1", "method": method, **fields}
    with database.read() as session:
        return estimate_memory(session, CreateFineTuningJob.model_validate(body), settings)


def test_a_training_that_fits_is_shown_with_its_estimate(
    database: Database, settings: ApiSettings
) -> None:
    with_gpus(database, 24, 80)

    found = estimated(database, settings)

    assert found is not None
    assert (found.parameters, found.card_gb, found.fits) == (8_030_261_248, 80.0, True)


def test_a_training_that_fits_on_no_gpu_is_rejected_with_numbers_and_a_remedy(
    database: Database, settings: ApiSettings
) -> None:
    with_gpus(database, 24, 80, 80)

    with pytest.raises(InvalidRequest) as caught:
        estimated(database, settings, "full", gpus=2)

    assert (caught.value.code, caught.value.param) == ("insufficient_memory", "model")
    assert "the largest GPU has 80.0 GB. It fits with per_device_train_batch_size: 1 and " in (
        caught.value.message
    )


def test_without_a_known_gpu_the_estimate_is_shown_if_gpus_are_requested(
    database: Database, settings: ApiSettings
) -> None:
    found = estimated(database, settings, "full", gpus=1)

    assert found is not None
    assert (found.card_gb, found.fits) == (None, None)


@pytest.mark.parametrize("fields", [{"gpus": 0}, {"gpus": None}, {"gpus": 1, "model": "distant"}])
def test_what_cannot_be_estimated_is_not_rejected(
    database: Database, settings: ApiSettings, fields: dict[str, Any]
) -> None:
    assert estimated(database, settings, **fields) is None


def test_a_model_whose_configuration_is_damaged_is_not_estimated(
    database: Database, settings: ApiSettings, tmp_path: Path
) -> None:
    (tmp_path / "models" / "llama" / "config.json").write_text("[")

    assert estimated(database, settings, gpus=1) is None


def reinforcement(**hyperparameters: Any) -> dict[str, Any]:
    rewards = [{"name": "answer", "reward": {"type": "retool"}}]
    content = {"rewards": rewards, "hyperparameters": hyperparameters}
    return {"type": "reinforcement", "reinforcement": content}


def test_an_online_training_is_estimated_for_its_learner(
    database: Database, settings: ApiSettings
) -> None:
    with_gpus(database, 80)

    found = estimated(database, settings, method=reinforcement(optimizer={"training_type": "lora"}))

    assert found is not None
    assert (found.trained_parameters, found.card_gb, found.fits) == (20_971_520, 80.0, True)


def test_online_training_without_enough_memory_beside_its_engine_is_rejected(
    database: Database, settings: ApiSettings
) -> None:
    with_gpus(database, 80)

    with pytest.raises(InvalidRequest) as caught:
        estimated(database, settings, method=reinforcement(), gpus=1)

    assert (caught.value.code, caught.value.param) == ("insufficient_memory", "model")
    assert "has 80.0 GB, of which its engine leaves 40.0 GB" in caught.value.message


def test_sharding_of_the_learner_counts_in_the_estimate(
    database: Database, settings: ApiSettings
) -> None:
    with_gpus(database, *[80] * 8)
    method = reinforcement(optimizer={"strategy": "fsdp"})

    found = estimated(database, settings, method=method, gpus=8)  # four for the learner

    assert found is not None
    assert found.base_gb == pytest.approx(8.030261248 * 18 / 4, abs=0.001)
    with pytest.raises(InvalidRequest, match=r"needs about \d+\.\d GB"):
        estimated(database, settings, method=method, gpus=4)
