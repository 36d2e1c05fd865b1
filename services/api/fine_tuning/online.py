"""Checks a request for online training before any process is started."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from services.api.models.service import check_endpoint, require_loadable
from services.api.rollouts.service import check_conversation, check_scoring
from services.api.settings import ApiSettings
from services.contracts.engine import Drafts
from services.contracts.errors import InvalidRequest, PermissionDenied
from services.contracts.models.registered import RemoteModel
from services.contracts.rollouts.multi_turn import conversation_warnings
from services.contracts.training.effects import check_effects
from services.contracts.training.fine_tuning import CreateFineTuningJob
from services.contracts.training.online import (
    DistillationHyperparameters,
    DistillationMethod,
    OnlineSettings,
    PolicySettings,
    PpoHyperparameters,
    PpoMethod,
    ReinforcementHyperparameters,
    ReinforcementMethod,
    TeacherModel,
)
from services.contracts.training.optimizer import TrainingType
from services.contracts.training.policy_loss import Anchor, PolicyLoss
from services.contracts.training.rows import HUB_DATASET_PREFIX, SCRIPT_PREFIX

RewardedMethod = ReinforcementMethod | PpoMethod

MAX_SAMPLES = 262_144
"""In flight or waiting at the same time; each is held in memory."""
MIN_TEMPERATURE = 0.01
"""Below it engines sample greedily, whatever the trainer computes."""


def check_online(session: Session, request: CreateFineTuningJob, settings: ApiSettings) -> None:
    """Raise `InvalidRequest` with the field at fault, or `PermissionDenied` for what the operator's
    settings do not allow; methods that are not online pass."""
    method = request.method
    if method is None or method.online is None:
        return
    _check_files(request)
    with prefixed_param(f"method.{method.type.value}"):
        online = method.online
        if not isinstance(online, DistillationMethod):
            check_scoring(session, online.rewards, settings)
        with prefixed_param("hyperparameters"):
            check_conversation(online.hyperparameters, settings)
            _check_sampling(online.hyperparameters)
            _check_placement(online.hyperparameters, request.gpus)
            _check_sample_count(online)
            if isinstance(online, DistillationMethod):
                _check_teacher(session, online.hyperparameters, settings)
            else:
                _check_batches(online)
                if online.hyperparameters.exact_on_policy:
                    _check_exactness(online.hyperparameters, request.gpus)
        check_effects(online)


def online_warnings(request: CreateFineTuningJob) -> list[str]:
    """Settings of online training that are valid but rarely intended."""
    if request.method is None or request.method.online is None:
        return []
    settings = request.method.online.hyperparameters
    warnings = conversation_warnings(settings.multi_turn, settings.tools, settings.prompt_type)
    if isinstance(settings, ReinforcementHyperparameters | PpoHyperparameters):
        warnings += _staleness_warnings(settings.loss, settings.max_staleness)
    return warnings


def _staleness_warnings(loss: PolicyLoss, max_staleness: int) -> list[str]:
    """A loss in which tokens of older weights count as the policy's own."""
    bounds = (loss.tis_cap, loss.token_mask, loss.sequence_mask)
    if max_staleness == 0 or loss.anchor is Anchor.SAMPLER or any(each for each in bounds):
        return []
    return [
        f"nothing corrects for max_staleness {max_staleness}: with loss.anchor old and no "
        "loss.tis_cap, what older weights sampled is learned from as if the newest had sampled it"
    ]


@contextmanager
def prefixed_param(prefix: str) -> Iterator[None]:
    """Prefix the field names of errors raised in the block."""
    try:
        yield
    except (InvalidRequest, PermissionDenied) as error:
        error.param = prefix if error.param is None else f"{prefix}.{error.param}"
        raise


def _check_files(request: CreateFineTuningJob) -> None:
    for param in ("training_files", "validation_files"):
        if getattr(request, param) is not None:
            raise InvalidRequest("online training reads one file, not several", param=param)
    files = {
        "training_file": request.training_file,
        "validation_file": request.validation_file,
    }
    for param, file in files.items():
        if file is not None and file.startswith((HUB_DATASET_PREFIX, SCRIPT_PREFIX)):
            raise InvalidRequest("online training reads an uploaded file", param=param)


