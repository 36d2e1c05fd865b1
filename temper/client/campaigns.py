"""``/v1/campaigns``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from services.contracts.base import Page
from services.contracts.kinds import JobKind
from temper.client.jobs import JobResource
from temper.client.transport import TRANSFER_TIME_LIMIT

if TYPE_CHECKING:
    from services.contracts.campaigns.campaigns import (
        Campaign,
        CreateCampaign,  # noqa: F401  (a string, in the base of the class)
        ForkCampaign,
        RewindCampaign,
    )
    from services.contracts.campaigns.loops import CampaignLoop
    from services.contracts.campaigns.reports import CampaignReport

PageFormat = Literal["markdown", "html"]


class Campaigns(JobResource["CreateCampaign", "Campaign"]):
    """``/v1/campaigns``."""

    kind = JobKind.CAMPAIGN

    def loops(self, campaign_id: str) -> list[CampaignLoop]:
        """Return all attempts so far, the base model as loop 0 first."""
        from services.contracts.campaigns.loops import CampaignLoop

        return self._transport.get(f"{self.path}/{campaign_id}/loops", Page[CampaignLoop]).data

    def fork(self, campaign_id: str, request: ForkCampaign) -> Campaign:
        """Start a campaign from a step of another one."""
        from services.contracts.campaigns.campaigns import Campaign

        return self._transport.post(f"{self.path}/{campaign_id}/fork", Campaign, request)

    def rewind(self, campaign_id: str, request: RewindCampaign) -> Campaign:
        """Rerun a step and all later ones of a waiting or paused campaign."""
        from services.contracts.campaigns.campaigns import Campaign

        return self._transport.post(f"{self.path}/{campaign_id}/rewind", Campaign, request)

    def best(self, campaign_id: str) -> CampaignLoop:
        """Return the best attempt so far."""
        from services.contracts.campaigns.loops import CampaignLoop

        return self._transport.get(f"{self.path}/{campaign_id}/best", CampaignLoop)

    def report(self, campaign_id: str) -> CampaignReport:
        """Return a campaign's report so far."""
        from services.contracts.campaigns.reports import CampaignReport

        return self._transport.get(f"{self.path}/{campaign_id}/report", CampaignReport)

    def report_page(self, campaign_id: str, page_format: PageFormat) -> str:
        """Return the report as a page."""
        path, query = f"{self.path}/{campaign_id}/report", {"format": page_format}
        with self._transport.stream(path, query, {}, TRANSFER_TIME_LIMIT) as response:
            response.read()
            return response.text
