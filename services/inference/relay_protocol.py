"""The protocol between a gateway and the relay of a serving: its address, and its requests.

A serving's child writes `RelayEndpoint` into the folder of its job, which the gateway shares with
it. The gateway trusts it only while the job runs in the same epoch.
"""

import os
from enum import StrEnum
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

# Dotfiles are not artifacts: clients never read them.
ENDPOINT = ".endpoint.json"
KEEP_WARM = ".keep-warm"

EMBEDDINGS = "/v1/embeddings"
CHAT_COMPLETIONS = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
TOKENIZE = "/tokenize"
GENERATING = (CHAT_COMPLETIONS, COMPLETIONS)
PATHS = (*GENERATING, EMBEDDINGS, TOKENIZE)
"""The routes of an engine that a relay forwards; the gateway asks the last for its own needs."""
ADAPTER_HEADER = "X-Temper-Adapter"
REFUSAL_HEADER = "X-Temper-Refusal"
MAX_BODY_BYTES = 32 << 20


class Refusal(StrEnum):
    """Why a relay did not forward a request; the gateway looks up the model again."""

    LEAVING = "leaving"  # the serving is shutting down, or lacks this adapter's rank
    ENGINE_GONE = "engine_gone"
    ENGINE_DIED = "engine_died"  # after it received the request


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ServedAdapter(_Strict):
    """An adapter to load before the request is forwarded: its name and its folder."""

    name: str = Field(min_length=1)
    path: Path

    def header(self) -> str:
        """The value of `ADAPTER_HEADER`."""
        return self.model_dump_json().encode().hex()

    @classmethod
    def from_header(cls, value: str) -> Self:
        """The adapter of a header; raises ValueError for anything else."""
        return cls.model_validate_json(bytes.fromhex(value))


class RelayEndpoint(_Strict):
    """The address of a relay and the secret that it accepts, for one epoch of its job."""

    epoch: int
    url: str
    secret: str = Field(repr=False)


def publish_endpoint(job_dir: Path, endpoint: RelayEndpoint) -> None:
    """Let gateways find the relay; readable by this user only."""
    target = job_dir / ENDPOINT
    partial = target.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as file:
        file.write(endpoint.model_dump_json())
    partial.replace(target)


def withdraw_endpoint(job_dir: Path) -> None:
    """Stop directing gateways to the relay."""
    (job_dir / ENDPOINT).unlink(missing_ok=True)


def read_endpoint(job_dir: Path, epoch: int) -> RelayEndpoint | None:
    """The relay of a job running in ``epoch``; None while there is none."""
    try:
        endpoint = RelayEndpoint.model_validate_json((job_dir / ENDPOINT).read_bytes())
    except (OSError, ValidationError):
        return None
    return endpoint if endpoint.epoch == epoch else None


def keep_warm(job_dir: Path, wanted: bool) -> None:
    """Set whether a serving stays up without requests; may change while it runs."""
    if wanted:
        job_dir.mkdir(parents=True, exist_ok=True)
        (job_dir / KEEP_WARM).touch()
    else:
        (job_dir / KEEP_WARM).unlink(missing_ok=True)


def is_kept_warm(job_dir: Path) -> bool:
    """Whether a serving stays up without requests."""
    return (job_dir / KEEP_WARM).exists()
