"""LLaMA-Factory arguments without an effect are rejected by name."""

from typing import Any

import pytest
from pydantic import ValidationError

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.llamafactory.arguments import catalogue, check_arguments
from services.contracts.llamafactory.closed import ArgumentProblem, refusal
from services.contracts.llamafactory.names import Stage
from services.contracts.training.offline import (
    OfflineHyperparameters,
    PretrainingHyperparameters,
    RewardModelHyperparameters,
    SupervisedHyperparameters,
)
from services.contracts.training.optimizer import TrainingType
from services.contracts.training.preference_optimization import (
    DpoHyperparameters,
    KtoHyperparameters,
    PreferenceLoss,
)

PISSA: JsonObject = {"pissa_init": True}
UNEVALUATED: JsonObject = {"val_size": 0.1, "eval_strategy": "no"}


def check(
    arguments: dict[str, Any], *, has_validation: bool = False, **fields: Any
) -> SupervisedHyperparameters:
    settings = SupervisedHyperparameters.model_validate({"llamafactory": arguments, **fields})
    settings.check_library_arguments(has_validation=has_validation)
    return settings


@pytest.mark.parametrize(
    ("arguments", "fields", "reason"),
    [
        ({"enable_thinking": False}, {}, "variables of the model's own are chat_template_kwargs"),
        ({"tool_format": "qwen"}, {}, "with a named template"),
        ({"use_dora": True}, {"training_type": "full"}, "training_type lora, not with full"),
        ({"quantization_bit": 4}, {"training_type": "freeze"}, "training_type lora"),
        ({"freeze_trainable_layers": 2}, {}, "training_type freeze, not with lora"),
        ({"metric_for_best_model": "loss"}, {}, "with a validation file only"),
        ({"eval_steps": 5}, {}, "with a validation file only"),
        ({"num_beams": 4}, {}, "with generation only"),
        ({"max_new_tokens": 64}, {}, "the request's field generation"),
        ({"interleave_probs": "0.5,0.5"}, {}, "the data are the request's own fields"),
        ({"eval_on_each_dataset": True}, {}, "the request's validation_files"),
        ({"pissa_iter": 4}, {}, "with pissa_init only"),
        ({"buffer_size": 4}, {}, "data are not streamed"),
        ({"image_max_pixels": 4}, {}, "only text is trained on"),
        ({"oft_rank": 4}, {}, "oft is not offered"),
        ({"rope_scaling": "yarn"}, {}, "rope_parameters in the config.json"),
        ({"early_stopping_steps": 2, **UNEVALUATED}, {}, "eval_strategy is no"),
        ({"eval_steps": 5, **UNEVALUATED}, {}, "eval_strategy is no"),
        ({"generation_max_length": 4}, {}, "generation.max_tokens and num_beams take its place"),
    ],
)
def test_an_argument_without_effect_is_refused_with_the_reason(
    arguments: dict[str, Any], fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidRequest, match=reason) as raised:
        check(arguments, **fields)

    assert raised.value.param == f"llamafactory.{next(iter(arguments))}"


@pytest.mark.parametrize(
    ("settings", "beside"),
    [
        (DpoHyperparameters(llamafactory=PISSA), "a reference model"),
        (KtoHyperparameters(llamafactory=PISSA), "a reference model"),
        (
            RewardModelHyperparameters(llamafactory=PISSA | {"quantization_bit": 4}),
            "quantization_bit",
        ),
    ],
)
def test_pissa_is_refused_where_the_base_must_stay_unchanged(
    settings: OfflineHyperparameters, beside: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"cannot be used with {beside}") as raised:
        settings.check_library_arguments(has_validation=False)

    assert raised.value.param == "llamafactory.pissa_init"


def test_pissa_is_accepted_by_losses_without_a_reference() -> None:
    settings = DpoHyperparameters(llamafactory=PISSA, loss=PreferenceLoss.ORPO)

    settings.check_library_arguments(has_validation=False)


def test_pissa_is_refused_if_the_librarys_name_of_the_loss_brings_a_reference() -> None:
    arguments: JsonObject = {**PISSA, "pref_loss": "sigmoid"}
    settings = DpoHyperparameters(llamafactory=arguments, loss=PreferenceLoss.ORPO)

    with pytest.raises(InvalidRequest, match="cannot be used with a reference model"):
        settings.check_library_arguments(has_validation=False)


def test_a_reference_model_is_refused_by_a_loss_without_one_under_its_librarys_name() -> None:
    settings = DpoHyperparameters(llamafactory={"pref_loss": "orpo"}, reference_model="base")

    with pytest.raises(InvalidRequest, match="pref_loss orpo has no reference model") as raised:
        settings.check_library_arguments(has_validation=False)

    assert raised.value.param == "reference_model"


