"""``/v1/campaigns``."""

from services.contracts.base import Page
from services.contracts.campaigns import Campaign, CampaignLoop, CreateCampaign
from temper.client.transport import Transport

PATH = "/v1/campaigns"


class Campaigns:
    """Campaigns; follow, pause and cancel them through `Jobs`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, request: CreateCampaign) -> Campaign:
        """Start a campaign."""
        return self._transport.post(PATH, Campaign, request)

    def get(self, campaign_id: str) -> Campaign:
        """Return a campaign, with its result once it has succeeded."""
        return self._transport.get(f"{PATH}/{campaign_id}", Campaign)

    def loops(self, campaign_id: str) -> list[CampaignLoop]:
        """Return all attempts so far, the base model as loop 0 first."""
        return self._transport.get(f"{PATH}/{campaign_id}/loops", Page[CampaignLoop]).data

    def best(self, campaign_id: str) -> CampaignLoop:
        """Return the best attempt so far."""
        return self._transport.get(f"{PATH}/{campaign_id}/best", CampaignLoop)
