"""Alerts: what goes wrong in a job or on the gateway's host, by rule."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from services.contracts.base import Resource


class AlertRule(StrEnum):
    """What raises an alert."""

    LOSS_NOT_FINITE = "loss_not_finite"
    REWARD_COLLAPSE = "reward_collapse"
    KL_HIGH = "kl_high"
    SAMPLER_MISMATCH = "sampler_mismatch"
    FAILURE_SHARE = "failure_share"
    JOB_WAITS = "job_waits"
    DISK_NEARLY_FULL = "disk_nearly_full"


class Alert(Resource):
    """One alert: raised while its rule holds, resolved when it no longer does."""

    id: str = Field(description="Id of the alert.")
    object: Literal["alert"] = "alert"
    rule: AlertRule = Field(description="Rule that raised the alert.")
    job_id: str | None = Field(description="Job that the alert is about; null: the host's disk.")
    message: str = Field(description="Description of the alert in one line.")
    value: float | None = Field(description="Value that crossed the bound; null: not finite.")
    bound: float | None = Field(
        description="Bound that the value crossed, in its unit; null: the rule has none."
    )
    status: Literal["raised", "resolved"] = Field(
        description="Whether the alert holds (raised) or no longer does (resolved)."
    )
    raised_at: int = Field(description="Time at which the alert was raised, in Unix seconds.")
    resolved_at: int | None = Field(
        description="Time at which the alert was resolved, in Unix seconds; null: it holds."
    )
