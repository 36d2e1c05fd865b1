"""The types of what `temper.Temper` takes and returns.

Fields hold further types: build a request with `model_validate`, from a dictionary as in the REST
API.
"""

from services.contracts.adaptation import TrainingType
from services.contracts.alerts import Alert
from services.contracts.audits import RewardAudit
from services.contracts.base import Deleted, JsonObject, Page
from services.contracts.batches import Batch, CreateBatch
from services.contracts.benchmarks import Benchmark
from services.contracts.campaign_limits import CampaignBudget
from services.contracts.campaign_llms import CampaignLlm
from services.contracts.campaign_loops import CampaignLoop
from services.contracts.campaign_reports import CampaignReport, ReportedAttempt
from services.contracts.campaigns import (
    Campaign,
    CampaignDataset,
    CreateCampaign,
    ForkCampaign,
    RewindCampaign,
)
from services.contracts.checks import Check, CreateCheck
from services.contracts.comparisons import CompareEvaluations, EvaluationComparison
from services.contracts.datasets import Dataset, RegisterDataset
from services.contracts.evaluation_results import (
    EvaluationMetrics,
    ResultOrder,
    ResultOutcome,
    SampleResult,
)
from services.contracts.evaluations import CreateEvaluation, Evaluation
from services.contracts.exports import CreateExport, Export
from services.contracts.file_rows import ExampleRows, FileRows, ShowExamples
from services.contracts.files import File, FilePurpose
from services.contracts.fine_tuning import (
    Checkpoint,
    CreateFineTuningJob,
    FineTuningJob,
    Method,
    MethodType,
)
from services.contracts.graders import NumericGrader
from services.contracts.indexes import CreateIndexingJob, IndexingJob
from services.contracts.jobs import (
    Artifact,
    Attempt,
    Event,
    Job,
    JobKind,
    JobState,
    JobStatus,
    Worker,
)
from services.contracts.merges import CreateMerge, Merge
from services.contracts.models import Model, RegisterModel
from services.contracts.multi_turn import MultiTurn, RolloutSampling, Tool
from services.contracts.notes import Note
from services.contracts.offline import (
    RewardModelHyperparameters,
    RewardModelMethod,
    SupervisedHyperparameters,
    SupervisedMethod,
)
from services.contracts.online import (
    Critic,
    DynamicSampling,
    KlPenalty,
    KlTo,
    OptimizerSettings,
    PolicyLoss,
    PpoHyperparameters,
    PpoMethod,
    ReinforcementHyperparameters,
    ReinforcementMethod,
)
from services.contracts.openai_graders import MultiGrader, StringCheckGrader
from services.contracts.rewards import (
    RetoolReward,
    RewardModelReward,
    SearchEmReward,
    WeightedReward,
)
from services.contracts.rollouts import (
    CreateRollout,
    RewardSpread,
    Rollout,
    TrajectoryOrder,
    TrajectorySummary,
)
from services.contracts.sampling import Sampling
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
    "Benchmark",
    "Campaign",
    "CampaignBudget",
    "CampaignDataset",
    "CampaignLlm",
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
    "Critic",
    "Dataset",
    "Deleted",
    "DeployModel",
    "DynamicSampling",
    "Evaluation",
    "EvaluationComparison",
    "EvaluationMetrics",
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
    "JobState",
    "JobStatus",
    "JsonObject",
    "KlPenalty",
    "KlTo",
    "Merge",
    "Method",
    "MethodType",
    "Model",
    "MultiGrader",
    "MultiTurn",
    "Note",
    "NumericGrader",
    "OptimizerSettings",
    "Page",
    "PolicyLoss",
    "PpoHyperparameters",
    "PpoMethod",
    "RegisterDataset",
    "RegisterModel",
    "ReinforcementHyperparameters",
    "ReinforcementMethod",
    "ReportedAttempt",
    "ResultOrder",
    "ResultOutcome",
    "RetoolReward",
    "RewardAudit",
    "RewardModelHyperparameters",
    "RewardModelMethod",
    "RewardModelReward",
    "RewardSpread",
    "RewindCampaign",
    "Rollout",
    "RolloutSampling",
    "SampleResult",
    "Sampling",
    "SearchEmReward",
    "Serving",
    "ShowExamples",
    "StackService",
    "StringCheckGrader",
    "SupervisedHyperparameters",
    "SupervisedMethod",
    "Tool",
    "TrainingType",
    "Trajectory",
    "TrajectoryOrder",
    "TrajectorySummary",
    "TrajectoryToken",
    "Undeployed",
    "Webhook",
    "WebhookDelivery",
    "WeightedReward",
    "Worker",
]
