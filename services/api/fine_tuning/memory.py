"""The memory estimate of a fine-tuning request, which is rejected if no GPU is large enough."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from services.api.settings import ApiSettings
from services.contracts.errors import InvalidRequest, NotFound
from services.contracts.failures import FailureCode, hint_of
from services.contracts.training.fine_tuning import CreateFineTuningJob, MemoryEstimate
from services.contracts.training.online import DistillationMethod, OnlineSettings, TeacherModel
from services.core.artifacts import Artifacts
from services.jobs.queues import TRAINING
from services.jobs.workers import largest_gpu
from services.models.capacity.online import Online, estimate_learner, learner_load, learner_share
from services.models.capacity.remedies import offline_remedy, online_remedy
from services.models.capacity.shape import ModelShape, read_shape
from services.models.capacity.training import USABLE, estimate, load_of
from services.models.registry import ResolvedModel, locate_model


def estimate_memory(
    session: Session, request: CreateFineTuningJob, settings: ApiSettings
) -> MemoryEstimate | None:
    """Estimate what training needs on each GPU; online, what the learner needs.

    None for models whose config.json is not local yet or not understood, and for jobs on CPU slots.
    Raises `InvalidRequest` when no GPU of a running worker is large enough.
    """
    card = largest_gpu(session, TRAINING.work)
    method = request.method
    if method is None or request.gpus == 0 or (request.gpus is None and card is None):
        return None
    resolved = located_model(session, request.model, settings)
    shape = _shape(resolved)
    if resolved is None or shape is None:
        return None
    gpus = request.gpus or 1
    if method.online is None:
        offline = method.offline
        if offline is None:
            return None
        found = estimate(shape, load_of(shape, offline, gpus), card)
        if found.fits is False and card is not None:
            raise _too_large(found, USABLE, offline_remedy(shape, offline, gpus, card))
        return found
    learner = _Learner(
        shape, method.online, gpus, card, _teacher(session, method.online, settings), resolved
    )
    found = learner.estimate(method.online.hyperparameters)
    if found.fits is False:
        raise _too_large(found, learner.usable, learner.remedy())
    return found


@dataclass(frozen=True)
class _Learner:
    """The learner of an online training, on GPUs of ``card`` bytes."""

    shape: ModelShape
    online: Online
    gpus: int
    card: int | None
    teacher: ModelShape | None
    model: ResolvedModel

    def estimate(self, settings: OnlineSettings) -> MemoryEstimate:
        """What it would need with these settings in place of its own."""
        online = self.online.model_copy(update={"hyperparameters": settings})
        load = learner_load(
            self.shape,
            online,
            devices=max(1, settings.placement.learner_gpus(self.gpus)),
            continues_adapter=self.model.adapter is not None,
            teacher=self.teacher,
        )
        share = learner_share(settings.placement, colocated=self._colocated)
        return estimate_learner(load, settings.optimizer, share, self.card)

    @property
    def usable(self) -> float:
        """The share of a GPU that it may fill during an update."""
        placement = self.online.hyperparameters.placement
        return learner_share(placement, colocated=self._colocated).updating

    def remedy(self) -> str | None:
        """Settings with which it fits."""
        settings = self.online.hyperparameters
        return online_remedy(settings, colocated=self._colocated, estimated=self.estimate)

    @property
    def _colocated(self) -> bool:
        return not self.online.hyperparameters.placement.splits(self.gpus)


def _too_large(found: MemoryEstimate, usable: float, remedy: str | None) -> InvalidRequest:
    card = found.card_gb or 0.0
    left = "" if usable == USABLE else f", of which its engine leaves {usable * card:.1f} GB"
    advice = f"It fits with {remedy}." if remedy else hint_of(FailureCode.INSUFFICIENT_MEMORY)
    return InvalidRequest(
        f"training needs about {found.needed_gb:.1f} GB on each GPU "
        f"({found.base_gb:.1f} GB for weights and optimizer, "
        f"{found.activations_gb:.1f} GB for activations and logits); the largest GPU has "
        f"{card:.1f} GB{left}. {advice}",
        param="model",
        code=FailureCode.INSUFFICIENT_MEMORY,
    )


def _teacher(session: Session, online: Online, settings: ApiSettings) -> ModelShape | None:
    """The shape of a local teacher, which the learner loads beside the policy."""
    if not isinstance(online, DistillationMethod):
        return None
    teacher = online.hyperparameters.teacher
    if not isinstance(teacher, TeacherModel):
        return None
    return _shape(located_model(session, teacher.model, settings))


def located_model(session: Session, model: str, settings: ApiSettings) -> ResolvedModel | None:
    """The model of a name; None where something is missing."""
    try:
        return locate_model(session, model, settings.models_folder, Artifacts(settings.home))
    except (InvalidRequest, NotFound):
        return None  # the job reports what is missing


def _shape(model: ResolvedModel | None) -> ModelShape | None:
    if model is None or model.weights.path is None:
        return None
    return read_shape(model.weights.path)
