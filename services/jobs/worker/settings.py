"""Settings of a worker process."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, SecretStr
from pydantic_settings import NoDecode

from services.core.choice_settings import ChoiceSettings
from services.core.export_settings import ExportSettings
from services.core.settings import Settings, split_commas
from services.core.tool_settings import ToolSettings
from services.jobs.tracking.selection import known_tracker


class CommonWorkerSettings(Settings, ToolSettings):
    """What every worker process has, whether its jobs run in child processes or in its threads."""

    host_name: str = Field(default="", description="This host in leases; empty: its name.")
    heartbeat_file: Path | None = Field(
        default=None,
        description="File that a worker touches with each heartbeat, for health probes; null: "
        "none.",
    )
    validation_slots: int = Field(
        default=2, ge=1, le=64, description="Files that one worker validates concurrently."
    )


class WorkerSettings(CommonWorkerSettings, ExportSettings, ChoiceSettings):
    """What a worker process offers, how it runs its children, and which tools they reach."""

    cpu_slots: int = Field(
        default=1,
        ge=0,
        le=256,
        description="Concurrent jobs without a GPU on this host; each computes on its share of the "
        "cores.",
    )
    remote_slots: int = Field(
        default=16,
        ge=1,
        le=1024,
        description="Concurrent jobs of this host that only ask remote endpoints; they take no GPU "
        "and no CPU slot.",
    )
    validation_memory_gib: float = Field(
        default=4.0, ge=0.5, le=1024.0, description="Memory of a process that validates files."
    )
    dataset_script_seconds: float = Field(
        default=600.0, gt=0.0, le=86_400.0, description="Longest run of a dataset script."
    )
    dataset_script_rows: int = Field(
        default=1_000_000, ge=1, le=50_000_000, description="Rows that a dataset script may make."
    )
    job_memory_gib: float | None = Field(
        default=None,
        gt=0.0,
        le=1_048_576.0,
        description="Memory of all processes of a job together; null: nine tenths of what this "
        "host or container has. A job that holds more fails.",
    )
    batch_requests: int = Field(
        default=50_000, ge=1, le=10_000_000, description="Requests in the file of one batch."
    )
    serving_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address of this host that its servings listen on, which gateways must reach; "
        "0.0.0.0: all, known to gateways by the address of the host's name.",
    )
    serving_idle_seconds: float = Field(
        default=900.0, gt=0.0, description="A serving stops after so long without a request."
    )
    serving_adapters: int = Field(
        default=8,
        ge=1,
        le=256,
        description="Adapters of one base that its engine holds concurrently; the least recently "
        "used is evicted for another.",
    )
    pause_seconds: float = Field(
        default=600.0,
        ge=0.0,
        le=86_400.0,
        description="Longest wait for the checkpoint of a job that is paused; then its process is "
        "stopped, and the job resumes from its last checkpoint.",
    )
    retry_seconds: float = Field(
        default=5.0,
        ge=0.0,
        le=3600.0,
        description="Wait after the death of a job's process; doubled when it dies again.",
    )
    stall_seconds: float = Field(
        default=1800.0,
        gt=0.0,
        le=86_400.0,
        description="Shortest silence of a job's process that counts as a hang: without a new "
        "step, phase, file or token. Ten times its longest silence so far, if that is longer.",
    )
    stall_max_seconds: float = Field(
        default=7200.0,
        gt=0.0,
        le=604_800.0,
        description="Longest silence of a job's process before it counts as hung.",
    )
    export_hub_token: SecretStr | None = Field(
        default=None,
        description="Token that may write to the hub, for exports; null: HF_TOKEN.",
    )
    export_options: dict[str, dict[str, JsonValue]] = Field(
        default_factory=dict,
        repr=False,
        description="JSON object: options of fsspec's file systems for exports, by scheme, with "
        "their credentials.",
    )
    trackers: Annotated[
        list[Annotated[str, AfterValidator(known_tracker)]], NoDecode, BeforeValidator(split_commas)
    ] = Field(
        default=[],
        description="Trackers of all jobs beside TensorBoard's files: wandb, trackio, mlflow, "
        "swanlab and extensions, comma-separated.",
    )
    tracker_seconds: float = Field(
        default=30.0,
        ge=0.0,
        le=600.0,
        description="Longest wait of a finished job for its trackers.",
    )
