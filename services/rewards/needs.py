"""What rewards need of their rows and of the models on disk.

Apart from `services.rewards.check`, so that workers need not load the graders.
"""

from collections.abc import Sequence
from typing import get_args

from services.contracts.rewards.graders import GoldGrader, MeaningGrader
from services.contracts.rewards.rewards import (
    PairwiseJudgeReward,
    RetoolReward,
    RewardModelReward,
    SearchEmReward,
    WeightedReward,
)


def needs_gold(rewards: Sequence[WeightedReward]) -> bool:
    """Whether a reward compares with the gold answer of its row."""
    kinds = (
        SearchEmReward,
        RetoolReward,
        PairwiseJudgeReward,
        *get_args(GoldGrader | MeaningGrader),
    )
    return any(isinstance(each.reward, kinds) for each in rewards)


def named_reward_models(rewards: Sequence[WeightedReward]) -> frozenset[str]:
    """The registered models that rewards load."""
    found = [each.reward for each in rewards if isinstance(each.reward, RewardModelReward)]
    return frozenset(reward.model for reward in found)
