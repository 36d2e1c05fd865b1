"""The engines of a training, before they are started: the policy's, and what they share."""

from pathlib import Path

from pydantic import BaseModel, ValidationError

from services.contracts.adaptation import TrainingType
from services.contracts.engine import VllmOptions
from services.contracts.errors import InvalidRequest
from services.contracts.online import DistillationMethod, OnlineSettings
from services.core.process.reporter import Reporter
from services.inference.vllm.server import StartupProgress
from services.trainer.rl.engine import PolicyEngine
from services.trainer.rl.engine.devices import Devices
from services.trainer.rl.method import Online
from services.trainer.rl.policy_sync import PolicySync
from services.trainer.rl.spec import OnlineSpec

ADAPTER_CONFIG = "adapter_config.json"
MOST_ADAPTERS = 5


async def policy_engine(
    spec: OnlineSpec,
    online: Online,
    devices: Devices,
    sync: PolicySync,
    version: int,
    job_dir: Path,
    reporter: Reporter,
) -> PolicyEngine:
    """The engine of the policy, not started yet.

    Whole weights are published first, so that it starts with them; adapters it loads once it
    serves the base.
    """

    def tell(progress: StartupProgress) -> None:
        elapsed = round(progress.elapsed_seconds, 1)
        reporter.message(f"vLLM: {progress.phase} ({elapsed} s)", elapsed_seconds=elapsed)

    settings = online.hyperparameters
    rank = _lora_rank(spec, settings)
    return PolicyEngine(
        spec.vllm.python,
        spec.model if rank is not None else await sync.publish(version),
        job_dir,
        engine_options(online, spec, devices),
        tokenizer=spec.model,
        lora_rank=rank,
        adapters=min(settings.max_staleness + 2, MOST_ADAPTERS),
        devices=devices.engines,
        sleep=devices.sleep,
        version=version,
        on_progress=tell,
    )


def engine_options(online: Online, spec: OnlineSpec, devices: Devices) -> VllmOptions:
    """How each engine of the job is started: they share the memory that is not the trainer's."""
    options = online.hyperparameters.engine
    share = devices.engine_memory or options.gpu_memory_utilization
    engines = 2 if serves_teacher(online, spec) else 1
    return options.model_copy(update={"gpu_memory_utilization": share / engines})


def serves_teacher(online: Online, spec: OnlineSpec) -> bool:
    """Whether a local teacher writes samples, for which it needs an engine of its own."""
    if not isinstance(online, DistillationMethod) or not isinstance(spec.teacher, Path):
        return False
    return online.hyperparameters.seq_kd and online.hyperparameters.lmbda < 1.0


class _AdapterConfig(BaseModel):
    r: int


def _lora_rank(spec: OnlineSpec, settings: OnlineSettings) -> int | None:
    """The rank of what is trained; None where all weights are."""
    optimisation = settings.optimisation
    if optimisation.training_type is not TrainingType.LORA:
        return None
    if spec.adapter is None:
        return optimisation.lora.rank
    try:
        return _AdapterConfig.model_validate_json((spec.adapter / ADAPTER_CONFIG).read_bytes()).r
    except (OSError, ValidationError) as error:
        message = f"{spec.adapter} is no LoRA adapter: {error}"
        raise InvalidRequest(message, param="model") from error
