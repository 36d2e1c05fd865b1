"""Settings of the campaign worker."""

from pydantic import Field, SecretStr

from services.contracts.origins import Origin
from services.core.settings import Folder
from services.jobs.worker.settings import CommonWorkerSettings


class CampaignSettings(CommonWorkerSettings):
    """How campaigns create their jobs."""

    gateway_url: Origin = Field(
        default="http://127.0.0.1:8080", description="Gateway through which campaigns create jobs."
    )
    gateway_api_key: SecretStr | None = Field(
        default=None, description="API key of the campaigns' worker for the gateway."
    )
    sandbox_script_hours: float = Field(
        default=8.0, gt=0.0, le=168.0, description="Highest time limit of a script."
    )
    campaign_script_key: SecretStr | None = Field(
        default=None,
        description="The sandbox's key for scripts, as which data scripts run; null: no campaigns.",
    )
    campaign_script_url: Origin | None = Field(
        default=None, description="The sandbox's own address for scripts; null: sandbox_url."
    )
    campaign_script_data: Folder | None = Field(
        default=None,
        description="Folder for data sets that the sandbox lists as campaigns; null: data sets are "
        "sent to it.",
    )
    campaign_proxy_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="Port of the proxy through which data scripts ask LLMs; null: they cannot.",
    )
    campaign_proxy_host: str = Field(
        default="127.0.0.1", description="Address that this proxy listens on."
    )
    campaign_proxy_url: Origin | None = Field(
        default=None,
        description="Address of this proxy for the sandbox, whose TEMPER_SANDBOX_SCRIPT_NETWORK "
        "names it; null: loopback.",
    )
    campaign_slots: int = Field(
        default=4, ge=1, le=64, description="Campaigns that take a step concurrently."
    )
    campaign_answer_mb: int = Field(
        default=256,
        ge=0,
        le=65_536,
        description="Size of the answers of LLMs that campaigns share; 0: they share none.",
    )
    campaign_answer_days: float = Field(
        default=30.0, gt=0.0, le=3650.0, description="Age at which such an answer leaves."
    )

    @property
    def proxy_url(self) -> str | None:
        """Where scripts call LLMs; None if they cannot."""
        if self.campaign_proxy_port is None or self.campaign_script_key is None:
            return None
        return self.campaign_proxy_url or f"http://127.0.0.1:{self.campaign_proxy_port}"

    @property
    def most_script_seconds(self) -> float:
        """The highest time limit of a data script."""
        return self.sandbox_script_hours * 3600.0