def _check_sampling(hyperparameters: OnlineSettings) -> None:
    """Training data must be sampled from the unmodified distribution."""
    sampling = hyperparameters.sampling
    unfiltered = {"top_p": 1.0, "top_k": -1, "min_p": 0.0}
    for name, value in unfiltered.items():
        if getattr(sampling, name) != value:
            raise InvalidRequest(
                f"training needs samples from the full distribution: {name} must be {value}",
                param=f"sampling.{name}",
            )
    if sampling.temperature < MIN_TEMPERATURE:
        message = f"training needs diverse samples: must be at least {MIN_TEMPERATURE}"
        raise InvalidRequest(message, param="sampling.temperature")
    if hyperparameters.optimizer.lora.dropout > 0.0:
        message = (
            "must be 0: the engine samples without dropout, so importance ratios would be wrong"
        )
        raise InvalidRequest(message, param="optimizer.lora.dropout")


def _check_placement(hyperparameters: OnlineSettings, gpus: int | None) -> None:
    placement = hyperparameters.placement
    if placement.sleep and hyperparameters.max_staleness > 0:
        message = (
            "an engine that sleeps during updates cannot sample ahead: requires max_staleness 0"
        )
        raise InvalidRequest(message, param="placement.sleep")
    if placement.trainer_gpus is not None and gpus is not None and placement.trainer_gpus >= gpus:
        message = f"leaves no GPU of {gpus} for the engine"
        raise InvalidRequest(message, param="placement.trainer_gpus")


def _check_exactness(hyperparameters: PolicySettings, gpus: int | None) -> None:
    """Learner and engine have one arithmetic on CPUs alone, and for whole models in float32."""
    if gpus:
        message = "is for jobs without GPUs, whose kernels round differently"
        raise InvalidRequest(message, param="exact_on_policy")
    if hyperparameters.optimizer.training_type is not TrainingType.FULL:
        message = "must be full with exact_on_policy: adapters are sampled merged into their base"
        raise InvalidRequest(message, param="optimizer.training_type")
    if hyperparameters.max_staleness > 0:
        message = "must be 0 with exact_on_policy: older tokens are of another policy"
        raise InvalidRequest(message, param="max_staleness")
    for part in ("engine", "optimizer"):
        if getattr(hyperparameters, part).dtype not in ("auto", "float32"):
            message = "must be float32 or auto with exact_on_policy"
            raise InvalidRequest(message, param=f"{part}.dtype")
    if isinstance(hyperparameters.engine.speculation, Drafts):
        message = "must be auto or null with exact_on_policy"
        raise InvalidRequest(message, param="engine.speculation")


def _check_sample_count(online: RewardedMethod | DistillationMethod) -> None:
    settings = online.hyperparameters
    each = (
        1 if isinstance(online, DistillationMethod) else online.hyperparameters.samples_per_prompt
    )
    samples = settings.prompts_per_step * each * (settings.max_staleness + 1)
    if samples > MAX_SAMPLES:
        message = (
            f"makes {samples:,} samples at a time (prompts_per_step x samples_per_prompt x "
            f"(max_staleness + 1)); {MAX_SAMPLES:,} are allowed"
        )
        raise InvalidRequest(message, param="prompts_per_step")


def _check_batches(online: RewardedMethod) -> None:
    settings = online.hyperparameters
    samples = settings.prompts_per_step * settings.samples_per_prompt
    if settings.mini_batches > samples:
        message = f"must be at most {samples}, the samples of a step"
        raise InvalidRequest(message, param="mini_batches")
    budget = settings.multi_turn.max_total_response_length or settings.sampling.max_tokens
    if settings.overlong is not None and settings.overlong.buffer > budget:
        message = f"must be at most {budget}, the tokens of a response"
        raise InvalidRequest(message, param="overlong.buffer")


def _check_teacher(
    session: Session, hyperparameters: DistillationHyperparameters, settings: ApiSettings
) -> None:
    teacher = hyperparameters.teacher
    if isinstance(teacher, TeacherModel):
        require_loadable(session, teacher.model, settings, "teacher.model")
        return
    try:
        remote = RemoteModel(base_url=teacher.base_url, model=teacher.model)
        check_endpoint(remote, settings.allowed_endpoints)
    except (InvalidRequest, PermissionDenied) as error:
        error.param = "teacher.base_url"
        raise
    if hyperparameters.temperature != 1.0:
        message = "must be 1 with a remote teacher, whose full distribution is unknown"
        raise InvalidRequest(message, param="temperature")
