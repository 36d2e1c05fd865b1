"""Campaigns in a browser: the growing tree of attempts, one attempt, and hostile text."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from services.core.db.engine import Database
from services.core.db.tables import CampaignEffectRow, CampaignStepRow
from services.jobs.job import NewJob
from services.jobs.queues import CAMPAIGN
from services.jobs.store import create_job
from tests.support.gateway import GatewayClient

ID = "campaign-browser"
REQUEST = {
    "base_model": "base",
    "scenario": "Add two numbers.",
    "file": "file-1",
    "datasets": [{"name": "sums", "file": "file-2"}],
    "branches": 3,
    "parents": "spread",
    "llm": {"base_url": "http://127.0.0.1:4000/v1", "model": "strong", "temperature": None},
}
HOSTILE = "<script>document.title='broken'</script>\u202e</td><img src=x>"


class Records:
    """Writes the records of a campaign as its worker would."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def step(self, loop: int, name: str, output: dict[str, Any]) -> None:
        now = time.time()
        with self.database.write() as session:
            place = {"campaign_id": ID, "loop": loop, "name": name}
            session.add(CampaignStepRow(**place, output=output, started_at=now, finished_at=now))

    def attempt(self, loop: int, parent: int, right: int, *, accepted: bool) -> None:
        self.step(loop, "direct_exp_gen", {"parent": parent, "hypothesis": f"idea {loop}"})
        seeds = [{"seed": seed, **measured(f"ft:{loop}-{seed}", right)} for seed in range(2)]
        found = {**measured(f"ft:{loop}", right), "seeds": seeds, "seeds_note": "2 of 3 seeds"}
        self.step(loop, "running", {"measurement": found})
        gain = right / 10 - 0.2
        comparison = {
            "samples": 10,
            "difference": gain,
            "ci95": [gain - 0.1, gain + 0.1],
            "improves": accepted,
        }
        said = {"accepted": accepted, "comparison": comparison, "reason": HOSTILE}
        self.step(loop, "feedback", said)

    def answer(self, loop: int, step: str, answer: str) -> None:
        """An LLM call and a job of the step."""
        place = {"campaign_id": ID, "loop": loop, "step": step, "created_at": 1.0}
        spent = {"prompt_tokens": 100, "completion_tokens": 10}
        said = {"messages": [{"role": "user", "content": "Propose."}], "answer": answer}
        with self.database.write() as session:
            session.add(CampaignEffectRow(**place, **spent, key="1", seq=0, response=said))
            none = {"prompt_tokens": 0, "completion_tokens": 0}
            job = {"key": "2", "seq": 1, "response": {}, "job_id": "ftjob-1"}
            session.add(CampaignEffectRow(**place, **none, **job))


def measured(model: str, right: int) -> dict[str, Any]:
    scores = {str(item): float(item < right) for item in range(10)}
    return {"model": model, "search": scores, "final": scores, "wrong": []}


@pytest.fixture(scope="module")
def records(gateway: GatewayClient) -> Iterator[Records]:
    """A campaign whose second attempt improved on the first, and whose third did not."""
    database = Database(f"sqlite:///{gateway.home / 'temper.db'}")
    records = Records(database)
    with database.write() as session:
        new = NewJob(ID, "campaign", CAMPAIGN.work, CAMPAIGN.validation, REQUEST)
        create_job(session, new)
    records.step(0, "base", measured("base", 2))
    records.attempt(1, 0, 5, accepted=True)
    records.attempt(2, 1, 8, accepted=True)
    records.attempt(3, 0, 1, accepted=False)
    records.answer(1, "direct_exp_gen", HOSTILE)
    yield records
    database.engine.dispose()


def open_view(page: Page, gateway: GatewayClient, path: str) -> None:
    page.goto(str(gateway.http.base_url.join(path)))


def test_attempts_are_listed_under_their_parent(
    page: Page, gateway: GatewayClient, records: Records
) -> None:
    open_view(page, gateway, "/ui/campaigns")
    page.locator(f"td a[href='/ui/campaigns/{ID}']").click()

    rows = page.get_by_role("row")
    expect(rows).to_have_count(5)
    names = [row.get_by_role("cell").first.inner_text() for row in rows.all()[1:]]
    assert names == ["base model", "loop 1", "loop 2", "loop 3"]
    indents = [row.locator("td span").first.bounding_box() for row in rows.all()[1:]]
    left = [box["x"] for box in indents if box]
    assert left[2] > left[1] == left[3]
    expect(rows.nth(3)).to_contain_text("+0.6 (+0.5 to +0.7)")
    expect(rows.nth(3)).to_contain_text("0.8 (2 seeds)")
    expect(rows.nth(4)).to_contain_text("rejected")


def test_a_new_attempt_appears_without_a_reload(
    page: Page, gateway: GatewayClient, records: Records
) -> None:
    open_view(page, gateway, f"/ui/campaigns/{ID}")
    expect(page.get_by_role("link", name="loop 3")).to_be_visible()

    records.step(4, "direct_exp_gen", {"parent": 2, "hypothesis": "a longer run"})

    row = page.get_by_role("row").filter(has_text="loop 4")
    expect(row).to_contain_text("a longer run")
    expect(row).to_contain_text("in progress, after proposal")


def test_parallel_loops_show_their_parents(
    page: Page, gateway: GatewayClient, records: Records
) -> None:
    records.step(5, "direct_exp_gen", {"parent": 1, "hypothesis": "a shorter run"})
    records.step(5, "coding", {"attempts": 1})
    open_view(page, gateway, f"/ui/campaigns/{ID}")

    facts = page.locator("dl")
    expect(facts).to_contain_text("3, each from the best accepted model")
    under_way = facts.get_by_role("listitem")
    expect(under_way.filter(has_text="loop 5")).to_have_text("loop 5 from loop 1")
    judged = under_way.filter(has=page.get_by_role("link", name="loop 3"))
    expect(judged).to_have_count(0)

    row = page.get_by_role("row").filter(has_text="a shorter run")
    expect(row).to_contain_text("in progress, after coding")


def test_an_attempt_shows_its_conversation_as_text_and_its_jobs(
    page: Page, gateway: GatewayClient, records: Records
) -> None:
    open_view(page, gateway, f"/ui/campaigns/{ID}/loops/1")
    page.get_by_text("LLM call 1").click()

    expect(page.get_by_text("1: ft:1-1, search 0.5, final 0.5")).to_be_visible()
    expect(page.get_by_text("2 of 3 seeds", exact=True)).to_be_visible()
    expect(page.locator(".turn.assistant pre")).to_have_text(HOSTILE)
    expect(page.get_by_role("link", name="ftjob-1")).to_have_attribute("href", "/ui/jobs/ftjob-1")
    assert page.locator("main img").count() == 0
    assert "broken" not in page.title()
