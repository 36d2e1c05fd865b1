"""The campaign worker: ``python -m services.campaigns``."""

from services.campaigns.settings import CampaignSettings
from services.campaigns.worker import serve_campaigns


def main() -> None:
    """Serve campaigns until a signal stops the process."""
    serve_campaigns(CampaignSettings())


if __name__ == "__main__":
    main()
