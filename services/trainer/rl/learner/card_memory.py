"""The learner's GPU memory: its share beside an engine, and AdamW with moments in host memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from services.contracts.failures import FailureCode
from services.trainer.errors import TrainingFailure
from services.trainer.rl.learner.protocol import ColocatedEngine

MOMENTS = ("exp_avg", "exp_avg_sq")


class HostAdamW(torch.optim.AdamW):  # type: ignore[misc]  # torch is untyped here
    """AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101) with 8 bytes less of GPU memory per
    trained weight.

    A step moves the moments of one parameter at a time to its device and back; the result equals
    that of `torch.optim.AdamW`, with the same state names.
    """

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is untyped here
    def step(self, closure: Callable[[], float] | None = None) -> None:
        """Update all parameters that have a gradient; closures are not supported."""
        if closure is not None:
            raise ValueError("a closure is not supported")
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step(parameter, group)

    def _step(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)
            state |= {name: on_host(torch.zeros_like(parameter)) for name in MOMENTS}
        moments = [state[name].to(parameter.device, non_blocking=True) for name in MOMENTS]
        beta1, beta2 = group["betas"]
        adamw(
            [parameter],
            [parameter.grad],
            *([moment] for moment in moments),
            [],
            [state["step"]],
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )
        for name, moment in zip(MOMENTS, moments, strict=True):
            if state[name].device != moment.device:
                state[name].copy_(moment)


def on_host(tensor: Tensor) -> Tensor:
    """A tensor in host memory; pinned, for fast copies, where there is a GPU."""
    held = tensor.to("cpu")
    return held.pin_memory() if torch.cuda.is_available() else held


CONTEXT_BYTES = 1 << 30
"""Memory that CUDA and NCCL use outside the allocator, whose statistics omit it."""


class CardMemory:
    """Keeps the learner out of the memory of a colocated engine; without one it does nothing.

    A caching allocator holds on to freed memory, so an engine that starts or wakes runs out of it.
    So the learner's memory is capped while the engine is awake: the learner fails first, with a
    message that names the setting.
    """

    def __init__(self, device: torch.device, engine: ColocatedEngine | None) -> None:
        """Cap the memory immediately if the engine shares this device."""
        self._device = device
        self._engine = engine if device.type == "cuda" else None
        self._cap = 1.0
        if self._engine is not None:
            total = torch.cuda.get_device_properties(device).total_memory
            self._cap = max(0.0, 1.0 - self._engine.memory - CONTEXT_BYTES / total)
            torch.cuda.set_per_process_memory_fraction(self._cap, device)

    @contextmanager
    def update(self) -> Iterator[None]:
        """Lift the cap for the duration of an update, if the engine sleeps through it. Raises
        `TrainingFailure` if the memory still in use afterwards leaves the engine no room to wake.
        """
        if self._engine is None or not self._engine.sleeps:
            yield
            return
        torch.cuda.set_per_process_memory_fraction(1.0, self._device)
        yield
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(self._cap, self._device)
        self._check_room()

    def _check_room(self) -> None:
        held = torch.cuda.memory_reserved(self._device)
        total = torch.cuda.get_device_properties(self._device).total_memory
        if held > self._cap * total:
            raise TrainingFailure(
                f"weights and optimizer keep {held / 1e9:.1f} GB of the GPU's "
                f"{total / 1e9:.1f} GB, and the engine cannot wake beside them: "
                f"lower placement.engine_memory, set optimizer.offload, or use more GPUs",
                code=FailureCode.OUT_OF_MEMORY,
                param="placement.engine_memory",
            )
