"""What a campaign may offer its data scripts, by the settings of the campaign worker."""

from services.campaigns.settings import CampaignSettings
from services.contracts.campaigns.campaigns import CreateCampaign
from services.contracts.errors import InvalidRequest
from services.core.artifacts import Artifacts

MAX_SENT_BYTES = 64 << 20
"""For all datasets together, encoded in one request to the sandbox."""


def check_scripts(
    request: CreateCampaign, settings: CampaignSettings, artifacts: Artifacts
) -> None:
    """Raise `InvalidRequest` where scripts cannot be run, or not with these LLMs or datasets.

    Raises `OSError` for a missing dataset.
    """
    if settings.campaign_script_key is None:
        raise InvalidRequest(
            "data scripts cannot run here: the campaigns' worker needs TEMPER_CAMPAIGN_SCRIPT_KEY, "
            "and the sandbox its hash in TEMPER_SANDBOX_SCRIPT_KEY_HASHES"
        )
    if request.script_llms is not None and settings.proxy_url is None:
        raise InvalidRequest(
            "data scripts cannot ask LLMs here: the campaigns' worker needs "
            "TEMPER_CAMPAIGN_PROXY_PORT",
            param="script_llms",
        )
    if settings.campaign_script_data is not None:
        return
    size = sum(artifacts.file(each.file).stat().st_size for each in request.datasets)
    if size > MAX_SENT_BYTES:
        raise InvalidRequest(
            f"the data sets have {size >> 20} MiB together, and at most {MAX_SENT_BYTES >> 20} MiB "
            "can be sent to the sandbox: for more, the campaigns' worker needs "
            "TEMPER_CAMPAIGN_SCRIPT_DATA",
            param="datasets",
        )
