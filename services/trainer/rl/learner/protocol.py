"""What the coordinator asks the learner, and what it answers: a JSON object a line, over a Unix
socket that the process of rank 0 connects to. One request at a time; each is answered."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from services.contracts.fine_tuning import Method
from services.contracts.online import (
    DistillationHyperparameters,
    PpoHyperparameters,
    ReinforcementHyperparameters,
)


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Update(_Message):
    """Learn from a batch file; ``step`` counts updates from 0."""

    type: Literal["update"] = "update"
    step: int
    batch: Path


class Measure(_Message):
    """Compute the metrics of a batch file under the current weights, and learn nothing."""

    type: Literal["measure"] = "measure"
    batch: Path


class Publish(_Message):
    """Write the policy's weights, for an engine to load, into a folder that is not there yet."""

    type: Literal["publish"] = "publish"
    folder: Path


class Probe(_Message):
    """Compute the log-probability of every token after the first, under the current weights."""

    type: Literal["probe"] = "probe"
    token_ids: list[list[int]]


class Save(_Message):
    """Write a checkpoint into a folder that is not there yet: in ``model`` the policy, as it can
    be served, and in ``trainer`` what training goes on from. What is random in an update is drawn
    from the seed and its number, so that no random state is kept."""

    type: Literal["save"] = "save"
    folder: Path


class Export(_Message):
    """Write the trained model as it is to be kept: full weights, or an adapter."""

    type: Literal["export"] = "export"
    folder: Path


class Finish(_Message):
    """End the process."""

    type: Literal["finish"] = "finish"


Request = Annotated[
    Update | Measure | Publish | Probe | Save | Export | Finish, Field(discriminator="type")
]


class Ready(_Message):
    """The first line: the weights are loaded; ``resumed`` says that a checkpoint was."""

    type: Literal["ready"] = "ready"
    resumed: bool
    trainable_parameters: int


class Done(_Message):
    """The answer to a request. ``metrics`` are those of an update or a measurement, ``log_probs``
    of a probe."""

    type: Literal["done"] = "done"
    seconds: float
    metrics: dict[str, float] = Field(default_factory=dict)
    log_probs: list[list[float]] = Field(default_factory=list)


class Failed(_Message):
    """The request failed, and the process ends: ``code``, ``message`` and ``param``, the field
    at fault, are for the user."""

    type: Literal["failed"] = "failed"
    code: str
    message: str
    param: str | None = None


Answer = Annotated[Ready | Done | Failed, Field(discriminator="type")]

REQUEST: TypeAdapter[Request] = TypeAdapter(Request)
ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)


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
