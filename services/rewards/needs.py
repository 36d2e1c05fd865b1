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
    """Whether a reward of all rows compares with the gold answer of its row."""
    return any(sources is None for sources in _comparing(rewards))


def gold_sources(rewards: Sequence[WeightedReward]) -> list[str]:
    """The sources whose rows are compared with their gold answer by a reward of their own."""
    named = (sources for sources in _comparing(rewards) if sources is not None)
    return sorted({source for sources in named for source in sources})


def _comparing(rewards: Sequence[WeightedReward]) -> Sequence[Sequence[str] | None]:
    """The sources of each reward that compares with a gold answer."""
    kinds = (
        SearchEmReward,
        RetoolReward,
        PairwiseJudgeReward,
        *get_args(GoldGrader | MeaningGrader),
    )
    return [each.sources for each in rewards if isinstance(each.reward, kinds)]


def named_reward_models(rewards: Sequence[WeightedReward]) -> frozenset[str]:
    """The registered models that rewards load."""
    found = [each.reward for each in rewards if isinstance(each.reward, RewardModelReward)]
    return frozenset(reward.model for reward in found)
