import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.llamafactory.arguments import ArgumentRefused
from services.contracts.training.optimizer import TrainingType
from temper.formats.llamafactory_yaml import parse_llamafactory_yaml

LORA = """
### model
model_name_or_path: Qwen/Qwen3-0.6B
trust_remote_code: true

### method
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 32
lora_target: q_proj,v_proj

### dataset
dataset: greetings, capitals
template: qwen3_nothink
cutoff_len: 1024
max_samples: 500
preprocessing_num_workers: 4

### output
output_dir: saves/qwen3/lora
logging_steps: 10
save_steps: 200
plot_loss: true
overwrite_output_dir: true
report_to: none  # or wandb

### train
per_device_train_batch_size: 2
gradient_accumulation_steps: 4
learning_rate: 2e-4
num_train_epochs: 2.0
lr_scheduler_type: cosine
warmup_ratio: 0.1
bf16: true
resume_from_checkpoint: null
seed: 7
"""

FULL = """
model_name_or_path: meta-llama/Llama-3.2-1B
stage: sft
do_train: true
finetuning_type: full
dataset: capitals
dataset_dir: data
eval_dataset: greetings
template: llama3
output_dir: saves/llama
"""


def test_a_warmup_by_a_share_and_by_steps_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="warmup_ratio and warmup_steps exclude each other"):
        parse_llamafactory_yaml(LORA + "warmup_steps: 20\n")

    unset = parse_llamafactory_yaml(LORA + "warmup_steps: 0\n").hyperparameters
    assert unset.warmup_ratio == 0.1
    assert "warmup_steps" not in unset.llamafactory


def test_an_example_becomes_a_request() -> None:
    job = parse_llamafactory_yaml(LORA)

    assert job.model == "Qwen/Qwen3-0.6B"
    assert job.datasets == ("greetings", "capitals")
    assert job.seed == 7
    settings = job.hyperparameters
    assert settings.training_type is TrainingType.LORA
    assert (settings.lora.rank, settings.lora.alpha) == (32, None)
    assert settings.lora.target_modules == ["q_proj", "v_proj"]
    assert (settings.n_epochs, settings.learning_rate) == (2.0, 2e-4)
    assert (settings.max_seq_length, settings.warmup_ratio) == (1024, 0.1)
    assert settings.template == "qwen3_nothink"
    assert settings.llamafactory == {
        "max_samples": 500,
        "preprocessing_num_workers": 4,
        "logging_steps": 10,
        "save_steps": 200,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 4,
        "lr_scheduler_type": "cosine",
        "bf16": True,
    }


def test_dropped_arguments_are_noted() -> None:
    notes = parse_llamafactory_yaml(LORA).notes

    assert [note.split()[0] for note in notes] == ["trust_remote_code", "output_dir", "plot_loss"]


def test_missing_arguments_have_library_defaults() -> None:
    job = parse_llamafactory_yaml(FULL)

    assert job.hyperparameters.training_type is TrainingType.FULL
    assert job.hyperparameters.learning_rate == 5e-5
    assert job.hyperparameters.n_epochs == 3.0
    assert job.hyperparameters.max_seq_length == 2048
    assert job.hyperparameters.llamafactory["per_device_train_batch_size"] == 8
    assert job.hyperparameters.llamafactory["lr_scheduler_type"] == "linear"
    assert (job.datasets, job.eval_datasets, job.dataset_dir) == (
        ("capitals",),
        ("greetings",),
        "data",
    )


@pytest.mark.parametrize("change", ["stage: ppo", "stage: [sft]", "finetuning_type: oft"])
def test_another_stage_or_method_is_rejected(change: str) -> None:
    key = change.partition(":")[0]
    text = "\n".join(change if line.startswith(key) else line for line in FULL.splitlines())

    with pytest.raises(InvalidRequest, match="is not supported"):
        parse_llamafactory_yaml(text)


