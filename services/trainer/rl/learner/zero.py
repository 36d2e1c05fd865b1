"""DeepSpeed ZeRO: optimizer state, gradients and weights sharded over the processes.

Rajbhandari et al. 2020, ZeRO: Memory Optimizations Toward Training Trillion Parameter Models,
arXiv:1910.02054. Stage 1 shards the optimizer state, 2 also gradients, 3 also weights.
"""

import math
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import deepspeed
import torch
from deepspeed.utils import (
    safe_get_full_fp32_param,
    safe_get_full_optimizer_state,
    safe_set_full_fp32_param,
    safe_set_full_optimizer_state,
)
from torch import Tensor

from services.contracts.training.optimizer import OptimizerSettings
from services.trainer.errors import Diverged
from services.trainer.rl.learner.model import LanguageModel
from services.trainer.rl.learner.parallel import POLICY, Build, ParameterState, full_on_cpu

_COUNT = "step"
DEFAULT_STAGE = 2


class ZeroStrategy:
    """The optimizer works on float32 shards, whatever the compute dtype.

    One norm covers all gradients, a critic's included. Non-finite gradients are detected only after
    the step, when the weights are already corrupt.
    """

    def __init__(self, device: torch.device, settings: OptimizerSettings, *, bf16: bool) -> None:
        """``bf16``: the model is stored and computed in bfloat16."""
        self._device = device
        self._settings = settings
        self._bf16 = bf16
        self._engine: Any = None
        self._adam: Any = None

    def prepare(self, model: LanguageModel, build: Build) -> tuple[Any, Any]:
        model.to(self._device)
        self._adam = build(model)
        self._engine, *_ = deepspeed.initialize(
            model=model, optimizer=self._adam, config=self._config(), dist_init_required=False
        )
        return self._engine, self._adam

    def sync_gradients(self, *, enabled: bool) -> AbstractContextManager[None]:
        self._engine.set_gradient_accumulation_boundary(enabled)
        return nullcontext()

    def backward(self, loss: Tensor) -> None:
        self._engine.backward(loss)

    def step(self) -> Mapping[str, float]:
        self._engine.step()
        norm = float(self._engine.get_global_grad_norm())
        if not math.isfinite(norm):
            raise Diverged(f"the gradient norm is not finite: {norm}")
        return {POLICY: norm}

    def gather(self, parameter: Tensor, *, keep: bool) -> Tensor:
        return full_on_cpu(safe_get_full_fp32_param(parameter), keep=keep, copy=True)

    def optimizer_state(self, parameter: Tensor, *, keep: bool) -> Mapping[str, Tensor]:
        if not self._adam.state:
            return {}
        part = next(iter(self._adam.state.values()))
        names = [name for name in part if name != _COUNT]
        optimizer_state = {
            name: full_on_cpu(safe_get_full_optimizer_state(parameter, name), keep=keep, copy=True)
            for name in names
        }
        return {_COUNT: full_on_cpu(part[_COUNT], keep=keep, copy=True), **optimizer_state}

    def restore(self, states: Iterable[ParameterState]) -> None:
        allocated = False
        for parameter, value, optimizer_state in states:
            if optimizer_state and not allocated:
                self._allocate_moments()
                allocated = True
            safe_set_full_fp32_param(parameter, value.to(self._device))
            if parameter.shape == value.shape:  # up to stage 2 the model has its own copy
                with torch.no_grad():
                    parameter.copy_(value)
            for name, moment in optimizer_state.items():
                if name != _COUNT:
                    safe_set_full_optimizer_state(parameter, moment.to(self._device), name)
                    continue
                for part in self._adam.state.values():
                    part[_COUNT].copy_(moment)

    def _allocate_moments(self) -> None:
        """Take a zero-learning-rate step: DeepSpeed allocates its moments in the first step."""
        rates = [group["lr"] for group in self._adam.param_groups]
        for group in self._adam.param_groups:
            group["lr"] = 0.0
        token_ids = torch.zeros(2, dtype=torch.long, device=self._device)
        places = torch.zeros(1, dtype=torch.long, device=self._device)
        readings, values = self._engine(token_ids, [2], places, lambda logits, _: (logits.sum(-1),))
        with self.sync_gradients(enabled=True):
            outputs = readings if values is None else (*readings, values)
            self.backward(0.0 * torch.stack([each.sum() for each in outputs]).sum())
        self._engine.step()
        for group, rate in zip(self._adam.param_groups, rates, strict=True):
            group["lr"] = rate

    def _config(self) -> dict[str, Any]:
        zero: dict[str, Any] = {"stage": self._settings.zero_stage or DEFAULT_STAGE}
        if self._settings.offload:
            zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
        return {
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": 1,
            "gradient_clipping": self._settings.max_grad_norm,
            "bf16": {"enabled": self._bf16},
            "zero_optimization": zero,
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
        }