def test_settings_of_lora_are_refused_without_it() -> None:
    with pytest.raises(InvalidRequest, match="with training_type lora, not with full") as raised:
        check({}, training_type="full", lora={"rank": 4})
    assert raised.value.param == "lora"

    check({}, training_type="full", lora={})


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({"enable_thinking": False}, {"template": "qwen3"}),
        ({"default_system": "Be brief."}, {}),
        ({"use_dora": True, "quantization_bit": 4, "quantization_type": "nf4"}, {}),
        ({"freeze_trainable_layers": 2}, {"training_type": "freeze"}),
        ({"use_llama_pro": True, "freeze_trainable_layers": 2}, {}),
        ({"eval_steps": 5, "per_device_eval_batch_size": 64}, {"has_validation": True}),
        ({"eval_steps": 5, "val_size": 0.1}, {}),
        ({"eval_strategy": "no", "load_best_model_at_end": False}, {}),
    ],
)
def test_an_argument_with_an_effect_is_accepted(
    arguments: dict[str, Any], fields: dict[str, Any]
) -> None:
    check(arguments, **fields)


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("training_type", list(TrainingType))
def test_generating_arguments_do_nothing_without_generation(
    stage: Stage, training_type: TrainingType
) -> None:
    for name, argument in catalogue().arguments.items():
        if argument.group != "generating" or refusal(name) is not None:
            continue
        value = {"boolean": True, "integer": 3, "number": 3}[argument.types[0]]
        beside = {"finetuning_type": training_type.value, "eval_dataset": True}
        with pytest.raises(InvalidRequest) as raised:
            check_arguments({name: value}, stage, beside=beside)
        assert getattr(raised.value, "problem") is ArgumentProblem.NO_EFFECT  # noqa: B009 - the type has no such field, but this error has


@pytest.mark.parametrize("name", ["messages", "add_generation_prompt", "eos_token", "a b"])
def test_a_template_variable_cannot_replace_what_is_rendered(name: str) -> None:
    with pytest.raises(ValidationError):
        SupervisedHyperparameters.model_validate({"chat_template_kwargs": {name: True}})


def test_template_variables_need_the_models_own_template() -> None:
    with pytest.raises(ValidationError, match="for the model's own template"):
        SupervisedHyperparameters(chat_template_kwargs={"a": True}, template="qwen3")
    with pytest.raises(ValidationError, match="text is read as it is"):
        PretrainingHyperparameters(chat_template_kwargs={"a": True})


@pytest.mark.parametrize(
    ("metric", "fields"),
    [
        ("loss", {}),
        ("eval_accuracy", {}),
        ("rouge-1", {"generation": {}}),
        ("eval_score", {"generation": {"grader": {"type": "numeric"}}}),
    ],
)
def test_the_best_checkpoint_is_chosen_by_a_reported_metric(
    metric: str, fields: dict[str, Any]
) -> None:
    arguments = {"load_best_model_at_end": True, "metric_for_best_model": metric}
    check(arguments, has_validation=True, **fields)


@pytest.mark.parametrize(
    ("metric", "fields"), [("rouge-1", {}), ("score", {"generation": {}}), ("lose", {})]
)
def test_a_metric_that_no_evaluation_reports_is_refused(
    metric: str, fields: dict[str, Any]
) -> None:
    arguments = {"load_best_model_at_end": True, "metric_for_best_model": metric}
    with pytest.raises(InvalidRequest, match=r"must be one of loss, accuracy") as raised:
        check(arguments, has_validation=True, **fields)

    assert raised.value.param == "llamafactory.metric_for_best_model"


def test_an_accuracy_that_is_not_computed_decides_on_no_checkpoint() -> None:
    arguments = {
        "load_best_model_at_end": True,
        "metric_for_best_model": "accuracy",
        "compute_accuracy": False,
    }

    with pytest.raises(InvalidRequest, match="must be one of loss, not 'accuracy'"):
        check(arguments, has_validation=True)


def test_generation_needs_a_validation_file_and_single_rows() -> None:
    with pytest.raises(InvalidRequest, match="needs a validation file"):
        check({}, generation={})
    with pytest.raises(InvalidRequest, match="cannot be used with packing"):
        check({"packing": True}, generation={}, has_validation=True)
    check({"num_beams": 2, "val_size": 0.1}, generation={})


