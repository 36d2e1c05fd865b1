"""The learner's processes, and how they parallelize training (DDP, FSDP2, ZeRO)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from services.contracts.training.optimizer import OptimizerSettings
from services.trainer.errors import Diverged
from services.trainer.rl.learner.card_memory import HostAdamW, on_host
from services.trainer.rl.learner.model import LanguageModel

POLICY = "grad_norm"
CRITIC = "critic_grad_norm"
"""Names of the optimizer's parameter groups: the metrics of their gradient norms."""
TIMEOUT = timedelta(minutes=30)
"""Timeout of a collective operation."""

Build = Callable[[LanguageModel], torch.optim.Optimizer]


class ParameterState(NamedTuple):
    """A parameter, its full value, and its optimizer state by name."""

    parameter: Tensor
    value: Tensor
    optimizer_state: Mapping[str, Tensor]


class ParallelStrategy(Protocol):
    """What differs between the forms of parallelism. Every method is collective."""

    def prepare(self, model: LanguageModel, build: Build) -> tuple[Any, Any]:
        """Move a model to the devices and build its optimizer; returns the callable in place of the
        model, and the optimizer, whose groups hold the learning rates."""
        ...

    def sync_gradients(self, *, enabled: bool) -> AbstractContextManager[None]:
        """A context for backward passes; gradients are synced only if ``enabled``."""
        ...

    def backward(self, loss: Tensor) -> None:
        """Add a gradient; syncing averages over all processes."""
        ...

    def step(self) -> Mapping[str, float]:
        """Take an optimizer step with clipped gradients, and zero them.

        Returns their norms before clipping, by metric name. Raises `Diverged`.
        """
        ...

    def gather(self, parameter: Tensor, *, keep: bool) -> Tensor:
        """A trained parameter on the CPU, in the optimizer's precision; empty without ``keep``. It
        may be the parameter's own memory."""
        ...

    def optimizer_state(self, parameter: Tensor, *, keep: bool) -> Mapping[str, Tensor]:
        """CPU copies of a parameter's optimizer state; empty without ``keep`` or before the first
        step."""
        ...

    def restore(self, states: Iterable[ParameterState]) -> None:
        """Set parameters and optimizer state to what `gather` and `optimizer_state` returned."""
        ...


class DataParallel:
    """A full copy in each process (DDP); a single process has the only copy."""

    def __init__(self, accelerator: Accelerator, max_norm: float) -> None:
        self._accelerator = accelerator
        self._max_norm = max_norm
        self._model: Any = None
        self._optimizer: Any = None

    def prepare(self, model: LanguageModel, build: Build) -> tuple[Any, Any]:
        self._model = self._accelerator.prepare_model(model)
        self._optimizer = build(model)
        return self._model, self._optimizer

    def sync_gradients(self, *, enabled: bool) -> AbstractContextManager[None]:
        return nullcontext() if enabled else self._accelerator.no_sync(self._model)

    def backward(self, loss: Tensor) -> None:
        loss.backward()

    def step(self) -> Mapping[str, float]:
        norms = clip_gradients(self._optimizer, self._max_norm)
        self._optimizer.step()
        self._optimizer.zero_grad()
        return norms

    def gather(self, parameter: Tensor, *, keep: bool) -> Tensor:
        return full_on_cpu(parameter, keep=keep)

    def optimizer_state(self, parameter: Tensor, *, keep: bool) -> Mapping[str, Tensor]:
        return {
            name: full_on_cpu(each, keep=keep, copy=True)
            for name, each in self._optimizer.state[parameter].items()
        }

    def restore(self, states: Iterable[ParameterState]) -> None:
        for parameter, value, optimizer_state in states:
            with torch.no_grad():
                parameter.copy_(_distribute_like(parameter, value))
            for name, moment in optimizer_state.items():
                # The step count is a scalar, which optimizers keep on the CPU.
                is_number = moment.shape != parameter.shape
                laid = moment if is_number else self._laid(parameter, moment)
                self._optimizer.state[parameter][name] = laid

    def _laid(self, parameter: Tensor, moment: Tensor) -> Tensor:
        if isinstance(self._optimizer, HostAdamW):
            return on_host(moment)
        return _distribute_like(parameter, moment)


