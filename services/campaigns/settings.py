"""Settings of the campaigns' worker."""

from pydantic import Field, SecretStr

from services.contracts.origins import Origin
from services.core.settings import Settings
from services.core.tool_settings import ToolSettings


class CampaignSettings(Settings, ToolSettings):
    """How campaigns create their jobs."""

    host_name: str = Field(default="", description="This host in leases; empty: its name.")
    gateway_url: Origin = Field(
        default="http://127.0.0.1:8080", description="Gateway through which campaigns create jobs."
    )
    gateway_api_key: SecretStr | None = Field(
        default=None, description="API key of the campaigns' worker for the gateway."
    )
    sandbox_max_run_seconds: float = Field(
        default=300.0, ge=60.0, le=86400.0, description="Highest time limit that a request may set."
    )
    campaign_slots: int = Field(
        default=4, ge=1, le=64, description="Campaigns that take a step concurrently."
    )
