"""The specs of an evaluation's children: ``validation.json`` and ``spec.json``."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from services.contracts.engine import VllmOptions
from services.contracts.evaluations import Grader, RemoteModel, Sampling
from services.contracts.models import HubName
from services.core.artifacts import SourceFile
from services.datasets.validate import ValidationSpec

SPEC = "spec.json"
ENDPOINT_KEY = "TEMPER_ENDPOINT_KEY"
"""Variable of the child's environment with the API key of a remote endpoint, if it needs one. The
key is never part of the specification, which stays on disk."""


class EvaluationFileSpec(ValidationSpec):
    """The file to validate, and the grader that must be able to use its golds."""

    file: SourceFile
    grader: Grader


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Adapter(_Strict):
    """A LoRA adapter: the name it is served under, and its folder."""

    name: str = Field(min_length=1)
    path: Path
    stop_token_ids: list[int] = Field(
        default_factory=list, description="Tokens that end its answers; the base may not know them."
    )


class LocalModel(_Strict):
    """A model that a vLLM server of this job serves: a folder or a hub repository."""

    type: Literal["local"] = "local"
    path: Path | None = None
    hub_id: HubName | None = None
    revision: str | None = None
    adapter: Adapter | None = None
    runtime_python: Path = Field(description="The interpreter of the vllm runtime.")
    options: VllmOptions = Field(default_factory=VllmOptions)

    @model_validator(mode="after")
    def _one_source(self) -> "LocalModel":
        if (self.path is None) == (self.hub_id is None):
            raise ValueError("give exactly one of path and hub_id")
        return self


class RemoteEndpoint(RemoteModel):
    """A model behind an OpenAI-compatible URL."""

    type: Literal["remote"] = "remote"


class EvaluationSpec(_Strict):
    """One evaluation: who is asked, what, how, and how the answers are judged."""

    model: Annotated[LocalModel | RemoteEndpoint, Field(discriminator="type")]
    samples: Path = Field(description="The file of prompts and golds.")
    grader: Grader
    sampling: Sampling
    system_prompt: str | None = Field(
        default=None, description="Put before every conversation that has none of its own."
    )
    max_samples: int | None = Field(default=None, ge=1, description="Take the first rows only.")
    max_concurrency: int = Field(default=64, ge=1, le=1024)
