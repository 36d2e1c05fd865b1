"""The memory estimate against the measured peak of a small decoder on the CPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from services.contracts.training.offline import SupervisedHyperparameters
from services.models.capacity.shape import model_shape
from services.models.capacity.training import activation_bytes, held_bytes, in_float32, load_of
from services.trainer.offline.library.sequence_forward import compute_sequences
from tests.support.live_tensors import LiveTensors

ROWS, LENGTH = 4, 128
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 704,
    "vocab_size": 8192,
    "tie_word_embeddings": False,
}
OPTIMIZERS: dict[str, Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]] = {
    "adamw_torch_fused": lambda trained: torch.optim.AdamW(trained, fused=True),
    "adagrad": lambda trained: torch.optim.Adagrad(trained, foreach=False),
    "sgd": lambda trained: torch.optim.SGD(trained, foreach=False),
}


def measured(settings: SupervisedHyperparameters) -> int:
    """The peak of a step of two micro-batches, as the trainer makes it."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, LlamaConfig

    arguments = settings.llamafactory
    model: Any = AutoModelForCausalLM.from_config(LlamaConfig(**CONFIG))
    if arguments.get("pure_bf16"):
        model = model.to(torch.bfloat16)
    if settings.training_type == "lora":
        model = get_peft_model(model, LoraConfig(r=16, target_modules="all-linear"))
        model.enable_input_require_grads()
    if not arguments.get("disable_gradient_checkpointing"):
        model.gradient_checkpointing_enable({"use_reentrant": False})
    compute_sequences(model)
    model.train()
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = OPTIMIZERS[str(arguments["optim"])](trained)
    ids = torch.randint(0, CONFIG["vocab_size"], (ROWS, LENGTH))

    def step() -> None:
        for _ in range(2):
            model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    step()  # makes the optimizer's states
    live = LiveTensors()
    for held in (model.parameters(), model.buffers()):
        for tensor in held:
            live.add(tensor)
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, torch.Tensor):
                live.add(value)
    with live:
        step()
    return live.peak


@pytest.mark.parametrize(
    "settings",
    [
        {"training_type": "full"},
        {"training_type": "full", "disable_gradient_checkpointing": True},
        {"training_type": "full", "optim": "sgd"},
        {"training_type": "full", "optim": "adagrad"},
        {"training_type": "full", "pure_bf16": True},
        {"training_type": "full", "pure_bf16": True, "disable_gradient_checkpointing": True},
        {"training_type": "lora"},
    ],
)
def test_the_estimate_is_the_measured_peak_within_15_percent(settings: dict[str, Any]) -> None:
    training_type = settings.pop("training_type")
    arguments = {"per_device_train_batch_size": ROWS, "optim": "adamw_torch_fused", **settings}
    asked = SupervisedHyperparameters.model_validate(
        {"training_type": training_type, "max_seq_length": LENGTH, "llamafactory": arguments}
    )
    shape = model_shape(CONFIG)
    assert shape is not None
    load = load_of(shape, asked, 1)
    if not arguments.get("pure_bf16"):
        load = in_float32(load)  # as a CPU computes

    estimated = held_bytes(load) + activation_bytes(shape, load)

    assert estimated == pytest.approx(measured(asked), rel=0.15)