@pytest.mark.parametrize("line", ["", "do_train: false", "do_predict: true", "do_train: 'yes'"])
def test_a_file_that_does_not_train_is_rejected(line: str) -> None:
    with pytest.raises(
        InvalidRequest, match=r"only training files.*do_train is not true"
    ) as raised:
        parse_llamafactory_yaml(FULL.replace("do_train: true", line))

    assert raised.value.param == "do_train"


def test_a_prediction_file_is_rejected_for_its_purpose_not_its_dataset() -> None:
    prediction = "model_name_or_path: m\nstage: sft\ndo_predict: true\neval_dataset: capitals\n"

    with pytest.raises(InvalidRequest, match="do_train"):
        parse_llamafactory_yaml(prediction)


def test_a_missing_seed_has_llamafactorys_default() -> None:
    assert parse_llamafactory_yaml(FULL.replace("seed: 7\n", "")).seed == 42


@pytest.mark.parametrize("seed", ["abc", "true", "1.5", "-1", "2147483648", "[1]"])
def test_an_invalid_seed_is_rejected(seed: str) -> None:
    with pytest.raises(InvalidRequest, match="seed must be a whole number") as raised:
        parse_llamafactory_yaml(FULL + f"seed: {seed}\n")

    assert raised.value.param == "seed"


def test_an_unknown_template_is_rejected() -> None:
    with pytest.raises(InvalidRequest, match="the nearest one is llama3"):
        parse_llamafactory_yaml(FULL.replace("template: llama3", "template: llama33"))


def test_an_unknown_argument_is_rejected() -> None:
    with pytest.raises(ArgumentRefused, match="lora_rank"):
        parse_llamafactory_yaml(FULL + "lora_rnk: 3\n")


@pytest.mark.parametrize(
    "text", ["", "- a list", "just text", "a: [", "1: one", "dataset: x", "model_name_or_path: x"]
)
def test_text_that_is_not_a_training_file_is_rejected(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_llamafactory_yaml(text)


def test_an_invalid_value_names_its_field() -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse_llamafactory_yaml(FULL + "num_train_epochs: -1\n")

    assert raised.value.param == "llamafactory.num_train_epochs"


@pytest.mark.parametrize(
    "line",
    [
        "tokenized_path: data/x",
        "mixture_of_depths: convert",
        "adapter_name_or_path: saves/first",
        "use_v1_kernels: true",
        "use_kt: true",
        "new_special_tokens_config: tokens.json",
        "shift_attn: true",
        "num_train_epochs: 0",
        "save_steps: 0",
    ],
)
def test_decisive_arguments_are_rejected_instead_of_ignored(line: str) -> None:
    with pytest.raises(InvalidRequest, match=line.partition(":")[0]):
        parse_llamafactory_yaml(f"{FULL}\n{line}\n")


@pytest.mark.parametrize("name", ["zero2", "zero2_offload", "zero3", "zero3_offload"])
def test_the_librarys_deepspeed_files_are_recognized_by_name(name: str) -> None:
    file = f"examples/deepspeed/ds_{name.replace('zero', 'z')}_config.json"

    job = parse_llamafactory_yaml(f"{FULL}\ndeepspeed: {file}\n")

    assert job.hyperparameters.sharding == name
    assert not any("deepspeed" in note for note in job.notes)


def test_a_custom_deepspeed_file_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"deepspeed cannot be used: .*sharding") as raised:
        parse_llamafactory_yaml(FULL + "deepspeed: configs/zero3.json\n")

    assert raised.value.param == "deepspeed"


def test_accelerations_without_their_package_are_dropped_with_a_note() -> None:
    job = parse_llamafactory_yaml(FULL + "flash_attn: fa2\nenable_liger_kernel: true\n")

    assert job.notes[-2:] == (
        "enable_liger_kernel is ignored: the training runtime has no liger-kernel",
        "flash_attn is ignored: the training runtime has no flash-attn",
    )
    assert not {"flash_attn", "enable_liger_kernel"} & job.hyperparameters.llamafactory.keys()
