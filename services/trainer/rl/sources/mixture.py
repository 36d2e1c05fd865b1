"""Distillation's choice: the student's own samples, or others'."""

import random

from services.contracts.trajectories import Trajectory
from services.trainer.rl.draws import Draw
from services.trainer.rl.sources.source import Source


class Mixture:
    """Lets the student answer a prompt with probability ``lmbda``, and ``others`` else; the same
    prompt of the same draw is always answered by the same."""

    def __init__(self, student: Source, others: Source, lmbda: float, seed: int) -> None:
        self._student = student
        self._others = others
        self._lmbda = lmbda
        self._seed = seed

    async def sample(self, draw: Draw, index: int) -> Trajectory:
        """An answer of who was chosen."""
        chance = random.Random(f"{self._seed}:{draw.number}:source").random()  # noqa: S311
        chosen = self._student if chance < self._lmbda else self._others
        return await chosen.sample(draw, index)
