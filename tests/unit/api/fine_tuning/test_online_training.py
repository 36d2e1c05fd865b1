"""Validation of online training requests before a job is created."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from services.api.fine_tuning.service import create_fine_tuning_job
from services.api.models.service import remove_model
from services.api.settings import ApiSettings
from services.contracts.errors import Conflict, InvalidRequest, PermissionDenied, TemperError
from services.contracts.training.fine_tuning import CreateFineTuningJob
from services.contracts.training.online import ReinforcementHyperparameters
from services.contracts.training.optimizer import OptimizerSettings
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.tables import FileRow, ModelRow
from services.jobs.events import events_after
from services.jobs.job import Job

SETTINGS = ApiSettings(allowed_endpoints=["http://127.0.0.1:9000"])
REWARDS = [{"name": "answer", "reward": {"type": "retool"}}]
TEACHER = {"type": "model", "model": "base"}


@pytest.fixture
def registry(database: Database) -> Database:
    with database.write() as session:
        session.add(ModelRow(id="base", kind="full", folder="base", created_at=0.0))
        session.add(
            FileRow(
                id="file-1",
                filename="prompts.jsonl",
                purpose="fine-tune",
                bytes=1,
                sha256="0" * 64,
                created_at=0.0,
            )
        )
    return database


def create(database: Database, method: str, **fields: Any) -> Job:
    """Create a job of a method; ``hyperparameters`` and ``rewards`` override the defaults."""
    api = fields.pop("api", SETTINGS)
    settings: dict[str, Any] = {"hyperparameters": fields.pop("hyperparameters", {})}
    if method != "distillation":
        settings["rewards"] = fields.pop("rewards", REWARDS)
    request = {
        "model": "base",
        "training_file": "file-1",
        "method": {"type": method, method: settings},
        **fields,
    }
    body = CreateFineTuningJob.model_validate(request)
    with database.write() as session:
        return create_fine_tuning_job(session, body, api)


@pytest.mark.parametrize(
    ("method", "hyperparameters"),
    [
        ("reinforcement", {}),
        ("ppo", {"epochs": 2, "mini_batches": 4}),
        ("distillation", {"teacher": TEACHER}),
        (
            "distillation",
            {"teacher": {**TEACHER, "type": "url", "base_url": "http://127.0.0.1:9000/v1"}},
        ),
        (
            "reinforcement",
            {
                "tools": [{"class_name": "sandbox"}],
                "multi_turn": {"multi_turn_enable": True, "max_total_response_length": 2048},
                "dynamic_sampling": {},
                "overlong": {},
                "max_staleness": 2,
            },
        ),
    ],
)
def test_jobs_of_online_methods_are_queued_with_their_settings(
    registry: Database, method: str, hyperparameters: dict[str, Any]
) -> None:
    job = create(registry, method, hyperparameters=hyperparameters)
    kept = job.request["method"][method]["hyperparameters"]
    assert kept["steps"] == 100
    for name, value in hyperparameters.items():
        assert kept[name] == value or isinstance(value, dict | list)


TOOL = {"class_name": "sandbox"}
EXACT: dict[str, Any] = {"exact_on_policy": True}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("reinforcement", {"sampling": {"top_p": 0.9}}, "sampling.top_p"),
    ("ppo", {"sampling": {"top_k": 20}}, "sampling.top_k"),
    ("reinforcement", {"sampling": {"temperature": 0.0}}, "sampling.temperature"),
    ("reinforcement", {"sampling": {"temperature": 1e-300}}, "sampling.temperature"),
    ("ppo", {"optimizer": {"lora": {"dropout": 0.1}}}, "optimizer.lora.dropout"),
    ("reinforcement", {"prompts_per_step": 65_536}, "prompts_per_step"),
    ("reinforcement", {"tools": [TOOL]}, "multi_turn.multi_turn_enable"),
    (
        "reinforcement",
        {"multi_turn": {"multi_turn_enable": True, "async_engine": False}},
        "multi_turn.async_engine",
    ),
    (
        "reinforcement",
        {"multi_turn": {"multi_turn_enable": True, "max_total_response_length": 10}},
        "multi_turn.max_total_response_length",
    ),
    (
        "reinforcement",
        {"multi_turn": {"tool_parser_format": "unheard-of"}},
        "multi_turn.tool_parser_format",
    ),
    ("reinforcement", {"placement": {"sleep": True}, "max_staleness": 1}, "placement.sleep"),
    ("reinforcement", {"mini_batches": 257}, "mini_batches"),
    ("reinforcement", {"overlong": {"buffer": 2000}}, "overlong.buffer"),
    ("distillation", {"teacher": {"type": "model", "model": "unknown"}}, "teacher.model"),
    (
        "distillation",
        {
            "teacher": {"type": "url", "base_url": "http://127.0.0.1:9000/v1", "model": "t"},
            "temperature": 2.0,
        },
        "temperature",
    ),
    ("reinforcement", {"tools": [{"class_name": "unheard.Of"}]}, "tools[0].class_name"),
    ("reinforcement", {"optimizer": {"lora": {"rank": 4}}}, "optimizer.lora"),
    ("ppo", {"critic": {"coefficient": 0.1}}, "critic.coefficient"),
    ("ppo", {"loss": {"objective": "kl_cov", "dual_clip": 3.0}}, "loss.dual_clip"),
    ("reinforcement", {"advantage": "max_rl", "overlong": {}}, "overlong"),
    ("ppo", EXACT | {"max_staleness": 1}, "max_staleness"),
    (
        "reinforcement",
        EXACT | {"optimizer": {"training_type": "lora"}},
        "optimizer.training_type",
    ),
    ("reinforcement", EXACT | {"engine": {"dtype": "bfloat16"}}, "engine.dtype"),
    ("reinforcement", EXACT | {"engine": {"speculation": {}}}, "engine.speculation"),
    ("ppo", EXACT | {"optimizer": {"dtype": "bfloat16"}}, "optimizer.dtype"),
]


@pytest.mark.parametrize(("method", "hyperparameters", "field"), REFUSED)
def test_invalid_settings_are_rejected_by_field(
    registry: Database, method: str, hyperparameters: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidRequest) as raised:
        create(registry, method, hyperparameters=hyperparameters)
    assert raised.value.param == f"method.{method}.hyperparameters.{field}"


@pytest.mark.parametrize(
    ("method", "fields", "param"),
    [
        (
            "distillation",
            {
                "hyperparameters": {
                    "teacher": {"type": "url", "base_url": "http://10.0.0.1/v1", "model": "t"}
                }
            },
            "method.distillation.hyperparameters.teacher.base_url",
        ),
        (
            "ppo",
            {
                "rewards": [
                    {"name": "r", "reward": {"type": "http", "url": "http://10.0.0.1/score"}}
                ]
            },
            "method.ppo.rewards[0].reward.url",
        ),
        (
            "reinforcement",
            {
                "hyperparameters": {
                    "multi_turn": {"multi_turn_enable": True, "max_total_response_length": 2048},
                    "tools": [
                        {
                            "class_name": "sandbox",
                            "config": {"sandbox_fusion_url": "http://10.0.0.1/run_code"},
                        }
                    ],
                }
            },
            "method.reinforcement.hyperparameters.tools[0].config.sandbox_fusion_url",
        ),
    ],
)
def test_origins_not_allowed_by_the_operator_are_rejected(
    registry: Database, method: str, fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(PermissionDenied) as raised:
        create(registry, method, **fields)
    assert raised.value.param == param


def test_a_validation_file_may_be_any_uploaded_file(registry: Database) -> None:
    job = create(registry, "ppo", validation_file="file-1", hyperparameters={"eval_samples": 4})
    assert job.request["validation_file"] == "file-1"
    with pytest.raises(TemperError) as raised:
        create(registry, "ppo", validation_file="file-2")
    assert raised.value.param == "validation_file"


def test_hub_datasets_are_rejected(registry: Database) -> None:
    for field in ("training_file", "validation_file"):
        with pytest.raises(TemperError) as raised:
            create(registry, "reinforcement", **{field: "hf://datasets/owner/name"})
        assert raised.value.param == field


@pytest.mark.parametrize(
    "settings", [{"prompts_per_step": 10**9}, {"steps": 10**30}, {"max_prompt_length": 10**30}]
)
def test_absurdly_large_numbers_are_rejected(settings: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        ReinforcementHyperparameters.model_validate(settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimisation": {"learning_rate": 1e-6}}, "optimisation has been renamed to optimizer"),
        ({"loss": {"importance_cap": 2.0}}, "importance_cap has been renamed to tis_cap"),
    ],
)
def test_a_retired_field_name_is_rejected_with_the_new_name(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        ReinforcementHyperparameters.model_validate(settings)


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_zero_stage_without_deepspeed_is_rejected(strategy: str) -> None:
    with pytest.raises(ValidationError, match="zero_stage requires the strategy deepspeed"):
        OptimizerSettings.model_validate({"strategy": strategy, "zero_stage": 3})


def test_requesting_more_trainer_gpus_than_available_is_rejected(registry: Database) -> None:
    placement = {"mode": "split", "trainer_gpus": 4}
    with pytest.raises(InvalidRequest) as raised:
        create(registry, "reinforcement", hyperparameters={"placement": placement}, gpus=4)
    assert raised.value.param == "method.reinforcement.hyperparameters.placement.trainer_gpus"


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("distillation", {"hyperparameters": {"teacher": {**TEACHER, "model": "other"}}}),
        (
            "reinforcement",
            {"rewards": [{"name": "it", "reward": {"type": "reward_model", "model": "other"}}]},
        ),
    ],
    ids=["teacher", "reward model"],
)
def test_a_teacher_cannot_be_deleted_during_a_job(
    registry: Database, tmp_path: Path, method: str, fields: dict[str, Any]
) -> None:
    with registry.write() as session:
        for name in ("other", "another"):
            session.add(ModelRow(id=name, kind="full", folder=name, created_at=0.0))
    create(registry, method, **fields)

    with registry.write() as session, pytest.raises(Conflict, match="still needs 'other'"):
        remove_model(session, Artifacts(tmp_path), "other")
    with registry.write() as session:
        remove_model(session, Artifacts(tmp_path), "another")


def test_tools_at_the_configured_gateway_origins_need_no_permission(
    registry: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = {"class_name": "sandbox", "config": {"sandbox_fusion_url": "http://gw:80/run_code"}}
    fields = {
        "tools": [tool],
        "multi_turn": {"multi_turn_enable": True, "max_total_response_length": 2048},
    }

    with pytest.raises(PermissionDenied):
        create(registry, "reinforcement", hyperparameters=fields)

    monkeypatch.setenv("TEMPER_GATEWAY_ORIGINS", "http://gw,http://localhost:8080")
    create(registry, "reinforcement", api=ApiSettings(), hyperparameters=fields)


def test_rewards_whose_weights_are_all_zero_are_rejected(registry: Database) -> None:
    rewards = [
        {"name": name, "weight": 0, "reward": {"type": "retool"}} for name in ("one", "other")
    ]

    with pytest.raises(InvalidRequest, match="weight") as caught:
        create(registry, "reinforcement", rewards=rewards)
    assert caught.value.param == "method.reinforcement.rewards"

    rewards[1]["weight"] = 1
    create(registry, "reinforcement", rewards=rewards)


def test_unusual_settings_add_warnings_to_the_first_events(
    registry: Database,
) -> None:
    conversation = {"tools": [{"class_name": "retool"}], "multi_turn": {"multi_turn_enable": True}}
    job = create(registry, "reinforcement", hyperparameters=conversation)

    with registry.read() as session:
        created, warning = events_after(session, job.id, 0, 10)

    assert created.message.startswith("Job created")
    assert warning.level == "warn"
    assert "prompt_type is plain" in warning.message


def test_exactness_is_refused_on_gpus(registry: Database) -> None:
    with pytest.raises(InvalidRequest) as raised:
        create(registry, "reinforcement", hyperparameters=EXACT, gpus=1)
    assert raised.value.param == "method.reinforcement.hyperparameters.exact_on_policy"
