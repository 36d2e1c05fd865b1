import json
from pathlib import Path
from typing import Any

import pytest

from services.contracts.llamafactory.arguments import ArgumentRefused, catalogue
from services.contracts.training.optimizer import TrainingType
from services.core.artifacts import ModelSource
from services.trainer.offline.arguments import (
    TrainingEnvironment,
    build_arguments,
    left_out_without_gpu,
    stated_arguments,
)
from services.trainer.offline.spec import DataSource, TrainingSpec


def spec(**changes: Any) -> TrainingSpec:
    fields: dict[str, Any] = {
        "job_id": "ftjob-1",
        "model": ModelSource(path=Path("/models/base")),
        "training_data": DataSource(path=Path("/files/train")),
        "method": TrainingType.FULL,
        "n_epochs": 2.0,
        "batch_size": 32,
        "learning_rate": 1e-3,
    }
    return TrainingSpec(**(fields | changes))


def place(**changes: Any) -> TrainingEnvironment:
    fields: dict[str, Any] = {
        "model": Path("/models/base"),
        "output_dir": Path("/job/output"),
        "data_dir": Path("/job/data"),
        "template": "empty",
        "rows": 100,
        "has_validation": False,
    }
    return TrainingEnvironment(**(fields | changes))


def test_a_result_states_the_adapter_that_was_trained_further_not_what_was_asked(
    tmp_path: Path,
) -> None:
    own = {"r": 64, "lora_alpha": 16.0, "lora_dropout": 0.1, "target_modules": ["v", "q"]}
    (tmp_path / "adapter_config.json").write_text(json.dumps({**own, "use_rslora": True}))
    further = spec(
        method=TrainingType.LORA, adapter=tmp_path, arguments={"use_dora": True, "lora_rank": 8}
    )

    stated = stated_arguments(further, build_arguments(further, place()))

    lora = {name: value for name, value in stated.items() if "lora" in name or "dora" in name}
    assert lora == {
        **{"lora_rank": 64, "lora_alpha": 16, "lora_dropout": 0.1, "lora_target": "q,v"},
        "use_rslora": True,
    }
    assert "adapter_name_or_path" not in stated


@pytest.mark.parametrize(("metric", "higher"), [(None, False), ("rouge-1", True), ("kl", False)])
def test_the_best_checkpoint_has_the_direction_of_its_metric(
    metric: str | None, higher: bool
) -> None:
    given = {"load_best_model_at_end": True, "metric_for_best_model": metric, "val_size": 0.5}
    chosen = {name: value for name, value in given.items() if value is not None}

    arguments = build_arguments(spec(arguments=chosen), place())

    assert arguments["metric_for_best_model"] == (metric or "loss")
    assert arguments["greater_is_better"] is higher


@pytest.mark.parametrize(
    ("given", "times"),
    [
        ({"eval_steps": 5}, ("steps", 5, "steps", 5)),
        ({"save_steps": 5}, ("steps", 5, "steps", 5)),
        ({"save_steps": 10, "eval_steps": 5}, ("steps", 5, "steps", 10)),
        ({"eval_strategy": "epoch"}, ("epoch", 0.2, "epoch", 0.2)),
        ({}, ("steps", 0.2, "steps", 0.2)),
    ],
)
def test_every_checkpoint_is_evaluated_where_the_best_one_is_wanted(
    given: dict[str, Any], times: tuple[Any, ...]
) -> None:
    wanted = {"load_best_model_at_end": True, "val_size": 0.5, **given}

    arguments = build_arguments(spec(arguments=wanted), place())

    names = ("eval_strategy", "eval_steps", "save_strategy", "save_steps")
    assert tuple(arguments[name] for name in names) == times


def test_all_arguments_exist_in_llamafactory() -> None:
    arguments = build_arguments(
        spec(method=TrainingType.LORA, adapter=Path("/a"), warmup_ratio=0.1),
        place(has_validation=True, has_gpu=True, has_bf16=True, rows=10**6, cpu_cores=8),
    )

    assert arguments.keys() <= catalogue().arguments.keys()


def test_client_arguments_override_fields_but_not_platform_arguments() -> None:
    arguments = build_arguments(
        spec(arguments={"learning_rate": 5e-5, "save_steps": 7, "output_dir": "/elsewhere"}),
        place(),
    )

    assert arguments["learning_rate"] == 5e-5
    assert arguments["save_steps"] == 7
    assert arguments["output_dir"] == "/job/output"


