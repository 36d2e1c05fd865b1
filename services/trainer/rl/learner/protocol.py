"""The protocol between coordinator and learner, and the learner's spec.

One JSON object per line over a Unix socket that the rank-0 process connects to; one request at a
time, each answered.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from services.contracts.base import JsonObject
from services.contracts.training.fine_tuning import Method
from services.contracts.training.online import (
    DistillationHyperparameters,
    PpoHyperparameters,
    ReinforcementHyperparameters,
)


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Update(_Message):
    """Train on a batch file; ``step`` counts updates from 0. Its per-token results are written
    beside it as `TokenValues`."""

    type: Literal["update"] = "update"
    step: int
    batch: Path


class MeasureBatch(_Message):
    """Compute the metrics of a batch file under the current weights, without an update."""

    type: Literal["measure"] = "measure"
    batch: Path


class Publish(_Message):
    """Write the policy's weights for an engine into a new folder, over the files of ``outdated``, a
    folder published before, if that is given; it is gone afterwards."""

    type: Literal["publish"] = "publish"
    folder: Path
    outdated: Path | None = None


class SendChunk(_Message):
    """Pack the next part of the weights in a buffer of the GPU for an engine on it, or, at the
    ``end``, free the buffer."""

    type: Literal["send_chunk"] = "send_chunk"
    end: bool = False


class DescribeWeights(_Message):
    """Tell what `Broadcast` sends."""

    type: Literal["describe"] = "describe"


class MakeGroup(_Message):
    """Make the id of a group of NCCL, to join next."""

    type: Literal["make_group"] = "make_group"


class JoinGroup(_Message):
    """Join the group that was made last, of ``size`` members, all others an engine's."""

    type: Literal["join_group"] = "join_group"
    engine: str
    size: int


class Broadcast(_Message):
    """Send the weights to the group of an engine."""

    type: Literal["broadcast"] = "broadcast"
    engine: str


class Probe(_Message):
    """Compute the log-probability of every token after the first, under the current weights."""

    type: Literal["probe"] = "probe"
    token_ids: list[list[int]]


class Save(_Message):
    """Write a checkpoint into a new folder: ``model`` is the servable policy, ``trainer`` what
    resuming needs. Randomness is derived from the seed and the update's number, so no random state
    is saved."""

    type: Literal["save"] = "save"
    folder: Path


class Export(_Message):
    """Write the final model: full weights or an adapter."""

    type: Literal["export"] = "export"
    folder: Path


class Finish(_Message):
    """Exit."""

    type: Literal["finish"] = "finish"


Request = Annotated[
    Update
    | MeasureBatch
    | Publish
    | SendChunk
    | DescribeWeights
    | MakeGroup
    | JoinGroup
    | Broadcast
    | Probe
    | Save
    | Export
    | Finish,
    Field(discriminator="type"),
]


class Ready(_Message):
    """The first line: the weights are loaded. ``padded`` says why sequences are padded, if they
    are."""

    type: Literal["ready"] = "ready"
    trainable_parameters: int
    padded: str | None = None


class Done(_Message):
    """The answer to a request: ``metrics`` of an update or measurement, ``log_probs`` of a
    probe, ``changed`` the names of the tensors that differ from those published before, None if
    they were not compared. ``sends`` is whether they are stored as the model has them, so that they
    can be sent, and ``sent`` what the sending of weights answers."""

    type: Literal["done"] = "done"
    seconds: float
    metrics: dict[str, float] = Field(default_factory=dict)
    log_probs: list[list[float]] = Field(default_factory=list)
    changed: list[str] | None = None
    sends: bool = False
    sent: JsonObject | None = None


class Failed(_Message):
    """The request failed and the process exits; ``code``, ``message`` and ``param`` (the request
    field) are for the user."""

    type: Literal["failed"] = "failed"
    code: str
    message: str
    param: str | None = None


Answer = Annotated[Ready | Done | Failed, Field(discriminator="type")]

REQUEST: TypeAdapter[Request] = TypeAdapter(Request)
ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)


SPEC = "learner.json"


class ColocatedEngine(_Message):
    """An engine on the learner's GPUs: the fraction of their memory that it takes, and whether it
    releases it during updates."""

    memory: float
    sleeps: bool = False


class LearnerSpec(BaseModel):
    """The models, the method's settings, and the coordinator's socket.

    ``checkpoint``, a folder that an earlier learner saved, overrides ``model`` and ``adapter``.
    ``teacher`` is the local teacher of a distillation.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Path
    adapter: Path | None = Field(default=None, description="To be trained further.")
    tokenizer: Path | None = Field(
        default=None, description="The folder of an adapter that has its own tokenizer."
    )
    teacher: Path | None = None
    trusted: frozenset[Path] = Field(
        default=frozenset(), description="Folders whose own code may run."
    )
    checkpoint: Path | None = None
    socket: Path
    seed: int
    method: Method
    max_response_length: int = Field(description="The response budget, for Dr.GRPO's norm.")
    engine: ColocatedEngine | None = None
    publishes_merged: bool = Field(
        default=False,
        description="Whether engines get an adapter merged into its base; of one process.",
    )

    @property
    def is_exact(self) -> bool:
        """Whether learner and engine have to agree on every bit."""
        settings = self.settings
        return not isinstance(settings, DistillationHyperparameters) and settings.exact_on_policy

    @property
    def settings(
        self,
    ) -> ReinforcementHyperparameters | PpoHyperparameters | DistillationHyperparameters:
        """The hyperparameters of the method; ValueError if it is not an online method."""
        if self.method.online is None:
            raise ValueError(f"the method {self.method.type.value} is not one of online training")
        return self.method.online.hyperparameters
