"""The policy's engine of a training: what it loads, how it takes adapters, what it publishes."""

from pathlib import Path

from pydantic import BaseModel, ValidationError

from services.contracts.errors import InvalidRequest
from services.contracts.training.online import OnlineSettings
from services.contracts.training.optimizer import TrainingType
from services.core.artifacts import ADAPTER_CONFIG
from services.core.process.reporter import Reporter
from services.inference.vllm.model_config import read_model_config
from services.inference.vllm.server import StartupProgress
from services.trainer.rl.policy_server.engine import PolicyEngine
from services.trainer.rl.policy_server.placement import Devices, engine_options
from services.trainer.rl.spec import (
    Online,
    OnlineSpec,
    is_exact,
    online_method,
)
from services.trainer.rl.weight_folder import weight_bytes
from services.trainer.rl.weight_sync import WeightSync

MAX_ADAPTERS = 5
"""Versions of an adapter that one engine holds at most."""


async def build_policy_engine(
    spec: OnlineSpec,
    online: Online,
    devices: Devices,
    sync: WeightSync,
    version: int,
    job_dir: Path,
    tokenizer: Path,
    reporter: Reporter,
) -> PolicyEngine:
    """The policy's engine, not started yet.

    Full weights are published first, so that it starts with them; adapters are loaded once it
    serves the base, or published merged into it.
    """

    def report(progress: StartupProgress) -> None:
        elapsed = round(progress.elapsed_seconds, 1)
        reporter.message(f"vLLM: {progress.phase} ({elapsed} s)", elapsed_seconds=elapsed)

    settings = online.hyperparameters
    rank = None if serves_merged(spec) else _lora_rank(spec, settings)
    return PolicyEngine(
        spec.vllm.python,
        spec.model if rank is not None else await sync.publish(version),
        job_dir,
        engine_options(online, spec, devices),
        tokenizer=tokenizer,
        trusted=spec.model in spec.trusted,
        lora_rank=rank,
        adapters=min(settings.max_staleness + 2, MAX_ADAPTERS),
        devices=devices.engines,
        sleep=devices.sleep,
        version=version,
        exact=is_exact(online),
        direct=sync.direct,
        prepare=sync.publish,
        on_progress=report,
    )


def version_bytes(spec: OnlineSpec, online: Online) -> int:
    """The size of a published version: of the model's files, or of its weights in float32."""
    stored = weight_bytes(spec.model)
    in_float32 = is_exact(online) or serves_merged(spec)
    return stored if not in_float32 or read_model_config(spec.model).is_float32 else 2 * stored


def serves_merged(spec: OnlineSpec) -> bool:
    """Whether the engine samples from an adapter that is merged into its base.

    Without a GPU vLLM gathers the adapter's matrices for every token: an answer takes minutes.
    """
    optimizer = online_method(spec.method).hyperparameters.optimizer
    return spec.vllm.on_cpu and optimizer.training_type is TrainingType.LORA


class _AdapterConfig(BaseModel):
    r: int


def _lora_rank(spec: OnlineSpec, settings: OnlineSettings) -> int | None:
    """The rank of the trained adapter; None for full fine-tuning."""
    optimizer = settings.optimizer
    if optimizer.training_type is not TrainingType.LORA:
        return None
    if spec.adapter is None:
        return optimizer.lora.rank
    try:
        return _AdapterConfig.model_validate_json((spec.adapter / ADAPTER_CONFIG).read_bytes()).r
    except (OSError, ValidationError) as error:
        message = f"{spec.adapter} is not a LoRA adapter: {error}"
        raise InvalidRequest(message, param="model") from error
