"""The types of what `temper.Temper` takes and returns.

Fields hold further types: build a request with `model_validate`, from a dictionary as in the REST
API.
"""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from services.contracts.alerts import Alert
from services.contracts.base import Deleted, JsonObject, Page
from services.contracts.batches.batches import Batch, CreateBatch
from services.contracts.campaigns.campaigns import (
    Campaign,
    CampaignDataset,
    CreateCampaign,
    ForkCampaign,
    RewindCampaign,
)
from services.contracts.campaigns.limits import CampaignBudget
from services.contracts.campaigns.llms import CampaignLlm
from services.contracts.campaigns.loops import CampaignLoop
from services.contracts.campaigns.reports import CampaignReport, ReportedAttempt
from services.contracts.data.datasets import Dataset, RegisterDataset
from services.contracts.data.file_rows import ExampleRows, FileRows, ShowExamples
from services.contracts.data.files import File, FilePurpose
from services.contracts.evaluation.benchmarks import Benchmark
from services.contracts.evaluation.comparisons import CompareEvaluations, EvaluationComparison
from services.contracts.evaluation.evaluations import CreateEvaluation, Evaluation
from services.contracts.evaluation.results import (
    EvaluationMetrics,
    ResultOrder,
    ResultOutcome,
    SampleResult,
)
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
from services.contracts.kinds import KINDS
from services.contracts.models.jobs import (
    CreateDownload,
    CreateExport,
    CreateMerge,
    Download,
    Export,
    Merge,
)
from services.contracts.models.registered import Model, ModelFolder, RegisterModel
from services.contracts.notes import Note
from services.contracts.retrieval.indexes import CreateIndexingJob, IndexingJob
from services.contracts.rewards.audits import RewardAudit
from services.contracts.rewards.graders import FunctionCallsGrader, NumericGrader
from services.contracts.rewards.openai_graders import MultiGrader, StringCheckGrader
from services.contracts.rewards.rewards import (
    RetoolReward,
    RewardModelReward,
    SearchEmReward,
    WeightedReward,
)
from services.contracts.rollouts.multi_turn import MultiTurn, RolloutSampling, Tool
from services.contracts.rollouts.rollouts import (
    CreateRollout,
    RewardSpread,
    Rollout,
    TrajectoryOrder,
    TrajectorySummary,
)
from services.contracts.rollouts.tokens import SessionTurn, TrajectoryToken
from services.contracts.rollouts.training_rows import (
    CreateTrainingRows,
    RowLayout,
    TrainingRows,
)
from services.contracts.rollouts.trajectories import Trajectory
from services.contracts.sampling import Sampling
from services.contracts.serving import CreateServing, DeployModel, Serving, Undeployed
from services.contracts.stack import StackService
from services.contracts.training.checks import Check, CreateCheck
from services.contracts.training.fine_tuning import (
    Checkpoint,
    CreateFineTuningJob,
    FineTuningJob,
    Method,
)
from services.contracts.training.methods import MethodType
from services.contracts.training.offline import (
    RewardModelHyperparameters,
    RewardModelMethod,
    SupervisedHyperparameters,
    SupervisedMethod,
)
from services.contracts.training.online import (
    Critic,
    DynamicSampling,
    PpoHyperparameters,
    PpoMethod,
    ReinforcementHyperparameters,
    ReinforcementMethod,
)
from services.contracts.training.optimizer import LoraSettings, OptimizerSettings, TrainingType
from services.contracts.training.policy_loss import KlPenalty, KlTo, PolicyLoss, PpoLoss
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
    "CreateDownload",
    "CreateEvaluation",
    "CreateExport",
    "CreateFineTuningJob",
    "CreateIndexingJob",
    "CreateMerge",
    "CreateRollout",
    "CreateServing",
    "CreateTrainingRows",
    "CreatedWebhook",
    "Critic",
    "Dataset",
    "Deleted",
    "DeployModel",
    "Download",
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
    "FunctionCallsGrader",
    "IndexingJob",
    "Job",
    "JobKind",
    "JobState",
    "JobStatus",
    "JsonObject",
    "KlPenalty",
    "KlTo",
    "LoraSettings",
    "Merge",
    "Method",
    "MethodType",
    "Model",
    "ModelFolder",
    "MultiGrader",
    "MultiTurn",
    "Note",
    "NumericGrader",
    "OptimizerSettings",
    "Page",
    "PolicyLoss",
    "PpoHyperparameters",
    "PpoLoss",
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
    "RowLayout",
    "SampleResult",
    "Sampling",
    "SearchEmReward",
    "Serving",
    "SessionTurn",
    "ShowExamples",
    "StackService",
    "StringCheckGrader",
    "SupervisedHyperparameters",
    "SupervisedMethod",
    "Tool",
    "TrainingRows",
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

_OF_KINDS = {
    name.rpartition(":")[2]: name
    for kind in KINDS.values()
    for name in (kind.request_type, kind.resource_type)
}
__all__.extend(sorted(_OF_KINDS.keys() - set(__all__)))

if not TYPE_CHECKING:  # which takes a name that is not known for a mistake

    def __getattr__(name: str) -> Any:
        """The request or the resource of a kind that is not listed above."""
        if name not in _OF_KINDS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return resolve_name(_OF_KINDS[name])
