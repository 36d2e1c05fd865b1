"""A job's configuration and results: the main results and the collapsible ones."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from services.contracts.jobs import JobStatus
from services.core.db.engine import Database
from services.core.jobs.store import get_job, move_job
from tests.support.evaluation_view import metrics_of
from tests.support.evaluations import Calls, SucceededEvaluations
from tests.support.gateway import GatewayClient


@pytest.fixture(scope="module")
def database(gateway: GatewayClient) -> Iterator[Database]:
    database = Database(f"sqlite:///{gateway.home / 'temper.db'}")
    yield database
    database.close()


@pytest.fixture(scope="module")
def file_id(gateway: GatewayClient) -> str:
    """An evaluation file; also registers the model under evaluation."""
    gateway.submit("succeed")  # registers the model
    files = {"file": ("evals.jsonl", b'{"prompt": "1+1=", "gold": "2"}\n')}
    made = gateway.http.post("/v1/files", files=files, data={"purpose": "evals"})
    return str(made.json()["id"])


def open_job(page: Page, gateway: GatewayClient, job_id: str) -> Locator:
    """The configuration and results on a job's page."""
    page.goto(str(gateway.http.base_url.join(f"/ui/jobs/{job_id}")))
    return page.locator(".results")


def unfold(place: Locator, name: str) -> Locator:
    """Expand the value of a name; returns it."""
    value = place.locator(f"dt:text-is('{name}') + dd").first
    value.locator("summary").first.click()
    return value


def test_nested_results_expand_below_the_main_ones(
    page: Page, gateway: GatewayClient, database: Database, file_id: str
) -> None:
    evaluations = SucceededEvaluations(gateway.http, database, gateway.home, file_id)
    calls: list[Calls] = [
        [{"toolName": name, "paramList": {"x": 1}}] for name in ("add", "<b>sub</b>")
    ]
    job_id = evaluations.of_tool_calls((calls[0], calls[0]), (calls[1], calls[0]))
    shown = open_job(page, gateway, job_id)

    expect(shown).to_contain_text("accuracy50.0% (95% CI 9.5% to 90.5%)")
    expect(shown).to_contain_text("Correct1 of 2")
    expect(shown).not_to_contain_text("{")
    expect(shown.get_by_role("table")).to_have_count(0)

    tools = unfold(unfold(unfold(shown, "metrics"), "tool_calls"), "tools")
    rows = unfold(tools, "entries").get_by_role("row")
    expect(rows.first).to_contain_text("precision")
    expect(rows.filter(has_text="<b>sub</b>")).to_be_visible()
    expect(shown).not_to_contain_text("{")


def test_expanded_entries_stay_expanded_when_results_arrive(
    page: Page, gateway: GatewayClient, database: Database, file_id: str
) -> None:
    body = {"model": "base", "benchmarks": [{"name": n, "file": file_id} for n in ("one", "two")]}
    job_id = str(gateway.http.post("/v1/evaluations", json=body).json()["id"])
    shown = open_job(page, gateway, job_id)
    benchmarks = unfold(shown, "benchmarks")
    expect(benchmarks.get_by_text("1: one")).to_be_visible()
    expect(shown.get_by_text("Main results")).to_have_count(0)

    result = {"benchmarks": {"one": metrics_of(0.5), "two": metrics_of(0.7)}}
    for status in (JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.SUCCEEDED):
        given = result if status.is_final else None
        with database.write() as session:
            move_job(session, get_job(session, job_id), status, f"now {status}", result=given)

    expect(shown).to_contain_text("accuracy of one50.0%")
    expect(shown).to_contain_text("Mean over benchmarksone and two have the same items")
    expect(benchmarks.get_by_text("1: one")).to_be_visible()


def test_settings_are_shown_by_their_dotted_names(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("succeed", hyperparameters={"learning_rate": 0.00012345})
    gateway.wait_until(job_id, "succeeded")
    shown = open_job(page, gateway, job_id)

    name = "method.supervised.hyperparameters.learning_rate"
    expect(shown.locator(f"dt:text-is('{name}') + dd")).to_have_text("0.00012345")
    expect(shown.get_by_text("Trained tokens")).to_be_visible()
