"""Which components of a reward can be negative, as far as their settings tell."""

from services.contracts.rewards.openai_graders import ScoreModelGrader
from services.contracts.rewards.rewards import (
    JudgeReward,
    RetoolReward,
    RewardModelReward,
    SearchEmReward,
    WeightedReward,
)


def negative_reason(component: WeightedReward) -> str | None:
    """Why a component can take from the sum of rewards; None where its settings do not say so.

    The scores of services, functions, agents, environments, extensions, formulas and scripts are
    known only when they are given.
    """
    if component.weight == 0:
        return None
    if component.weight < 0:
        return "has a negative weight"
    reason = None
    match component.reward:
        case RetoolReward():
            reason = "is retool, which scores wrong answers below 0"
        case SearchEmReward(format_score=score) if score < 0:
            reason = "has a format_score below 0"
        case JudgeReward(normalize=False, range=(least, _)) if least < 0:
            reason = "has a range from below 0: set normalize"
        case ScoreModelGrader(range=[least, _]) if least < 0:
            reason = "has a range from below 0"
        case RewardModelReward(sigmoid=False):
            reason = "is a reward model whose scores are below 0, too: set sigmoid"
    return reason
