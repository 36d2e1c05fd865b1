"""The specs of online training: ``spec.json`` of the coordinator and what follows from the method.

Secrets are never part of it: they travel by environment only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field

from services.contracts.rewards.rewards import WeightedReward
from services.contracts.rollouts.multi_turn import PromptType
from services.contracts.rollouts.sources import applies
from services.contracts.training.fine_tuning import Method
from services.contracts.training.online import (
    DistillationMethod,
    OnlineSettings,
    OverlongPenalty,
    PpoMethod,
    ReinforcementMethod,
)
from services.core.artifacts import ModelSource, SourceFile
from services.datasets.validate import PromptTemplate, ValidationSpec

SPEC = "spec.json"

TEACHER = "method.distillation.hyperparameters.teacher.model"
"""The request field that names a local teacher."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class TaughtModel(_Part):
    """The folders with the tokenizers of a distillation's student and teacher."""

    student: Path
    teacher: Path


class PromptFilesSpec(ValidationSpec):
    """Files of prompts to validate, and what each row must have: a gold for the rewards, or an
    answer to learn from. ``validation_rows`` limits the validation file."""

    training_file: SourceFile
    validation_file: SourceFile | None = None
    validation_rows: int = Field(ge=1)
    prompt_type: PromptType
    needs_gold: bool
    gold_sources: list[str] = Field(
        default_factory=list, description="Sources whose rows need a gold in any case."
    )
    needs_answer: bool
    taught: TaughtModel | None = Field(
        default=None, description="Of a distillation whose models are on this host."
    )
    template: PromptTemplate | None = None


class RemoteTeacher(_Part):
    """A vLLM server with the same tokenizer."""

    base_url: AnyHttpUrl
    model: str
    top_k: int


class RuntimeSpec(_Part):
    """A runtime: its Python, its version, and whether it computes without a GPU."""

    python: Path
    version: str
    on_cpu: bool = False


class GuestSpec(_Part):
    """How gateways reach the policy while it is trained: the address that their relay listens on,
    and the epoch of the job."""

    host: str
    epoch: int


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
    guests: GuestSpec | None = None


class OnlineSpec(_Training):
    """An online training whose models are all local; ``method`` has the settings.

    ``adapter`` is trained further if given. ``validation`` holds prompts for evaluation.
    ``teacher`` is a local folder or a server. ``gpus`` are the devices of the job, as in
    CUDA_VISIBLE_DEVICES.
    """

    model: Path
    tokenizer: Path | None = Field(
        default=None, description="The folder of an adapter that has its own tokenizer."
    )
    teacher: Path | RemoteTeacher | None = None
    trusted: frozenset[Path] = Field(
        default=frozenset(), description="Folders whose own code may run."
    )

    @property
    def tokenizer_folder(self) -> Path:
        """The folder with the tokenizer and chat template that the policy was trained with."""
        return self.tokenizer or self.model


class OnlineTask(_Training):
    """The same, as the worker requests it: models may have to be downloaded from a hub."""

    model: ModelSource
    teacher: ModelSource | RemoteTeacher | None = None

    def located(self, folder_of: Callable[[ModelSource, str], Path]) -> OnlineSpec:
        """The spec with local folders; ``folder_of`` takes a model and the request field that names
        it."""
        model, teacher = folder_of(self.model, "model"), self.teacher
        trusted = {model} if self.model.trusted else set()
        if isinstance(teacher, ModelSource):
            folder = folder_of(teacher, TEACHER)
            trusted |= {folder} if teacher.trusted else set()
        return OnlineSpec(
            **{name: getattr(self, name) for name in _Training.model_fields},
            model=model,
            tokenizer=self.model.tokenizer,
            teacher=folder if isinstance(teacher, ModelSource) else teacher,
            trusted=frozenset(trusted),
        )


Online = ReinforcementMethod | PpoMethod | DistillationMethod


def online_method(method: Method) -> Online:
    """The settings of an online method; ValueError for another method."""
    if method.online is None:
        raise ValueError(f"{method.type.value} is not an online method")
    return method.online


def response_budget(settings: OnlineSettings) -> int:
    """Tokens that a response may have, tool results included."""
    return settings.multi_turn.max_total_response_length or settings.sampling.max_tokens


def rewards_of(online: Online) -> list[WeightedReward]:
    """The weighted rewards; none in distillation."""
    return [] if isinstance(online, DistillationMethod) else online.rewards


@dataclass(frozen=True)
class PassThreshold:
    """The reward at which a sample passes: every positively weighted component that scores its
    source gives 1 (minus 1e-6 slack)."""

    rewards: Sequence[WeightedReward]

    def of(self, source: str | None) -> float:
        """The threshold of a source."""
        scoring = [each.weight for each in self.rewards if applies(each.sources, source)]
        return sum(max(weight, 0.0) for weight in scoring) - 1e-6


def pass_threshold(online: Online) -> PassThreshold | None:
    """The threshold of a method; None without rewards."""
    rewards = rewards_of(online)
    return PassThreshold(rewards) if rewards else None


def overlong_penalty_of(online: Online) -> OverlongPenalty | None:
    """The overlong penalty of the method, if any."""
    return None if isinstance(online, DistillationMethod) else online.hyperparameters.overlong


def is_exact(online: Online) -> bool:
    """Whether learner and engine have to agree on every bit."""
    return not isinstance(online, DistillationMethod) and online.hyperparameters.exact_on_policy


def masks_truncated(online: Online) -> bool:
    """Whether truncated responses are left out of the loss."""
    return isinstance(online, ReinforcementMethod) and online.hyperparameters.mask_truncated