def test_a_split_is_for_jobs_without_a_validation_file() -> None:
    with pytest.raises(InvalidRequest, match="no validation file beside it") as raised:
        check({"val_size": 0.1}, has_validation=True)

    assert raised.value.param == "llamafactory.val_size"
    check({"val_size": 0}, has_validation=True)
    settings = SupervisedHyperparameters(llamafactory={"val_size": 0.1, "eval_steps": 5})
    settings.check_library_arguments(has_validation=None)


@pytest.mark.parametrize(
    ("arguments", "share"),
    [
        ({"warmup_ratio": 0.1, "warmup_steps": 100}, 0.0),
        ({"warmup_steps": 100}, 0.1),
        ({"warmup_steps": 0}, 0.1),
    ],
)
def test_a_warmup_is_a_share_or_a_number_of_steps(arguments: JsonObject, share: float) -> None:
    with pytest.raises(InvalidRequest, match="exclude each other") as raised:
        check(arguments, warmup_ratio=share)

    assert raised.value.param == "llamafactory.warmup_steps"
    for fine in ({"warmup_steps": 100}, {"warmup_ratio": 0.1}):
        check(fine)


@pytest.mark.parametrize("other", [0.0, 0.1, 0.5])
def test_a_share_of_the_warmup_is_given_once(other: float) -> None:
    with pytest.raises(InvalidRequest, match="given twice") as raised:
        check({"warmup_ratio": other}, warmup_ratio=0.1)

    assert raised.value.param == "llamafactory.warmup_ratio"
    check({"warmup_ratio": other})
    stored = SupervisedHyperparameters(warmup_ratio=0.1, llamafactory={"warmup_ratio": other})
    assert stored, "requests of earlier versions stay readable"


def test_a_warmup_of_all_steps_would_be_one_of_one_step_and_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="must be below 1") as raised:
        check({}, warmup_ratio=1.0)

    assert raised.value.param == "warmup_ratio"
    check({}, warmup_ratio=0.99)
    assert SupervisedHyperparameters(warmup_ratio=1.0), "requests of earlier versions stay readable"


def test_weights_under_which_no_row_would_count_are_refused() -> None:
    for settings in (
        KtoHyperparameters(desirable_weight=0.0, undesirable_weight=0.0),
        KtoHyperparameters(desirable_weight=0.0, llamafactory={"kto_rejected_weight": 0.0}),
    ):
        with pytest.raises(InvalidRequest, match="no row would change the model") as raised:
            settings.check_library_arguments(has_validation=False)
        assert raised.value.param == "desirable_weight"

    KtoHyperparameters(desirable_weight=0.0).check_library_arguments(has_validation=False)


@pytest.mark.parametrize(
    "arguments", [{"ld_alpha": 1.5}, {"ld_alpha": -0.1}, {"dpo_label_smoothing": 0.5}]
)
def test_a_value_of_a_loss_outside_of_its_definition_is_refused(arguments: JsonObject) -> None:
    (name,) = arguments
    with pytest.raises(InvalidRequest, match="must be at least 0 and") as raised:
        DpoHyperparameters(llamafactory=arguments).check_library_arguments(has_validation=False)
    assert raised.value.param == f"llamafactory.{name}"

    accepted: JsonObject = {"ld_alpha": 0.5, "dpo_label_smoothing": 0.1}
    DpoHyperparameters(llamafactory=accepted).check_library_arguments(has_validation=False)


@pytest.mark.parametrize(
    ("times", "param", "reason"),
    [
        ({"eval_steps": 5, "save_steps": 8}, "save_steps", "8 must be a multiple of eval_steps 5"),
        ({"eval_steps": 5, "save_steps": 0.5}, "save_steps", "0.5 must be a multiple"),
        ({"eval_steps": 0, "save_steps": 5}, "eval_steps", "must be above 0 and at most"),
        ({"eval_strategy": "epoch", "save_strategy": "steps"}, "save_strategy", "be eval_strategy"),
        ({"eval_strategy": "no"}, "eval_strategy", "an evaluation of every checkpoint"),
    ],
)
def test_a_best_checkpoint_that_no_evaluation_would_find_is_refused(
    times: JsonObject, param: str, reason: str
) -> None:
    with pytest.raises(InvalidRequest, match=reason) as raised:
        check({"load_best_model_at_end": True, **times}, has_validation=True)

    assert raised.value.param == f"llamafactory.{param}"


def test_a_best_checkpoint_among_those_that_are_evaluated_is_accepted() -> None:
    for times in (
        {"eval_steps": 5, "save_steps": 10},
        {"eval_steps": 0.1, "save_steps": 0.3},
        {"eval_steps": 7},
        {"save_strategy": "best", "eval_steps": 3},
    ):
        check({"load_best_model_at_end": True, **times}, has_validation=True)
