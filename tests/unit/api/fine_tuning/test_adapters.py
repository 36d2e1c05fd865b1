"""What a training that goes on with an adapter may ask for."""

import json
from pathlib import Path
from typing import Any

import pytest

from services.api.fine_tuning.adapters import with_own_adapter
from services.api.fine_tuning.service import create_fine_tuning_job, fine_tuning_view
from services.api.settings import ApiSettings
from services.contracts.errors import InvalidRequest
from services.contracts.training.fine_tuning import CreateFineTuningJob, Method
from services.core.artifacts import ModelSource
from services.core.db.engine import Database
from services.core.db.tables import FileRow, ModelRow
from services.jobs.devices import HostDevices
from services.jobs.workers import heartbeat
from services.models.registry import ResolvedModel
from tests.unit.models.test_shape import LLAMA_3_8B

CONFIG: dict[str, Any] = {
    "peft_type": "LORA",
    "r": 64,
    "lora_alpha": 32,
    "lora_dropout": 0.1,
    "target_modules": ["q_proj", "v_proj"],
    "modules_to_save": None,
    "use_dora": False,
}
OWN = {"rank": 64, "alpha": 32, "dropout": 0.1, "target_modules": ["q_proj", "v_proj"]}
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def adapter(folder: Path, **changes: Any) -> ResolvedModel:
    """An adapter over a model of which only the sizes are known."""
    for name, file, content in (
        ("base", "config.json", LLAMA_3_8B),
        ("adapter", "adapter_config.json", CONFIG | changes),
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / file).write_text(json.dumps(content))
    weights = ModelSource(path=folder / "base")
    return ResolvedModel("ft:mine", "base", weights, adapter=folder / "adapter")


def offline(kind: str = "supervised", **settings: Any) -> Method:
    return Method.model_validate({"type": kind, kind: {"hyperparameters": settings}})


def online(training_type: str = "lora", **lora: Any) -> Method:
    optimizer = {"training_type": training_type, "lora": lora}
    rewards = [{"name": "rule", "reward": {"type": "retool"}}]
    content = {"rewards": rewards, "hyperparameters": {"optimizer": optimizer}}
    return Method.model_validate({"type": "reinforcement", "reinforcement": content})


def arguments(**given: Any) -> Method:
    return offline(llamafactory=given)


REFUSED: list[tuple[Method, str, dict[str, Any], str]] = [
    (offline(lora={"rank": 16}), "lora.rank", {}, "lora_rank 64"),
    (offline("dpo", lora={"alpha": 64}), "lora.alpha", {}, "lora_alpha 32"),
    (offline("kto", lora={"dropout": 0.2}), "lora.dropout", {}, "lora_dropout 0.1"),
    (
        offline(lora={"target_modules": ["q_proj"]}),
        *("lora.target_modules", {}, "lora_target q_proj,v_proj"),
    ),
    (arguments(lora_rank=8), "llamafactory.lora_rank", {}, "lora_rank 64"),
    (arguments(lora_dropout=0), "llamafactory.lora_dropout", {}, "lora_dropout 0.1"),
    (arguments(lora_target="all"), "llamafactory.lora_target", {}, "lora_target q_proj,v_proj"),
    (arguments(use_dora=True), "llamafactory.use_dora", {}, "without use_dora"),
    (arguments(use_dora=False), "llamafactory.use_dora", {"use_dora": True}, "use_dora True"),
    (arguments(use_rslora=True), "llamafactory.use_rslora", {}, "without use_rslora"),
    (arguments(pissa_init=True), "llamafactory.pissa_init", {}, "without pissa_init"),
    (
        arguments(additional_target="embed_tokens"),
        *("llamafactory.additional_target", {"modules_to_save": ["lm_head"]}, "lm_head"),
    ),
    (online(rank=16), "optimizer.lora.rank", {}, "lora_rank 64"),
    (online(target_modules=["o_proj"]), "optimizer.lora.target_modules", {}, "q_proj,v_proj"),
]


