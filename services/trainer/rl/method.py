"""What the parts of a training need to know of its method."""

from services.contracts.fine_tuning import Method
from services.contracts.online import (
    DistillationMethod,
    OnlineSettings,
    OverlongPenalty,
    PpoMethod,
    ReinforcementMethod,
)
from services.contracts.rewards import WeightedReward
from services.trainer.rl.player import GroupRules
from services.trainer.rl.schedule import Schedule

Online = ReinforcementMethod | PpoMethod | DistillationMethod


def online_method(method: Method) -> Online:
    """The settings of an online method; ValueError for another."""
    if method.online is None:
        raise ValueError(f"{method.type.value} is no online method")
    return method.online


def response_budget(settings: OnlineSettings) -> int:
    """Tokens that a response may have, replies of tools included."""
    return settings.multi_turn.max_total_response_length or settings.sampling.max_tokens


def rewards_of(online: Online) -> list[WeightedReward]:
    """What samples are rewarded for; nothing in distillation."""
    return [] if isinstance(online, DistillationMethod) else online.rewards


def full_marks(online: Online) -> float | None:
    """The reward of a sample that gets 1 from every reward that counts in its favour."""
    rewards = rewards_of(online)
    return sum(max(reward.weight, 0.0) for reward in rewards) - 1e-6 if rewards else None


def overlong_of(online: Online) -> OverlongPenalty | None:
    """The punishment of long responses, where there is one."""
    return None if isinstance(online, DistillationMethod) else online.hyperparameters.overlong


def group_rules(online: Online) -> GroupRules:
    """What makes a group of samples."""
    match online:
        case ReinforcementMethod(hyperparameters=settings):
            filtered = settings.dynamic_sampling is not None
            return GroupRules(settings.samples_per_prompt, usable=2, filtered=filtered)
        case PpoMethod(hyperparameters=ppo):
            return GroupRules(ppo.samples_per_prompt)
        case DistillationMethod():
            return GroupRules(1, rewarded=False)


def schedule_of(online: Online, step: int, version: int) -> Schedule:
    """Which groups may begin, from a step and a policy version on."""
    settings = online.hyperparameters
    size = settings.prompts_per_step
    replacements = None
    if isinstance(online, ReinforcementMethod) and online.hyperparameters.dynamic_sampling:
        replacements = (online.hyperparameters.dynamic_sampling.max_batches - 1) * size
    return Schedule(
        size,
        settings.max_staleness,
        version,
        batches=settings.steps - step,
        replacements=replacements,
    )
