"""What the child of an online training is asked to do: the content of its ``spec.json``.

Keys of services are not in it: they travel by environment alone.
"""

from pathlib import Path

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field

from services.common.contracts.fine_tuning import Method
from services.common.records.source import SourceFile

SPEC = "spec.json"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RemoteTeacher(_Part):
    """A vLLM server with the same tokenizer."""

    base_url: AnyHttpUrl
    model: str
    top_k: int


class RuntimeOf(_Part):
    """A runtime: its Python, and what is installed in it."""

    python: Path
    version: str


class OnlineSpec(_Part):
    """One online training; ``method`` has the settings.

    ``adapter`` is trained further where it is given. ``teacher`` is the folder of a local model,
    or a server. ``gpus`` are the devices of the job, as CUDA_VISIBLE_DEVICES names them.
    """

    job_id: str
    model: Path
    adapter: Path | None = None
    stop_token_ids: list[int] = Field(default_factory=list)
    method: Method
    prompts: SourceFile
    teacher: Path | RemoteTeacher | None = None
    training: RuntimeOf
    vllm: RuntimeOf
    gpus: list[str] = Field(default_factory=list)
    seed: int
