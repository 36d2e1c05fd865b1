"""Data scripts that run in the sandbox while the campaign waits."""

import errno
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from services.campaigns.run.records import Proposal
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import BudgetSpent, StepFailed, Waiting
from services.campaigns.scripts.script import run_script
from services.campaigns.settings import CampaignSettings
from services.contracts.campaigns.loops import Failure, StepName
from services.contracts.errors import JobFailed
from services.core.db.tables import EventRow
from tests.support.campaigns.run import CAMPAIGN_ID, StoredCampaign
from tests.support.campaigns.scripted_scripts import ENDED, LONG, Json, ScriptedScripts

SOURCE = "print('data')"
KEY = "script-key"


@pytest.fixture
def scripts(campaign: StoredCampaign) -> Iterator[ScriptedScripts]:
    """The sandbox of the campaign's worker; every script has ended."""
    with ScriptedScripts(lambda _: ENDED) as served:
        home = campaign.settings.home
        campaign.settings = CampaignSettings(
            home=home,
            sandbox_url=served.origin,
            campaign_script_key=KEY,
            campaign_script_data=home / "sandbox" / "campaigns",
        )
        yield served


def made(run: CampaignRun) -> Any:
    """The data of the first loop's script."""
    read: list[Any] = []

    def step() -> Proposal:
        read.append(json.loads(run_script(run, "full", SOURCE, debug=False).read_text()))
        return Proposal(parent=0)

    run.step(1, StepName.RUNNING, Proposal, step)
    return read[0]


def later(campaign: StoredCampaign) -> CampaignRun:
    """Another worker, after the first one let go of the campaign or was lost."""
    campaign.lost()
    return campaign.run()


def events(campaign: StoredCampaign) -> str:
    with campaign.database.read() as session:
        return "\n".join(row.message for row in session.query(EventRow))


def test_a_script_gets_the_data_sets_as_a_folder_and_its_place_is_freed(
    campaign: StoredCampaign, scripts: ScriptedScripts
) -> None:
    campaign.create(time_limits={"script": 7200})
    scripts.data = b'[{"instruction": "1", "output": "2"}]'

    assert made(campaign.run()) == [{"instruction": "1", "output": "2"}]

    ((script_id, request),) = scripts.started.items()
    assert (request["code"], request["file"], request["seconds"]) == (
        SOURCE,
        "process_data.py",
        7200,
    )
    assert request["folders"] == {"datasets": f"campaigns/{CAMPAIGN_ID}"}
    assert request["files"] == {}
    shared = campaign.settings.home / "sandbox" / "campaigns" / CAMPAIGN_ID
    assert "What is 7 plus 7" in (shared / "sums.jsonl").read_text()
    assert (shared / "sums.jsonl").stat().st_mode & 0o777 == 0o644
    assert (shared.stat().st_mode & 0o777, shared.parent.stat().st_mode & 0o777) == (0o755, 0o711)
    assert scripts.deleted == [script_id]
    assert {header["Temper-Script-Key"] for header in scripts.headers} == {KEY}


def test_without_a_folder_the_data_sets_are_sent(
    campaign: StoredCampaign, scripts: ScriptedScripts
) -> None:
    campaign.create()
    campaign.settings = campaign.settings.model_copy(update={"campaign_script_data": None})

    made(campaign.run())

    (request,) = scripts.started.values()
    assert (list(request["files"]), request["folders"]) == (["datasets/sums.jsonl"], {})


def test_folders_of_campaigns_that_have_ended_are_removed(
    campaign: StoredCampaign, scripts: ScriptedScripts
) -> None:
    root = campaign.settings.home / "sandbox" / "campaigns"
    (root / "campaign-of-before").mkdir(parents=True)
    (root / ".campaign-of-before.0a0b.partial").touch()
    campaign.create()

    made(campaign.run())

    assert [each.name for each in root.iterdir()] == [CAMPAIGN_ID]
    assert scripts.started


