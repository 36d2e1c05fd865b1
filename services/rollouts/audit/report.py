"""The audit of a job's folder."""

from collections.abc import Mapping
from pathlib import Path

from services.contracts.rewards.audits import RewardAudit
from services.contracts.rollouts.rollouts import TrajectoryOrder
from services.contracts.rollouts.trajectories import Trajectory
from services.contracts.training.online import DistillationMethod, PpoMethod, ReinforcementMethod
from services.datasets.append_log import read_record
from services.rollouts.audit.checks import audit
from services.rollouts.audit.features import Features, features_of
from services.rollouts.log.filter import TrajectoryFilter
from services.rollouts.log.index import TRAJECTORIES
from services.rollouts.log.listing import Listing
from services.rollouts.log.listings import open_kept

END_SHARE = 0.25
"""Part of a training that each end is."""
MAX_SAMPLES = 512
"""Samples of each end that are read."""


def weights_of(method: ReinforcementMethod | PpoMethod | DistillationMethod) -> dict[str, float]:
    """The weights of the components of a method's reward, by name; distillation has none."""
    rewards = [] if isinstance(method, DistillationMethod) else method.rewards
    return {reward.name: reward.weight for reward in rewards}


def audit_folder(folder: Path, weights: Mapping[str, float]) -> RewardAudit:
    """Audit the trajectories of a job so far: the first quarter of them against the last."""
    listing = open_kept(folder)
    first, last = (_end(folder, listing, descending=descending) for descending in (False, True))
    return audit(first, last, weights)


def _end(folder: Path, listing: Listing, *, descending: bool) -> list[Features]:
    """The features of the samples that ended first, or last."""
    size = min(MAX_SAMPLES, int(len(listing) * END_SHARE))
    if not size:
        return []
    everything, order = TrajectoryFilter(), TrajectoryOrder.FINISHED
    spans, _ = listing.page(everything, order, descending=descending, after=None, limit=size)
    samples = (read_record(folder / TRAJECTORIES, Trajectory, span) for span in spans)
    return [found for sample in samples if (found := features_of(sample)) is not None]
