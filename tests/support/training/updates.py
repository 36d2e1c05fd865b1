"""Updates of a learner; imported in the training runtime only."""

from pathlib import Path

import torch
from torch import Tensor

from services.trainer.rl.batch import TrainingBatch
from services.trainer.rl.learner.learner import Learner
from services.trainer.rl.learner.protocol import Done, Update


def update(learner: Learner, folder: Path, batch: TrainingBatch, step: int = 0) -> Done:
    """Have a learner learn a batch, which is saved in ``folder``."""
    batch.save(folder / "batch.npz")
    return learner.answer(Update(step=step, batch=folder / "batch.npz"))


def weights(learner: Learner) -> Tensor:
    """All trained weights as one vector."""
    trained = [p for p in learner._plain.parameters() if p.requires_grad]
    return torch.cat([p.detach().flatten() for p in trained])
