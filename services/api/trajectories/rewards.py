"""The distribution of the rewards of a job's trajectories, over all and by training step."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from services.api.trajectories.listing import TrajectorySelection
from services.contracts.rewards.audits import RewardHistogram, StepRewards
from services.rollouts.log.listings import open_kept
from services.rollouts.log.updates import Steps

MAX_STEPS = 60
LARGEST = 1e150
"""Rewards are clipped to it, so that the width of bins is finite."""

Rewards = npt.NDArray[np.float64]


def reward_histogram(job_dir: Path, where: TrajectorySelection, bins: int) -> RewardHistogram:
    """Count rewards in ``bins`` bins between their minimum and maximum."""
    listing = open_kept(job_dir)
    matches, rewards = listing.rewards(where.within(listing, job_dir))
    steps = listing.steps(job_dir)
    if not matches.all():  # copies of a million take memory
        steps = steps[matches]
    is_rewarded = np.isfinite(rewards)
    if not is_rewarded.all():
        rewards, steps = rewards[is_rewarded], steps[is_rewarded]
    unrewarded = len(is_rewarded) - len(rewards)
    if not len(rewards):
        return RewardHistogram(
            rewarded=0, unrewarded=unrewarded, mean=None, edges=[], counts=[], steps=[]
        )
    if rewards.min() < -LARGEST or rewards.max() > LARGEST:
        rewards = rewards.clip(-LARGEST, LARGEST)
    edges = np.histogram_bin_edges(rewards, bins)
    return RewardHistogram(
        rewarded=len(rewards),
        unrewarded=unrewarded,
        mean=float(rewards.mean()),
        edges=edges.tolist(),
        counts=_counts(rewards, edges),
        steps=_latest_steps(steps, rewards, edges),
    )


def _latest_steps(steps: Steps, rewards: Rewards, edges: Rewards) -> list[StepRewards]:
    latest = [int(step) for step in np.unique(steps) if step][-MAX_STEPS:]
    if not latest:
        return []
    is_late = steps >= latest[0]
    steps, rewards = steps[is_late], rewards[is_late]
    return [_step(step, rewards[steps == step], edges) for step in latest]


def _step(step: int, rewards: Rewards, edges: Rewards) -> StepRewards:
    return StepRewards(step=step, mean=float(rewards.mean()), counts=_counts(rewards, edges))


def _counts(rewards: Rewards, edges: Rewards) -> list[int]:
    # By number and range, which takes one pass; with edges, numpy sorts.
    within = float(edges[0]), float(edges[-1])
    counts: list[int] = np.histogram(rewards, len(edges) - 1, within)[0].tolist()
    return counts
