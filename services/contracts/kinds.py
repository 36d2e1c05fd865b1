"""The kinds of job, each described once.

Queues, routes, the Python client, the command line and the dashboard read this table. Types are
named as "module:class" and loaded when they are needed: the table itself imports nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pkgutil import resolve_name
from typing import Any


class JobKind(StrEnum):
    """The kinds of job."""

    FINE_TUNING = "fine_tuning"
    EVALUATION = "evaluation"
    ROLLOUT = "rollout"
    INDEXING = "indexing"
    BATCH = "batch"
    CHECK = "check"
    MERGE = "merge"
    EXPORT = "export"
    DOWNLOAD = "download"
    CAMPAIGN = "campaign"
    SERVE = "serve"


@dataclass(frozen=True)
class Kind:
    """The description of a kind of job. Jobs of every kind can be listed, shown, followed,
    cancelled, paused, resumed, retried and deleted."""

    name: str
    noun: str
    """The kind in a sentence, as in "List fine-tuning jobs"."""

    id_prefix: str
    path: str
    """The collection of the jobs in the REST API."""

    queue: str
    """The queue of validated jobs; that of jobs to validate is named after it."""

    request_type: str
    resource_type: str
    action: str | None = None
    """The route below a model that creates a job; None: a POST to `path` does."""

    action_type: str | None = None
    """The body of `action`; the model is in the path."""

    purpose: str | None = None
    """The purpose with which local files of a request are uploaded; None: requests name no file."""

    purposes: Mapping[str, str] = field(default_factory=dict)
    """The purpose of single fields that name files, where it is another one."""

    dry_run: str | None = None
    """The kind whose jobs tell what would become of a request's data."""

    fetches_from_hub: bool = False
    """Whether a file on the hub that a request names is fetched by the client, and uploaded."""

    has_trajectories: bool = False

    title: str | None = None
    """The name of a job that was given none, with places as `services.jobs.names` fills them; None:
    the kind, with the model or else the data."""

    default_method: str | None = None
    """The method of a request without ``method``; None: jobs of this kind have no method."""

    side_files: tuple[str, ...] = ()
    """Fields of files that a job reads beside its data, which its name leaves out."""

    @property
    def request(self) -> type[Any]:
        """The type of the request, a `JobRequest`."""
        return _load(self.request_type)

    @property
    def resource(self) -> type[Any]:
        """The type of the job as the API shows it."""
        return _load(self.resource_type)

    @property
    def is_posted(self) -> bool:
        """Whether a POST to `path` creates a job; other kinds are created at a model."""
        return self.action is None

    @property
    def body(self) -> type[Any]:
        """The type of the body that creates a job."""
        return _load(self.action_type or self.request_type)

    @property
    def given_fields(self) -> set[str]:
        """The fields of the request that a user gives."""
        own = set(self.body.model_fields)
        return own if self.is_posted else own | {"model"}

    def purpose_of(self, field_name: str) -> str | None:
        """The purpose with which the local file that a field names is uploaded."""
        return self.purposes.get(field_name, self.purpose)

    @property
    def attribute(self) -> str:
        """The attribute of the Python client that has the jobs of this kind."""
        return self.path.split("/")[2]

    @property
    def tag(self) -> str:
        """The section of the API's description that holds the routes of this kind."""
        return self.attribute.replace("_", "-")


def kind_of(name: str) -> Kind:
    """The description of a kind; raises `KeyError`."""
    return KINDS[name]


def kind_of_request(request: object) -> Kind:
    """The description of the kind that a request creates a job of; raises `StopIteration`."""
    name = f"{type(request).__module__}:{type(request).__qualname__}"
    return next(kind for kind in KINDS.values() if kind.request_type == name)


def _load(name: str) -> type[Any]:
    loaded: type[Any] = resolve_name(name)
    return loaded


