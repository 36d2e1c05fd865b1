"""What campaigns may ask of their data scripts is checked before they begin."""

import os
from typing import Any

import pytest
from pydantic import ValidationError

from services.campaigns.llm import prompts
from services.campaigns.scripts.offer import MAX_SENT_BYTES, check_scripts
from services.campaigns.settings import CampaignSettings
from services.contracts.campaigns.campaigns import CreateCampaign
from services.contracts.campaigns.llms import ScriptLlms
from services.contracts.errors import InvalidRequest
from services.contracts.jobs import JobError, JobStatus
from services.core.artifacts import Artifacts
from services.jobs.job import NO_DEVICE, NewJob
from services.jobs.queues import CAMPAIGN
from services.jobs.store import create_job, get_job
from tests.support.campaigns.run import NOWHERE, REQUEST, StoredCampaign

STRONG = {"base_url": f"{NOWHERE}/v1", "model": "big"}
PRICE = {"prompt": 1.0, "completion": 2.0}


def refused(campaign: StoredCampaign, **request: Any) -> JobError:
    """Why a worker refuses a campaign."""
    body = CreateCampaign.model_validate({**REQUEST, **request})
    queues = CAMPAIGN.work, CAMPAIGN.validation
    asked = body.model_dump(mode="json")
    with campaign.database.write() as session:
        create_job(session, NewJob(campaign.id, "campaign", *queues, asked, gpus=NO_DEVICE))

    campaign.work(CAMPAIGN.validation)

    assert campaign.status_of(campaign.id) is JobStatus.FAILED
    with campaign.database.read() as session:
        error = get_job(session, campaign.id).error
    assert error is not None
    return error


def test_a_worker_without_a_key_for_scripts_refuses_campaigns(campaign: StoredCampaign) -> None:
    error = refused(campaign)

    assert (error.code, error.param) == ("invalid_request", None)
    assert "TEMPER_CAMPAIGN_SCRIPT_KEY" in error.message
    assert "TEMPER_SANDBOX_SCRIPT_KEY_HASHES" in error.message


def test_a_worker_without_a_proxy_refuses_llms_of_scripts(campaign: StoredCampaign) -> None:
    campaign.settings = CampaignSettings(home=campaign.settings.home, campaign_script_key="key")

    error = refused(campaign, script_llms={"strong": [STRONG]})

    assert error.param == "script_llms"
    assert "TEMPER_CAMPAIGN_PROXY_PORT" in error.message


def test_more_data_than_can_be_sent_needs_a_folder(campaign: StoredCampaign) -> None:
    request = CreateCampaign.model_validate(REQUEST)
    artifacts = Artifacts(campaign.settings.home)
    os.truncate(artifacts.file(request.datasets[0].file), MAX_SENT_BYTES + 1)

    sending = CampaignSettings(home=artifacts.root, campaign_script_key="key")
    with pytest.raises(InvalidRequest, match="TEMPER_CAMPAIGN_SCRIPT_DATA") as too_large:
        check_scripts(request, sending, artifacts)
    assert too_large.value.param == "datasets"
    in_a_folder = CampaignSettings(
        home=artifacts.root, campaign_script_key="key", campaign_script_data=artifacts.root
    )
    check_scripts(request, in_a_folder, artifacts)


def test_a_cost_limit_needs_the_price_of_each() -> None:
    main = {**STRONG, "model": "main", "price": PRICE}
    priced = {**REQUEST, "llm": main, "budget": {"cost": 5.0}}

    with pytest.raises(ValidationError, match="price of big in script_llms"):
        CreateCampaign.model_validate({**priced, "script_llms": {"strong": [STRONG]}})
    llms = {"strong": [{**STRONG, "price": PRICE}]}
    CreateCampaign.model_validate({**priced, "script_llms": llms})


def test_a_model_is_one_llm_in_both_pools() -> None:
    other = {**STRONG, "base_url": f"{NOWHERE}/v2"}

    ScriptLlms.model_validate({"strong": [STRONG], "weak": [STRONG]})
    with pytest.raises(ValidationError, match="same model"):
        ScriptLlms.model_validate({"strong": [STRONG], "weak": [other]})


def test_the_llm_is_told_what_its_script_can_reach() -> None:
    without = CreateCampaign.model_validate(REQUEST)
    with_llms = CreateCampaign.model_validate(
        {**REQUEST, "script_llms": {"strong": [STRONG], "calls": 77, "calls_at_once": 5}}
    )

    assert prompts.network_text(without) == "no network"
    told = prompts.network_text(with_llms)
    assert "OpenAI() finds OPENAI_BASE_URL and OPENAI_API_KEY" in told
    assert "at most 77 calls in all, 5 at once" in told