@pytest.mark.parametrize(
    ("batch_size", "chosen", "devices", "per_device", "accumulation"),
    [
        (32, {}, 1, 8, 4),
        (32, {"cutoff_len": 128}, 1, 32, 1),
        (32, {}, 2, 8, 2),
        (12, {"gradient_accumulation_steps": 3}, 2, 2, 3),
        (12, {"per_device_train_batch_size": 2}, 2, 2, 3),
        (None, {"per_device_train_batch_size": 2}, 2, 2, 1),
        (None, {"gradient_accumulation_steps": 4}, 1, 8, 4),
        (5, {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 9}, 1, 2, 9),
    ],
)
def test_the_batch_is_split_across_devices_and_accumulation_steps(
    batch_size: int | None, chosen: dict[str, Any], devices: int, per_device: int, accumulation: int
) -> None:
    arguments = build_arguments(
        spec(batch_size=batch_size, arguments=chosen), place(devices=devices)
    )

    assert arguments["per_device_train_batch_size"] == per_device
    assert arguments["gradient_accumulation_steps"] == accumulation


@pytest.mark.parametrize(
    ("batch_size", "chosen", "devices"),
    [(5, {}, 2), (8, {"per_device_train_batch_size": 3}, 1)],
)
def test_an_indivisible_batch_is_refused(
    batch_size: int, chosen: dict[str, Any], devices: int
) -> None:
    with pytest.raises(ArgumentRefused, match="cannot be divided"):
        build_arguments(spec(batch_size=batch_size, arguments=chosen), place(devices=devices))


def test_half_precision_requires_a_gpu_and_is_the_default_there() -> None:
    asked = spec(arguments={"bf16": True, "weight_decay": 0.1})

    assert left_out_without_gpu(asked.arguments, place()) == ["bf16"]
    assert "bf16" not in build_arguments(asked, place())
    assert build_arguments(spec(), place(has_gpu=True, has_bf16=True))["bf16"] is True
    fp16 = spec(arguments={"fp16": True})
    assert "bf16" not in build_arguments(fp16, place(has_gpu=True, has_bf16=True))


def test_validation_data_is_evaluated_during_training() -> None:
    asked = spec(validation_data=DataSource(path=Path("/files/valid")))

    arguments = build_arguments(asked, place(has_validation=True))

    assert (arguments["eval_dataset"], arguments["eval_on_each_dataset"]) == ("validation", False)
    assert arguments["eval_strategy"] == "steps"
    assert arguments["compute_accuracy"] is True
    assert "eval_dataset" not in build_arguments(spec(), place())


def test_named_validation_data_are_evaluated_each() -> None:
    sets = {name: DataSource(path=Path("/files", name)) for name in ("math", "chat")}

    arguments = build_arguments(spec(validation_sets=sets), place(has_validation=True))

    assert (arguments["eval_dataset"], arguments["eval_on_each_dataset"]) == ("math,chat", True)


def test_rows_that_are_chosen_already_are_neither_limited_nor_split_again() -> None:
    asked = spec(arguments={"val_size": 0.5, "max_samples": 3, "weight_decay": 0.1})

    library = build_arguments(asked, place())
    ours = build_arguments(asked, place(rows_are_chosen=True, has_validation=True))

    assert (library["val_size"], library["max_samples"]) == (0.5, 3)
    assert "eval_dataset" not in library
    assert not ours.keys() & {"val_size", "max_samples"}
    assert (ours["eval_dataset"], ours["eval_on_each_dataset"]) == ("validation", False)
    assert ours["eval_strategy"] == library["eval_strategy"] == "steps"
    assert ours["weight_decay"] == 0.1


def test_lora_settings_use_llamafactory_names() -> None:
    arguments = build_arguments(spec(method=TrainingType.LORA), place())

    assert arguments["finetuning_type"] == "lora"
    assert (arguments["lora_rank"], arguments["lora_alpha"]) == (8, 16)
    assert arguments["lora_target"] == "all"


def test_a_client_warmup_ratio_replaces_the_default_warmup() -> None:
    arguments = build_arguments(spec(warmup_ratio=0.5, arguments={"warmup_ratio": 0.1}), place())

    assert arguments["warmup_steps"] == 0.1  # below 1: a share
    assert "warmup_ratio" not in arguments


@pytest.mark.parametrize("trusted", [False, True])
def test_code_of_a_model_runs_only_where_it_is_trusted(trusted: bool) -> None:
    model = ModelSource(path=Path("/models/base"), trusted=trusted)

    assert build_arguments(spec(model=model), place())["trust_remote_code"] is trusted


@pytest.mark.parametrize(
    ("key", "value"),
    [("quantization_bit", 4), ("optim", "paged_adamw_8bit"), ("optim", "lion_8bit")],
)
def test_what_bitsandbytes_computes_is_refused_without_a_gpu(key: str, value: Any) -> None:
    asked = spec(method=TrainingType.LORA, arguments={key: value})

    with pytest.raises(ArgumentRefused, match=f"{key} {value} needs a GPU") as raised:
        build_arguments(asked, place())

    assert raised.value.param == f"llamafactory.{key}"
    assert build_arguments(asked, place(has_gpu=True))[key] == value
