"""The YAML of training settings that an LLM writes."""

import pytest

from services.campaigns.data.training_settings import read_settings
from services.campaigns.run.signals import StepFailed
from services.contracts.campaigns.loops import Failure
from services.contracts.training.optimizer import TrainingType


def test_arguments_are_kept_under_their_names() -> None:
    settings = read_settings("finetuning_type: full\nlearning_rate: 1e-4\nnum_train_epochs: 3\n")

    assert settings.hyperparameters.training_type is TrainingType.FULL
    assert settings.hyperparameters.llamafactory == {"learning_rate": 1e-4, "num_train_epochs": 3}
    assert settings.notes == []


def test_another_stage_is_noted() -> None:
    assert read_settings("stage: sft\n").notes == []
    assert read_settings("stage: dpo\n").notes == ["stage 'dpo': campaigns train with sft only"]


def test_the_last_of_two_values_counts_with_a_note() -> None:
    settings = read_settings("learning_rate: 1.0e-4\nlearning_rate: 2.0e-4\n")

    assert settings.hyperparameters.llamafactory["learning_rate"] == 2e-4
    assert settings.notes == ["learning_rate is given twice: the last value counts"]


def test_unknown_and_managed_arguments_are_dropped_with_a_note() -> None:
    settings = read_settings("lerning_rate: 0.1\noutput_dir: /tmp/here\n")

    assert settings.hyperparameters.llamafactory == {}
    assert "learning_rate" in settings.notes[0]
    assert "output_dir" in settings.notes[1]


@pytest.mark.parametrize(
    "text",
    [
        "- a list",
        "a: [",
        "deepspeed: ds.json",
        "trust_remote_code: true",
        "learning_rate: high",
        "finetuning_type: magic",
        "template: no-such-template",
        "a: !!python/object/apply:os.system ['true']",
    ],
)
def test_unsafe_and_bad_settings_are_refused(text: str) -> None:
    with pytest.raises(StepFailed) as refused:
        read_settings(text)

    assert refused.value.failure is Failure.CONFIG
    assert refused.value.message.startswith("train.yaml")


def test_no_steps_of_a_warmup_leave_it_to_its_share() -> None:
    kept = read_settings("warmup_ratio: 0.1\nwarmup_steps: 0\n").hyperparameters.llamafactory
    assert kept == {"warmup_ratio": 0.1}
    with pytest.raises(StepFailed, match="warmup_ratio and warmup_steps exclude each other"):
        read_settings("warmup_ratio: 0.1\nwarmup_steps: 5\n")
