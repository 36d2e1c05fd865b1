"""What the learner is told when it starts: ``learner.json`` in the job's folder."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.fine_tuning import Method
from services.contracts.online import (
    DistillationHyperparameters,
    PpoHyperparameters,
    ReinforcementHyperparameters,
)

SPEC = "learner.json"


class LearnerSpec(BaseModel):
    """The models, the method's settings, and where the coordinator listens.

    ``checkpoint`` is a folder that an earlier learner saved; it wins over ``model`` and
    ``adapter``. ``teacher`` is a local teacher of a distillation.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Path
    adapter: Path | None = Field(default=None, description="To be trained further.")
    teacher: Path | None = None
    checkpoint: Path | None = None
    socket: Path
    seed: int
    method: Method
    max_response_length: int = Field(description="The response budget, for Dr.GRPO's norm.")

    @property
    def settings(
        self,
    ) -> ReinforcementHyperparameters | PpoHyperparameters | DistillationHyperparameters:
        """The hyperparameters of the method; ValueError for one that is not online."""
        if self.method.online is None:
            raise ValueError(f"the method {self.method.type.value} is not one of online training")
        return self.method.online.hyperparameters
