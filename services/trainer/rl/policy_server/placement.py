"""Which of the leased GPUs the learner and the engines use."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from services.contracts.engine import VllmOptions
from services.contracts.errors import InvalidRequest
from services.contracts.training.online import DistillationMethod
from services.contracts.training.optimizer import OptimizerSettings, TrainingType
from services.contracts.training.placement import OnlinePlacement, PlacementMode
from services.trainer.rl.direct import Transport
from services.trainer.rl.spec import Online, OnlineSpec

FIELD = "placement"


@dataclass(frozen=True)
class Devices:
    """The learner's GPUs, and one set per engine; None: engines have no GPU.

    ``engine_memory`` is the fraction of GPU memory that engines take, None: vLLM's default.
    ``sleep``: engines release it while the learner updates.
    """

    trainer: tuple[str, ...] = ()
    engines: tuple[tuple[str, ...], ...] | None = None
    engine_memory: float | None = None
    sleep: bool = False


def divide(gpus: Sequence[str], placement: OnlinePlacement, *, gpus_per_engine: int = 1) -> Devices:
    """Divide ``gpus`` between the learner and as many engines as fit.

    Raises `InvalidRequest` if there are too few.
    """
    if not gpus:
        if placement.mode is PlacementMode.SPLIT:
            raise _too_few("split needs two GPUs", "mode")
        return Devices()
    split = placement.mode is PlacementMode.SPLIT
    if placement.mode is PlacementMode.AUTO:
        split = len(gpus) > 1
    if not split:
        return Devices(
            tuple(gpus),
            _split(gpus, gpus_per_engine),
            placement.engine_memory,
            placement.sleep,
        )
    trainers = placement.trainer_gpus or len(gpus) // 2
    if not 0 < trainers < len(gpus):
        raise _too_few(
            f"{trainers} of {len(gpus)} GPUs for the trainer must leave at least one for each side",
            "trainer_gpus",
        )
    return Devices(tuple(gpus[:trainers]), _split(gpus[trainers:], gpus_per_engine))


def _split(gpus: Sequence[str], size: int) -> tuple[tuple[str, ...], ...]:
    if len(gpus) < size:
        raise _too_few(f"an engine needs {size} GPUs, and there are {len(gpus)}", "mode")
    return tuple(tuple(gpus[i : i + size]) for i in range(0, len(gpus) - size + 1, size))


def _too_few(message: str, field: str) -> InvalidRequest:
    return InvalidRequest(message, param=f"{FIELD}.{field}")


def transport_of(devices: Devices, optimizer: OptimizerSettings) -> Transport:
    """What there is on both sides: an engine on the learner's only GPU opens its memory, engines on
    other GPUs get a broadcast. Adapters, sharded models, and engines that share several GPUs with
    the learner use files, and so does a host without GPUs."""
    if optimizer.training_type is not TrainingType.FULL or devices.engines is None:
        return Transport.FILES
    if devices.engines == (devices.trainer,) and len(devices.trainer) == 1:
        return Transport.IPC
    if len(devices.trainer) > 1 and optimizer.strategy != "ddp":
        return Transport.FILES
    used = {gpu for engine in devices.engines for gpu in engine}
    return Transport.FILES if used & set(devices.trainer) else Transport.NCCL


def engine_options(online: Online, spec: OnlineSpec, devices: Devices) -> VllmOptions:
    """vLLM options of each engine of the job: engines share the memory left by the learner."""
    options = online.hyperparameters.engine
    share = devices.engine_memory or options.gpu_memory_utilization
    engines = 2 if serves_teacher(online, spec) else 1
    return options.model_copy(update={"gpu_memory_utilization": share / engines})


def serves_teacher(online: Online, spec: OnlineSpec) -> bool:
    """Whether a local teacher samples, and so needs an engine."""
    if not isinstance(online, DistillationMethod) or not isinstance(spec.teacher, Path):
        return False
    return online.hyperparameters.seq_kd and online.hyperparameters.lmbda < 1.0