_DESCRIBED = (
    Kind(
        name=JobKind.FINE_TUNING,
        noun="fine-tuning job",
        id_prefix="ftjob",
        path="/v1/fine_tuning/jobs",
        queue="training",
        request_type="services.contracts.training.fine_tuning:CreateFineTuningJob",
        resource_type="services.contracts.training.fine_tuning:FineTuningJob",
        purpose="fine-tune",
        dry_run=JobKind.CHECK,
        has_trajectories=True,
        title="{model} {method} on {data}",
        default_method="supervised",
        side_files=("validation_file", "validation_files.*"),
    ),
    Kind(
        name=JobKind.EVALUATION,
        noun="evaluation",
        id_prefix="eval",
        path="/v1/evaluations",
        queue="evaluation",
        request_type="services.contracts.evaluation.evaluations:CreateEvaluation",
        resource_type="services.contracts.evaluation.evaluations:Evaluation",
        purpose="evals",
        fetches_from_hub=True,
        has_trajectories=True,
        title="{model} on {task}",
    ),
    Kind(
        name=JobKind.ROLLOUT,
        noun="rollout job",
        id_prefix="rollout",
        path="/v1/rollouts",
        queue="rollout",
        request_type="services.contracts.rollouts.rollouts:CreateRollout",
        resource_type="services.contracts.rollouts.rollouts:Rollout",
        purpose="evals",
        has_trajectories=True,
        title="{model} on {task}",
    ),
    Kind(
        name=JobKind.INDEXING,
        noun="indexing job",
        id_prefix="idxjob",
        path="/v1/indexing/jobs",
        queue="index",
        request_type="services.contracts.retrieval.indexes:CreateIndexingJob",
        resource_type="services.contracts.retrieval.indexes:IndexingJob",
        purpose="user_data",
        title="{index} of {data}",
    ),
    Kind(
        name=JobKind.BATCH,
        noun="batch",
        id_prefix="batch",
        path="/v1/batches",
        queue="batch",
        request_type="services.contracts.batches.batches:CreateBatch",
        resource_type="services.contracts.batches.batches:Batch",
        purpose="batch",
        title="{kind} of {data}",
    ),
    Kind(
        name=JobKind.CHECK,
        noun="check",
        id_prefix="check",
        path="/v1/checks",
        queue="check",
        request_type="services.contracts.training.checks:CreateCheck",
        resource_type="services.contracts.training.checks:Check",
        purpose="fine-tune",
        title="{kind} of {data}",
    ),
    Kind(
        name=JobKind.MERGE,
        noun="merge",
        id_prefix="merge",
        path="/v1/merges",
        queue="merge",
        request_type="services.contracts.models.jobs:CreateMerge",
        resource_type="services.contracts.models.jobs:Merge",
        action="merge",
        action_type="services.contracts.models.jobs:MergeModel",
    ),
    Kind(
        name=JobKind.EXPORT,
        noun="export",
        id_prefix="export",
        path="/v1/exports",
        queue="export",
        request_type="services.contracts.models.jobs:CreateExport",
        resource_type="services.contracts.models.jobs:Export",
        action="export",
        action_type="services.contracts.models.jobs:ExportModel",
    ),
    Kind(
        name=JobKind.DOWNLOAD,
        noun="download",
        id_prefix="download",
        path="/v1/downloads",
        queue="download",
        request_type="services.contracts.models.jobs:CreateDownload",
        resource_type="services.contracts.models.jobs:Download",
        action="download",
        action_type="services.contracts.models.jobs:DownloadModel",
    ),
    Kind(
        name=JobKind.CAMPAIGN,
        noun="campaign",
        id_prefix="campaign",
        path="/v1/campaigns",
        queue="campaign",
        request_type="services.contracts.campaigns.campaigns:CreateCampaign",
        resource_type="services.contracts.campaigns.campaigns:Campaign",
        purpose="evals",
        purposes={"datasets": "user_data"},
        fetches_from_hub=True,
        title="{model} on {task}",
    ),
    Kind(
        name=JobKind.SERVE,
        noun="serving",
        id_prefix="serve",
        path="/v1/servings",
        queue="serve",
        request_type="services.contracts.serving:CreateServing",
        resource_type="services.contracts.serving:Serving",
        action="deploy",
        action_type="services.contracts.serving:DeployModel",
    ),
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _DESCRIBED}
"""Every kind by its name."""