@pytest.mark.parametrize(("method", "field", "changes", "own"), REFUSED)
def test_a_setting_that_the_adapter_has_not_is_refused_by_name(
    method: Method, field: str, changes: dict[str, Any], own: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidRequest, match=own) as refused:
        with_own_adapter(method, adapter(tmp_path, **changes))

    assert refused.value.param == f"method.{method.type.value}.hyperparameters.{field}"


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        (offline(), {}),
        (offline(lora={"rank": 8}), {}),  # as clients send defaults
        (offline(lora=OWN), {}),
        (arguments(lora_rank=64, lora_alpha=32, lora_target="v_proj, q_proj"), {}),
        (arguments(use_dora=False, pissa_init=False, lora_rank=None), {}),
        (arguments(use_dora=True), {"use_dora": True}),
        (arguments(additional_target="lm_head"), {"modules_to_save": ["lm_head"]}),
    ],
)
def test_what_the_adapter_has_is_what_the_job_states(
    method: Method, changes: dict[str, Any], tmp_path: Path
) -> None:
    filled = with_own_adapter(method, adapter(tmp_path, **changes))

    assert filled.as_offline.lora.model_dump() == OWN
    assert with_own_adapter(filled, adapter(tmp_path / "again", **changes)) == filled


def test_all_targets_are_those_of_an_adapter_of_all_linear_modules(tmp_path: Path) -> None:
    method = arguments(lora_target="all")

    filled = with_own_adapter(method, adapter(tmp_path, target_modules=ALL))

    assert filled.as_offline.lora.target_modules == sorted(ALL)


def test_online_training_states_the_adapter_without_its_dropout(tmp_path: Path) -> None:
    filled = with_own_adapter(online(), adapter(tmp_path))

    assert filled.online is not None
    lora = filled.online.hyperparameters.optimizer.lora
    assert lora.model_dump() == OWN | {"dropout": 0.0}


@pytest.mark.parametrize(
    "changes",
    [
        {"r": 1024, "target_modules": r".*\.q_proj", "lora_alpha": 11.3},
        {"peft_type": "IA3", "r": None},
    ],
)
def test_what_settings_cannot_say_stays_as_it_was_asked(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    filled = with_own_adapter(offline(), adapter(tmp_path, **changes))

    assert filled.as_offline.lora.rank == 8
    assert filled.as_offline.lora.target_modules is None


@pytest.mark.parametrize("method", [offline(training_type="full"), online("full")])
def test_a_training_of_all_weights_asks_for_no_adapter(method: Method, tmp_path: Path) -> None:
    assert with_own_adapter(method, adapter(tmp_path)) is method


def test_a_whole_model_gets_the_adapter_that_is_asked_for(tmp_path: Path) -> None:
    model = ResolvedModel("base", "base", ModelSource(path=tmp_path))

    for each in (model, None):
        method = offline(lora={"rank": 16})
        assert with_own_adapter(method, each) is method


def test_a_job_has_the_memory_and_the_settings_of_its_adapter(
    database: Database, tmp_path: Path
) -> None:
    adapter(tmp_path / "models")
    settings = ApiSettings(home=tmp_path)
    devices = HostDevices("host", ("GPU-0",), 1, (80 * 10**9,))
    with database.write() as session:
        heartbeat(session, "host:1", ["training"], devices)
        session.add(ModelRow(id="base", kind="full", folder="base", created_at=0.0))
        row = ModelRow(id="mine", kind="adapter", folder="adapter", base="base", created_at=0.0)
        session.add(row)
        file = FileRow(id="file-1", filename="a.jsonl", purpose="fine-tune", bytes=1)
        file.sha256, file.created_at = "0" * 64, 0.0
        session.add(file)

    def trained(model: str, **lora: Any) -> tuple[int, Any]:
        body: dict[str, Any] = {"model": model, "training_file": "file-1"}
        body["method"] = {"type": "dpo", "dpo": {"hyperparameters": {"lora": lora}}}
        with database.write() as session:
            job = create_fine_tuning_job(
                session, CreateFineTuningJob.model_validate(body), settings
            )
        view = fine_tuning_view(job)
        assert view.memory_estimate is not None
        return view.memory_estimate.trained_parameters, view.method["dpo"]["hyperparameters"]

    parameters, hyperparameters = trained("mine")

    assert hyperparameters["lora"] == OWN
    assert parameters == trained("base", rank=64, target_modules=["q_proj", "v_proj"])[0]
    assert parameters > trained("base", target_modules=["q_proj", "v_proj"])[0]
