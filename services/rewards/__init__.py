"""Rewards of trajectories: validated before a job, computed while it runs."""

from services.contracts.published_rewards import published_rewards
from services.rewards.check import check_rewards, named_reward_models, needs_gold
from services.rewards.scorer import Scorer, open_scorer

__all__ = [
    "Scorer",
    "check_rewards",
    "named_reward_models",
    "needs_gold",
    "open_scorer",
    "published_rewards",
]
