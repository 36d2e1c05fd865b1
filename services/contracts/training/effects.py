"""Settings of online training that were changed and would have no effect, or a senseless one.

They are refused in new requests; those of earlier versions remain readable.
"""

from pydantic import BaseModel

from services.contracts.errors import InvalidRequest
from services.contracts.rewards.signs import negative_reason
from services.contracts.training.curriculum import Curriculum
from services.contracts.training.objectives import unread_fields
from services.contracts.training.online import (
    Critic,
    DistillationMethod,
    PpoMethod,
    ReinforcementHyperparameters,
    ReinforcementMethod,
)
from services.contracts.training.optimizer import LoraSettings, OptimizerSettings, TrainingType
from services.contracts.training.policy_loss import AdvantageEstimator, KlTo, PolicyLoss

ONLY_POSITIVE = "the advantage max_rl is for rewards that are not negative"


def check_effects(online: ReinforcementMethod | PpoMethod | DistillationMethod) -> None:
    """Raise `InvalidRequest` for the first of them, with its field below the method."""
    _check_optimizer(online.hyperparameters.optimizer)
    if not isinstance(online, DistillationMethod):
        _check_loss(online.hyperparameters.loss)
    if isinstance(online, PpoMethod):
        _check_critic(online.hyperparameters.critic)
    if isinstance(online, ReinforcementMethod):
        _check_signs(online)
        _check_truncated(online.hyperparameters)
        _check_curriculum(online.hyperparameters.curriculum)


def _check_optimizer(optimizer: OptimizerSettings) -> None:
    if optimizer.training_type is TrainingType.FULL and optimizer.lora != LoraSettings():
        message = "has no effect with training_type full"
        raise InvalidRequest(message, param="hyperparameters.optimizer.lora")


def _check_critic(critic: Critic) -> None:
    if critic.kind == "separate" and critic.coefficient != Critic().coefficient:
        message = "has no effect on a separate critic, which has a learning rate of its own"
        raise InvalidRequest(message, param="hyperparameters.critic.coefficient")


def _check_loss(loss: PolicyLoss) -> None:
    for path, readers in unread_fields(loss.objective).items():
        if _is_changed(loss, path):
            raise InvalidRequest(
                f"{path} has no effect with the objective {loss.objective.value}; it belongs to "
                f"{', '.join(each.value for each in readers)}",
                param=f"hyperparameters.loss.{path}",
            )
    if loss.tis_cap is None and _is_changed(loss, "tis_level"):
        message = "tis_level has no effect where tis_cap is null"
        raise InvalidRequest(message, param="hyperparameters.loss.tis_level")


def _is_changed(model: BaseModel, path: str) -> bool:
    """Whether the field at a dotted path has another value than by default."""
    *parents, name = path.split(".")
    for parent in parents:
        model = getattr(model, parent)
    default = type(model).model_fields[name].get_default(call_default_factory=True)
    return bool(getattr(model, name) != default)


def _check_truncated(settings: ReinforcementHyperparameters) -> None:
    """What is not trained on is not scored: its reward would stay without the penalty that lowers
    the others of its group."""
    kl = settings.loss.kl
    if settings.mask_truncated and kl is not None and kl.to is KlTo.REWARD:
        message = "a masked response has no KL penalty in its reward: loss.kl.to must be loss"
        raise InvalidRequest(message, param="hyperparameters.mask_truncated")


def _check_curriculum(curriculum: Curriculum | None) -> None:
    """Only uniform draws reach prompts that were never seen."""
    if curriculum is not None and curriculum.prioritized + curriculum.replay >= 1.0:
        message = (
            "prioritized and replay must leave a share of draws to the prompts that were not seen: "
            "less than 1 together"
        )
        raise InvalidRequest(message, param="hyperparameters.curriculum")


def _check_signs(online: ReinforcementMethod) -> None:
    settings = online.hyperparameters
    if settings.advantage is not AdvantageEstimator.MAX_RL:
        return
    if settings.overlong is not None:
        message = f"{ONLY_POSITIVE}: overlong must be null"
        raise InvalidRequest(message, param="hyperparameters.overlong")
    if settings.loss.kl is not None and settings.loss.kl.to is KlTo.REWARD:
        message = f"{ONLY_POSITIVE}: loss.kl.to must be loss"
        raise InvalidRequest(message, param="hyperparameters.loss.kl.to")
    for number, component in enumerate(online.rewards):
        if (reason := negative_reason(component)) is not None:
            message = f"{ONLY_POSITIVE}: rewards[{number}] {reason}"
            raise InvalidRequest(message, param=f"rewards[{number}]")
