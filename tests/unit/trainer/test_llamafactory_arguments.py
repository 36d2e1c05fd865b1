import pytest
from pydantic import JsonValue

from services.contracts.errors import InvalidRequest
from services.contracts.llamafactory import closed as llamafactory_closed
from services.contracts.llamafactory.argument_values import BOUNDS, CHOICES
from services.contracts.llamafactory.arguments import (
    ArgumentRefused,
    catalogue,
    check_arguments,
    check_template,
)
from services.contracts.llamafactory.closed import ArgumentProblem, refusal
from services.contracts.llamafactory.names import Stage


def refused(key: str, value: JsonValue) -> ArgumentRefused:
    with pytest.raises(ArgumentRefused) as raised:
        check_arguments({key: value})
    return raised.value


def test_ordinary_arguments_are_accepted() -> None:
    check_arguments(
        {
            "lora_rank": 64,
            "learning_rate": 1,
            "lr_scheduler_type": "cosine",
            "neat_packing": True,
            "max_samples": None,
            "fsdp": "full_shard",
            "fsdp_config": {"min_num_params": 0},
        }
    )


def test_an_unknown_argument_suggests_the_closest_known_one() -> None:
    error = refused("lora_rnk", 8)

    assert error.problem is ArgumentProblem.UNKNOWN
    assert error.nearest == "lora_rank"
    assert "lora_rnk" in error.message
    assert "lora_rank" in error.message
    assert error.param == "llamafactory.lora_rnk"


def test_only_permitted_arguments_are_suggested() -> None:
    assert refused("output_directory", "x").nearest != "output_dir"


@pytest.mark.parametrize(
    "key", ["output_dir", "dataset", "report_to", "hub_token", "push_to_hub", "stage", "seed"]
)
def test_platform_owned_arguments_are_refused(key: str) -> None:
    assert refused(key, None).problem is ArgumentProblem.PLATFORM_OWNED


def test_an_adapter_over_an_adapter_is_refused() -> None:
    assert "merge it first" in refused("create_new_adapter", True).message


@pytest.mark.parametrize("key", ["trust_remote_code", "deepspeed", "kt_weight_path", "use_unsloth"])
def test_arguments_that_run_code_or_read_files_are_refused(key: str) -> None:
    assert refused(key, None).problem is ArgumentProblem.UNSAFE


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("learning_rate", "1e-4"),
        ("lora_rank", 8.5),
        ("lora_rank", True),
        ("packing", "yes"),
        ("num_train_epochs", True),
        ("include_for_metrics", {"a": 1}),
        ("gradient_checkpointing", None),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(key: str, value: JsonValue) -> None:
    assert refused(key, value).problem is ArgumentProblem.WRONG_TYPE


@pytest.mark.parametrize("key", ["fsdp_config", "lr_scheduler_kwargs", "accelerator_config"])
def test_a_configuration_file_path_is_refused(key: str) -> None:
    assert refused(key, "/etc/passwd").problem is ArgumentProblem.WRONG_TYPE


def test_an_invalid_choice_is_refused_and_the_choices_are_listed() -> None:
    error = refused("lr_scheduler_type", "cosinus")

    assert error.problem is ArgumentProblem.BAD_CHOICE
    assert "cosine_with_restarts" in error.message


def test_arguments_for_paths_tokens_and_addresses_are_closed() -> None:
    parts = ("_dir", "_path", "api_key", "_file", "url", "master_", "_folder", "secret")

    still_open = {
        name
        for name in catalogue().arguments
        if (any(part in name for part in parts) or name.endswith("_token"))
        and refusal(name) is None
    }

    assert still_open == set()


def test_an_unknown_template_suggests_the_closest_known_one() -> None:
    check_template("qwen3_nothink")

    with pytest.raises(InvalidRequest, match=r"qwen3_nothin is not .* qwen3_nothink") as raised:
        check_template("qwen3_nothin")

    assert raised.value.param == "template"


