"""The types of what `temper.Temper` takes and returns.

Fields hold further types: build a request with `model_validate`, from a dictionary as in the REST
API.
"""

from services.contracts.alerts import Alert
from services.contracts.audits import RewardAudit
from services.contracts.base import Deleted, JsonObject, Page
from services.contracts.batches import Batch, CreateBatch
from services.contracts.campaign_loops import CampaignLoop
from services.contracts.campaign_reports import CampaignReport
from services.contracts.campaigns import Campaign, CreateCampaign, ForkCampaign, RewindCampaign
from services.contracts.checks import Check, CreateCheck
from services.contracts.comparisons import CompareEvaluations, EvaluationComparison
from services.contracts.datasets import Dataset, RegisterDataset
from services.contracts.evaluation_results import ResultOrder, ResultOutcome, SampleResult
from services.contracts.evaluations import CreateEvaluation, Evaluation
from services.contracts.exports import CreateExport, Export
from services.contracts.file_rows import ExampleRows, FileRows, ShowExamples
from services.contracts.files import File, FilePurpose
from services.contracts.fine_tuning import Checkpoint, CreateFineTuningJob, FineTuningJob
from services.contracts.indexes import CreateIndexingJob, IndexingJob
from services.contracts.jobs import Artifact, Attempt, Event, Job, JobKind, JobStatus, Worker
from services.contracts.merges import CreateMerge, Merge
from services.contracts.models import Model, RegisterModel
from services.contracts.notes import Note
from services.contracts.rollouts import CreateRollout, Rollout, TrajectoryOrder, TrajectorySummary
from services.contracts.serving import CreateServing, DeployModel, Serving, Undeployed
from services.contracts.stack import StackService
from services.contracts.trajectories import Trajectory
from services.contracts.trajectory_tokens import TrajectoryToken
from services.contracts.webhooks import CreatedWebhook, EventType, Webhook, WebhookDelivery

__all__ = [
    "Alert",
    "Artifact",
    "Attempt",
    "Batch",
    "Campaign",
    "CampaignLoop",
    "CampaignReport",
    "Check",
    "Checkpoint",
    "CompareEvaluations",
    "CreateBatch",
    "CreateCampaign",
    "CreateCheck",
    "CreateEvaluation",
    "CreateExport",
    "CreateFineTuningJob",
    "CreateIndexingJob",
    "CreateMerge",
    "CreateRollout",
    "CreateServing",
    "CreatedWebhook",
    "Dataset",
    "Deleted",
    "DeployModel",
    "Evaluation",
    "EvaluationComparison",
    "Event",
    "EventType",
    "ExampleRows",
    "Export",
    "File",
    "FilePurpose",
    "FileRows",
    "FineTuningJob",
    "ForkCampaign",
    "IndexingJob",
    "Job",
    "JobKind",
    "JobStatus",
    "JsonObject",
    "Merge",
    "Model",
    "Note",
    "Page",
    "RegisterDataset",
    "RegisterModel",
    "ResultOrder",
    "ResultOutcome",
    "RewardAudit",
    "RewindCampaign",
    "Rollout",
    "SampleResult",
    "Serving",
    "ShowExamples",
    "StackService",
    "Trajectory",
    "TrajectoryOrder",
    "TrajectorySummary",
    "TrajectoryToken",
    "Undeployed",
    "Webhook",
    "WebhookDelivery",
    "Worker",
]