def test_a_campaign_waits_for_space_for_its_data_sets(
    campaign: StoredCampaign, scripts: ScriptedScripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    campaign.create()
    with monkeypatch.context() as patched:
        patched.setattr("os.sendfile", full)
        with pytest.raises(Waiting, match="space in TEMPER_CAMPAIGN_SCRIPT_DATA"):
            made(campaign.run())
    root = campaign.settings.home / "sandbox" / "campaigns"
    assert [each.name for each in root.iterdir()] == [CAMPAIGN_ID]

    assert made(later(campaign)) == []
    assert (root / CAMPAIGN_ID / "sums.jsonl").stat().st_size > 0


def test_a_campaign_waits_for_a_long_script_and_starts_it_once(
    campaign: StoredCampaign, scripts: ScriptedScripts
) -> None:
    campaign.create(time_limits={"script": 7200})
    scripts.view = lambda _: LONG
    with pytest.raises(Waiting, match="60 of at most 120 minutes"):
        made(campaign.run())

    scripts.view = lambda _: ENDED

    assert made(later(campaign)) == []
    assert len(scripts.started) == 1
    assert [method for method, _ in scripts.requests].count("PUT") == 1


def test_a_worker_that_was_killed_before_it_recorded_the_start_starts_nothing_twice(
    campaign: StoredCampaign, scripts: ScriptedScripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign.create()
    with monkeypatch.context() as patched:
        patched.setattr("services.campaigns.run.run.record_effect", _killed)
        with pytest.raises(KeyboardInterrupt):
            made(campaign.run())

    assert made(later(campaign)) == []
    assert [method for method, _ in scripts.requests].count("PUT") == 2
    assert len(scripts.started) == 1


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_script_that_the_sandbox_lost_is_started_again_and_that_is_told(
    campaign: StoredCampaign, scripts: ScriptedScripts
) -> None:
    campaign.create()
    scripts.view = lambda number: None if number == 1 else ENDED

    assert made(campaign.run()) == []

    assert len(scripts.started) == 2
    assert "was lost, start 1 of 3: the sandbox was started again" in events(campaign)


@pytest.mark.parametrize("view", [None, {"state": "failed", "seconds": 1.0, "message": "no slot"}])
def test_a_script_that_is_lost_again_and_again_fails_the_step(
    campaign: StoredCampaign, scripts: ScriptedScripts, view: Json | None
) -> None:
    campaign.create()
    scripts.view = lambda _: view

    with pytest.raises(StepFailed, match=r"lost .* 3 times") as failed:
        made(campaign.run())

    assert failed.value.failure is Failure.ENVIRONMENT
    assert len(scripts.started) == 3
    assert "start 3 of 3" in events(campaign)


def test_a_failing_script_fails_the_step_with_the_end_of_its_output(
    campaign: StoredCampaign, scripts: ScriptedScripts
) -> None:
    campaign.create()
    failed = {"status": "Finished", "return_code": 1}
    scripts.view = lambda _: {**ENDED, "result": failed, "stderr": "ValueError: no rows"}

    with pytest.raises(StepFailed, match=r"ended with code 1.*\n.*ValueError: no rows") as raised:
        made(campaign.run())

    assert raised.value.failure is Failure.DATA


def test_data_that_are_too_large_are_told_of_and_not_downloaded(
    campaign: StoredCampaign, scripts: ScriptedScripts
) -> None:
    campaign.create()
    scripts.view = lambda _: {**ENDED, "files": {"data.json": (32 << 20) + 1}}

    with pytest.raises(StepFailed, match=r"data.json is larger than 32 MiB"):
        made(campaign.run())

    assert not list(campaign.settings.home.glob("jobs/*/loop-1/full.*"))


def test_a_full_sandbox_is_waited_for(campaign: StoredCampaign, scripts: ScriptedScripts) -> None:
    campaign.create()
    scripts.refusal = 503, "2 scripts run"

    with pytest.raises(Waiting, match="waiting for the sandbox: 2 scripts run"):
        made(campaign.run())


def test_a_sandbox_that_refuses_fails_the_campaign(
    campaign: StoredCampaign, scripts: ScriptedScripts
) -> None:
    campaign.create()
    scripts.refusal = 403, "scripts need a key"

    with pytest.raises(JobFailed, match="the sandbox refuses a script: scripts need a key"):
        made(campaign.run())


def test_the_end_of_the_hours_ends_the_script(
    campaign: StoredCampaign, scripts: ScriptedScripts
) -> None:
    campaign.create(budget={"hours": 1})
    scripts.view = lambda _: LONG
    with pytest.raises(Waiting):
        made(campaign.run())
    campaign.started(time.time() - 3601)

    with pytest.raises(BudgetSpent):
        made(later(campaign))

    assert scripts.deleted == list(scripts.started)


def test_a_stopping_worker_leaves_the_script_to_the_next_one(
    campaign: StoredCampaign, scripts: ScriptedScripts
) -> None:
    campaign.create()
    run = campaign.run()

    def running(_: int) -> Json:
        campaign.stopping.set()
        return {"state": "running", "seconds": 1.0}

    scripts.view = running
    with pytest.raises(Exception, match="stopping"):
        made(run)

    assert scripts.deleted == []
    assert len(scripts.started) == 1