class FullySharded(DataParallel):
    """A shard of each layer in each process (FSDP2); layers are gathered while they compute.

    With ``bf16`` layers are gathered in bfloat16, and gradients reduced in float32; weights outside
    the layers, such as the output layer, are gathered in their own dtype. No device ever holds all
    weights.
    """

    def __init__(self, accelerator: Accelerator, max_norm: float, *, bf16: bool) -> None:
        super().__init__(accelerator, max_norm)
        self._precision = MixedPrecisionPolicy(cast_forward_inputs=False)
        if bf16:
            self._precision = MixedPrecisionPolicy(
                torch.bfloat16, torch.float32, cast_forward_inputs=False
            )

    def prepare(self, model: LanguageModel, build: Build) -> tuple[Any, Any]:
        """Shard a model: the main process's weights, and on the meta device in the others."""
        weights: dict[str, Tensor] = {}
        if self._accelerator.is_main_process:
            weights = {name: each.detach() for name, each in model.named_parameters()}
            weights |= dict(model.named_buffers())
        with tied_again(model):
            model.to("meta")
        for module in [each for each in model.modules() if model.is_layer(each)]:
            fully_shard(module, mp_policy=self._precision)
        # What is not in a layer too: gathered weights are not those that the optimizer knows, and
        # a checkpoint after a forward pass would miss their optimizer_state.
        self._model = fully_shard(model, reshard_after_forward=True)
        device = self._accelerator.device
        with tied_again(model):
            model.to_empty(device=device)
        _scatter(model, weights, device)
        self._optimizer = build(model)
        return self._model, self._optimizer

    def sync_gradients(self, *, enabled: bool) -> AbstractContextManager[None]:
        self._model.set_requires_gradient_sync(enabled)
        return nullcontext()


@contextmanager
def tied_again(model: nn.Module) -> Iterator[None]:
    """Restore weight tying after the block, which replaces every parameter."""
    places: dict[Tensor, list[tuple[nn.Module, str]]] = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            places.setdefault(parameter, []).append((module, name))
    yield
    for (first, its_name), *others in places.values():
        for module, name in others:
            setattr(module, name, getattr(first, its_name))


def _scatter(model: nn.Module, weights: dict[str, Tensor], device: torch.device) -> None:
    """Fill a sharded model with the main process's ``weights``, one tensor at a time; the other
    processes pass none, and receive their shards."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            full = weights.pop(name, None)
            if full is None:
                full = torch.empty(parameter.shape, dtype=parameter.dtype, device=device)
            parameter.copy_(_distribute_like(parameter, full))
        for name, buffer in model.named_buffers():
            if name in weights:
                buffer.copy_(weights.pop(name))
            dist.broadcast(buffer, 0)


def clip_gradients(optimizer: Any, max_norm: float) -> dict[str, float]:
    """Clip the gradient of each group to ``max_norm``; return the norms before.

    Raises `Diverged` for a non-finite norm: the weights are still intact then.
    """
    norms: dict[str, float] = {}
    for group in optimizer.param_groups:
        norm = torch.nn.utils.clip_grad_norm_(group["params"], max_norm)
        norms[group["name"]] = _full(norm).item()
    if not all(torch.isfinite(torch.tensor(list(norms.values())))):
        raise Diverged(f"the gradient norm is not finite: {norms}")
    return norms


def _full(tensor: Tensor) -> Tensor:
    """The full tensor, sharded or not."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def full_on_cpu(tensor: Tensor, *, keep: bool, copy: bool = False) -> Tensor:
    """A full tensor on the CPU, sharded or not, copied if it is elsewhere or with ``copy``; without
    ``keep`` only take part in gathering it."""
    full = _full(tensor)
    if not keep:
        return torch.empty(0)
    return full.detach().to("cpu", copy=copy).contiguous()


def _distribute_like(tensor: Tensor, full: Tensor) -> Tensor:
    """Move a full tensor to the device of another one and shard it alike."""
    placed = full.to(tensor.device)
    if isinstance(tensor, DTensor):
        return distribute_tensor(placed, tensor.device_mesh, tensor.placements)
    return placed