def test_closed_arguments_exist_in_the_catalog() -> None:
    known = catalogue().arguments
    tables = (llamafactory_closed._PLATFORM_OWNED, llamafactory_closed._UNSAFE)
    names = {name for table in tables for group in table.values() for name in group}

    gone = {
        name
        for name in names
        if not any(key == name or key.startswith(name.removesuffix("*")) for key in known)
    }
    assert gone == set()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("use_adam_mini", True),
        ("use_apollo", True),
        ("use_badam", True),
        ("use_galore", True),
        ("optim", "galore_adamw"),
        ("optim", "apollo_adamw_layerwise"),
        ("optim", "adamw_torch_8bit"),
        ("optim", "schedule_free_sgd"),
    ],
)
def test_optimizers_without_their_packages_are_refused(key: str, value: JsonValue) -> None:
    assert "the training runtime does not have" in refused(key, value).message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("flash_attn", "fa2"),
        ("enable_liger_kernel", True),
        ("use_liger_kernel", True),
        ("fp8", True),
        ("shift_attn", True),
        ("quantization_method", "gptq"),
    ],
)
def test_a_value_whose_package_is_in_no_runtime_is_refused(key: str, value: JsonValue) -> None:
    assert "the training runtime does not have" in refused(key, value).message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_train_epochs", 0),
        ("per_device_train_batch_size", 0),
        ("lora_rank", 0),
        ("save_steps", 0),
        ("max_grad_norm", -1),
        ("weight_decay", -1),
        ("warmup_steps", -1),
        ("dataloader_num_workers", 100_000),
        ("quantization_bit", 5),
        ("freeze_trainable_layers", 0),
        ("learning_rate", float("nan")),
        ("torch_compile_backend", "os.system"),
        ("torch_compile_mode", "fastest"),
        ("tool_format", "qwen9"),
        ("include_for_metrics", ["inputs", "everything"]),
        ("lr_scheduler_type", "cosine_with_min_lr"),
    ],
)
def test_a_value_that_dies_late_or_has_no_effect_is_refused(key: str, value: JsonValue) -> None:
    beside: dict[str, JsonValue] = {"eval_dataset": True, "template": "qwen3"}
    if key == "freeze_trainable_layers":
        beside["finetuning_type"] = "freeze"
    with pytest.raises(ArgumentRefused) as raised:
        check_arguments({key: value}, beside=beside)

    error = raised.value
    assert error.problem is ArgumentProblem.BAD_CHOICE
    assert error.param == f"llamafactory.{key}"
    assert key in error.message


def test_every_number_that_a_client_may_set_has_bounds_around_its_default() -> None:
    numbers = {
        key: argument
        for key, argument in catalogue().arguments.items()
        if {"integer", "number"} & set(argument.types)
        and refusal(key) is None
        and not key.startswith("ppo_")  # an argument of no stage that is offered
    }

    assert numbers.keys() == BOUNDS.keys()
    outside = {
        key
        for key, argument in numbers.items()
        if isinstance(argument.default, int | float) and not BOUNDS[key].contain(argument.default)
    }
    assert outside == set()


def test_names_that_the_library_reads_as_code_or_looks_up_are_arguments() -> None:
    assert CHOICES.keys() <= catalogue().arguments.keys()


def test_a_schedule_with_what_it_needs_is_accepted() -> None:
    check_arguments(
        {"lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": {"min_lr": 1e-6}}
    )


@pytest.mark.parametrize("key", ["early_stopping_steps", "max_steps", "max_samples"])
def test_a_limit_of_zero_is_refused(key: str) -> None:
    assert refused(key, 0).problem is ArgumentProblem.BAD_CHOICE


def test_permitted_optimizers_and_limits_are_accepted() -> None:
    check_arguments({"max_steps": -1, "max_samples": 5, "use_galore": False, "optim": "sgd"})


@pytest.mark.parametrize("key", ["tokenized_path", "mixture_of_depths"])
def test_arguments_that_decide_what_is_trained_are_refused(key: str) -> None:
    assert refused(key, "x").key == key


@pytest.mark.parametrize(
    ("arguments", "stage", "why"),
    [
        ({"pref_beta": 0.2}, Stage.SFT, "in stage dpo and kto, not in sft"),
        ({"ld_alpha": 0.5}, Stage.KTO, "in stage dpo, not in kto"),
        ({"ppo_epochs": 2}, Stage.RM, "in stage ppo, not in rm"),
        ({"simpo_gamma": 1.0}, Stage.DPO, "with pref_loss simpo, not with sigmoid"),
    ],
)
def test_an_argument_of_another_stage_is_refused(
    arguments: dict[str, JsonValue], stage: Stage, why: str
) -> None:
    with pytest.raises(ArgumentRefused, match=why) as raised:
        check_arguments(arguments, stage)

    assert raised.value.problem is ArgumentProblem.NO_EFFECT


def test_arguments_of_a_stage_are_accepted_there() -> None:
    check_arguments({"pref_loss": "simpo", "simpo_gamma": 1.0}, Stage.DPO)
    check_arguments({"simpo_gamma": 1.0}, Stage.DPO, beside={"pref_loss": "simpo"})
    check_arguments({"pref_beta": 0.2, "kto_rejected_weight": 2.0}, Stage.KTO)


def test_a_retired_loss_names_its_successor() -> None:
    with pytest.raises(ArgumentRefused, match="method kto takes its place"):
        check_arguments({"pref_loss": "kto_pair"}, Stage.DPO)
