"""The memory estimate of a fine-tuning request: shown in the job, and a reason to refuse it."""

import json
from pathlib import Path

from sqlalchemy.orm import Session

from services.api.settings import ApiSettings
from services.contracts.errors import InvalidRequest, NotFound
from services.contracts.failures import FailureCode, hint_of
from services.contracts.fine_tuning import CreateFineTuningJob, MemoryEstimate
from services.core.artifacts import Artifacts
from services.core.jobs.queues import TRAINING
from services.core.jobs.workers import largest_gpu
from services.core.model_shape import ModelShape, model_shape
from services.core.registry import resolve_model
from services.core.training_memory import estimate, load_of


def estimate_memory(
    session: Session, request: CreateFineTuningJob, settings: ApiSettings
) -> MemoryEstimate | None:
    """Estimate what an offline method needs on each GPU.

    None for online methods, for models whose config.json is not here yet or not understood, and
    for jobs on CPU slots. Raises `InvalidRequest` when no GPU of a running worker is large enough.
    """
    offline = None if request.method is None else request.method.offline
    card = largest_gpu(session, TRAINING.work)
    if offline is None or request.gpus == 0 or (request.gpus is None and card is None):
        return None
    shape = _shape(session, request.model, settings)
    if shape is None:
        return None
    found = estimate(shape, load_of(shape, offline, request.gpus or 1), card)
    if found.fits is False:
        raise InvalidRequest(
            f"training needs about {found.needed_gb:.1f} GB on each GPU "
            f"({found.base_gb:.1f} GB for weights and optimizer with a margin of a fifth, "
            f"{found.activations_gb:.1f} GB for activations); the largest GPU has "
            f"{found.card_gb:.1f} GB. {hint_of(FailureCode.INSUFFICIENT_MEMORY)}",
            param="model",
            code=FailureCode.INSUFFICIENT_MEMORY,
        )
    return found


def _shape(session: Session, model: str, settings: ApiSettings) -> ModelShape | None:
    try:
        resolved = resolve_model(session, model, settings.models_folder, Artifacts(settings.home))
    except (InvalidRequest, NotFound):
        return None  # the job will say what is missing
    return None if resolved.weights.path is None else read_shape(resolved.weights.path)


def read_shape(folder: Path) -> ModelShape | None:
    """The shape of the model in a folder; None when its configuration cannot be read."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return model_shape(config) if isinstance(config, dict) else None
