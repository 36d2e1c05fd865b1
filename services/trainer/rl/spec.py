"""What the child of an online training is asked to do: the content of its ``spec.json``.

Keys of services are not in it: they travel by environment alone.
"""

from collections.abc import Callable
from pathlib import Path

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field

from services.contracts.fine_tuning import Method
from services.contracts.multi_turn import PromptType
from services.contracts.online import (
    DistillationMethod,
    OnlineSettings,
    OverlongPenalty,
    PpoMethod,
    ReinforcementMethod,
)
from services.contracts.rewards import WeightedReward
from services.core.artifacts import ModelSource, SourceFile
from services.datasets.validate import ValidationSpec

SPEC = "spec.json"

TEACHER = "method.distillation.hyperparameters.teacher.model"
"""The field of a request that names a local teacher."""


class PromptFilesSpec(ValidationSpec):
    """Files of prompts to validate, and what each row must have: a gold that rewards compare
    with, or an answer to learn from. ``validation_rows`` limits the validation file."""

    training_file: SourceFile
    validation_file: SourceFile | None = None
    validation_rows: int = Field(ge=1)
    prompt_type: PromptType
    needs_gold: bool
    needs_answer: bool


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RemoteTeacher(_Part):
    """A vLLM server with the same tokenizer."""

    base_url: AnyHttpUrl
    model: str
    top_k: int


class RuntimeSpec(_Part):
    """A runtime: its Python, and what is installed in it."""

    python: Path
    version: str


class _Training(_Part):
    job_id: str
    adapter: Path | None = None
    stop_token_ids: list[int] = Field(default_factory=list)
    method: Method
    prompts: SourceFile
    validation: SourceFile | None = None
    training: RuntimeSpec
    vllm: RuntimeSpec
    gpus: list[str] = Field(default_factory=list)
    seed: int


class OnlineSpec(_Training):
    """One online training whose models are all here; ``method`` has the settings.

    ``adapter`` is trained further where it is given. ``validation`` are prompts to evaluate the
    policy on. ``teacher`` is the folder of a local model,
    or a server. ``gpus`` are the devices of the job, as CUDA_VISIBLE_DEVICES names them.
    """

    model: Path
    teacher: Path | RemoteTeacher | None = None


class OnlineTask(_Training):
    """The same, as the worker asks for it: models may still have to come from a hub."""

    model: ModelSource
    teacher: ModelSource | RemoteTeacher | None = None

    def located(self, folder_of: Callable[[ModelSource, str], Path]) -> OnlineSpec:
        """With the folders that ``folder_of`` gives for a model and the field that names it."""
        teacher = self.teacher
        return OnlineSpec(
            **{name: getattr(self, name) for name in _Training.model_fields},
            model=folder_of(self.model, "model"),
            teacher=folder_of(teacher, TEACHER) if isinstance(teacher, ModelSource) else teacher,
        )


Online = ReinforcementMethod | PpoMethod | DistillationMethod


def online_method(method: Method) -> Online:
    """The settings of an online method; ValueError for another."""
    if method.online is None:
        raise ValueError(f"{method.type.value} is no online method")
    return method.online


def response_budget(settings: OnlineSettings) -> int:
    """Tokens that a response may have, replies of tools included."""
    return settings.multi_turn.max_total_response_length or settings.sampling.max_tokens


def rewards_of(online: Online) -> list[WeightedReward]:
    """What samples are rewarded for; nothing in distillation."""
    return [] if isinstance(online, DistillationMethod) else online.rewards


def pass_threshold(online: Online) -> float | None:
    """The reward of a sample that gets 1 from every reward that counts in its favour."""
    rewards = rewards_of(online)
    return sum(max(reward.weight, 0.0) for reward in rewards) - 1e-6 if rewards else None


def overlong_penalty_of(online: Online) -> OverlongPenalty | None:
    """The punishment of long responses, where there is one."""
    return None if isinstance(online, DistillationMethod) else online.hyperparameters.overlong