class ProcessGroup:
    """The processes that train together, seen from one of them; a single process is a group of
    one."""

    def __init__(self, settings: OptimizerSettings) -> None:
        """Join the group that torch's launcher describes in the environment."""
        group = InitProcessGroupKwargs(timeout=TIMEOUT)
        self._accelerator = Accelerator(kwargs_handlers=[group])
        self._wire = dist.new_group(backend="gloo") if self.world_size > 1 else None
        self.computes_in_bf16 = _computes_in_bf16(settings)
        """Whether forward passes run in bfloat16."""
        self.strategy = self._strategy(settings)
        """How they parallelize a model and its optimizer."""
        self.offloads = settings.offload and type(self.strategy) is DataParallel
        """Whether optimizer states are offloaded to host memory; DeepSpeed offloads its own."""

    @property
    def rank(self) -> int:
        """This process's rank."""
        return int(self._accelerator.process_index)

    @property
    def world_size(self) -> int:
        """The number of processes."""
        return int(self._accelerator.num_processes)

    @property
    def is_main(self) -> bool:
        """Whether this process talks to the coordinator and writes files."""
        return self.rank == 0

    @property
    def device(self) -> torch.device:
        """This process's device."""
        return self._accelerator.device

    @property
    def receives_weights(self) -> bool:
        """Whether the main process sends this one its weights: it loads models on the meta
        device."""
        return isinstance(self.strategy, FullySharded) and not self.is_main

    def prepare(self, model: LanguageModel, build: Build) -> tuple[Any, Any]:
        """Place a trained model; returns the callable in its place, and its optimizer."""
        return self.strategy.prepare(model, build)

    def prepare_frozen(self, model: LanguageModel) -> LanguageModel:
        """Move a frozen model to this process's device."""
        model.to(self.device)
        model.eval()
        return model

    def sum(self, tensor: Tensor) -> Tensor:
        """All-reduce with sum, in place."""
        if self.world_size > 1:
            dist.all_reduce(tensor)
        return tensor

    def maximum(self, tensor: Tensor) -> Tensor:
        """All-reduce with maximum, in place."""
        if self.world_size > 1:
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return tensor

    def gradients(self, *, last: bool) -> AbstractContextManager[None]:
        """A context for backward passes; only the ``last`` one syncs gradients."""
        return self.strategy.sync_gradients(enabled=last)

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of this process's part of a sum (syncing averages, hence the factor)."""
        self.strategy.backward(loss * self.world_size)

    def step(self) -> Mapping[str, float]:
        """Take an optimizer step; returns the gradient norms before clipping. Raises `Diverged`."""
        return self.strategy.step()

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.world_size > 1:
            dist.barrier()

    def broadcast(self, read: Callable[[], bytes]) -> bytes:
        """Run ``read`` in the main process and return its result in every process."""
        if self._wire is None:
            return read()
        content = read() if self.is_main else b""
        length = torch.tensor(len(content))
        dist.broadcast(length, 0, group=self._wire)
        buffer = torch.zeros(int(length), dtype=torch.uint8)
        if content:
            buffer.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        dist.broadcast(buffer, 0, group=self._wire)
        return bytes(buffer.tolist())

    def _strategy(self, settings: OptimizerSettings) -> ParallelStrategy:
        if self.world_size == 1 or settings.strategy == "ddp":
            return DataParallel(self._accelerator, settings.max_grad_norm)
        if settings.strategy == "fsdp":
            return FullySharded(
                self._accelerator, settings.max_grad_norm, bf16=self.computes_in_bf16
            )
        # Imported late: it takes seconds and probes for compilers.
        zero = import_module("services.trainer.rl.learner.zero").ZeroStrategy
        strategy: ParallelStrategy = zero(self.device, settings, bf16=self.computes_in_bf16)
        return strategy


def _computes_in_bf16(settings: OptimizerSettings) -> bool:
    if settings.dtype != "auto":
        return settings.dtype == "bfloat16"
    return bool(torch.cuda.is_available() and torch.cuda.is_bf16_supported())
