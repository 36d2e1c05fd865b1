"""What is measured: one method with its precision, checkpointing and micro-batch, and the estimate
that a request with these settings gets."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from services.contracts.training.fine_tuning import Method
from services.contracts.training.online import ReinforcementMethod
from services.models.capacity.online import MicroBatching, learner_load
from services.models.capacity.shape import ModelShape
from services.models.capacity.training import (
    SEQUENCES_PER_ROW,
    MemoryLoad,
    activation_bytes,
    held_bytes,
    in_float32,
    load_of,
)

OFFLINE = {"sft": "supervised", "dpo": "dpo", "kto": "kto", "rm": "reward_model"}
"""Stages that LLaMA-Factory trains, and their methods."""
KL = {"kl": {"coefficient": 0.1}}
RANK = 16


class Case(BaseModel):
    """A training of a model: ``method`` is a stage or "grpo", with a KL penalty; micro-batches have
    ``rows`` rows, or sequences, of ``length`` tokens; ``precision`` "mixed" computes in bfloat16
    with float32 weights."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: Literal["sft", "dpo", "kto", "rm", "grpo"]
    training_type: Literal["full", "lora"] = "full"
    precision: Literal["float32", "mixed", "pure_bf16"] = "mixed"
    checkpointing: bool = True
    length: int = 512
    rows: int = 2
    optimizer: str | None = None
    """LLaMA-Factory's name, offline."""

    @property
    def name(self) -> str:
        """Its settings in a line."""
        recomputing = "recomputing" if self.checkpointing else "not recomputing"
        size = f"{self.rows} x {self.length}"
        return f"{self.method} {self.training_type}, {self.precision}, {recomputing}, {size}"

    def request(self) -> Method:
        """The method as a client gives it."""
        named = OFFLINE.get(self.method, "reinforcement")
        content: dict[str, Any] = {"hyperparameters": self._hyperparameters()}
        if self.method == "grpo":
            content["rewards"] = [{"name": "any", "reward": {"type": "retool"}}]
        return Method.model_validate({"type": named, named: content})

    def arguments(self) -> dict[str, Any]:
        """The arguments of an offline stage."""
        return {
            "per_device_train_batch_size": self.rows,
            "gradient_accumulation_steps": 2,
            "disable_gradient_checkpointing": not self.checkpointing,
            **({"pure_bf16": True} if self.precision == "pure_bf16" else {}),
            **({} if self.optimizer is None else {"optim": self.optimizer}),
        }

    def estimated_bytes(self, shape: ModelShape) -> float:
        """What such a request is estimated to need, without the margin for fragmentation."""
        load = self.load(shape)
        return held_bytes(load) + activation_bytes(shape, load)

    def load(self, shape: ModelShape) -> MemoryLoad:
        """What the request puts on a GPU."""
        online = self.request().online
        if isinstance(online, ReinforcementMethod):
            batching = MicroBatching(self.length * self.rows, self.checkpointing)
            return learner_load(shape, online, devices=1).with_batching(batching)
        offline = self.request().offline
        assert offline is not None
        load = load_of(shape, offline, 1)
        return in_float32(load) if self.precision == "float32" else load

    def _hyperparameters(self) -> dict[str, Any]:
        adapted = {"training_type": self.training_type, "lora": {"rank": RANK}}
        if self.method != "grpo":
            return {**adapted, "max_seq_length": self.length, "llamafactory": self.arguments()}
        optimizer = {
            **adapted,
            "dtype": "float32" if self.precision == "float32" else "bfloat16",
            "micro_batch_tokens": self.length * self.rows,
            "gradient_checkpointing": self.checkpointing,
        }
        return {"optimizer": optimizer, "loss": KL}

    @property
    def micro_batch_tokens(self) -> int:
        """Tokens of a micro-batch: a pair has two answers."""
        sequences = {stage.value: count for stage, count in SEQUENCES_PER_ROW.items()}
        return self.length * self.rows * sequences.get(self.method, 1)


def chosen_cases(lengths: Sequence[int], rows: int, *, whole: bool = False) -> list[Case]:
    """Every method, in full and with LoRA, at each length, with and without checkpointing in turn;
    with both at every length if ``whole``."""
    return [
        Case(**kind, checkpointing=checkpointing, length=length, rows=rows)
        for number, kind in enumerate(_kinds())
        for place, length in enumerate(lengths)
        for checkpointing in ((True, False) if whole else ((number + place) % 2 == 0,))
    ]


def _kinds() -> Iterator[dict[str, Any]]:
    for method in ("sft", "dpo", "kto", "rm", "grpo"):
        yield {"method": method, "training_type": "full", "precision": "mixed"}
        yield {"method": method, "training_type": "lora", "precision": "mixed"}
    yield {"method": "sft", "training_type": "full", "precision": "pure_bf16"}
    yield {"method": "sft", "training_type": "full", "precision": "float32"}
    yield {"method": "grpo", "training_type": "full", "precision": "float32"}
    yield {"method": "grpo", "training_type": "lora", "precision": "float32"}
