"""A job's configuration and results: the main results and the collapsible ones."""

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect
from sqlalchemy import update

from services.contracts.jobs import JobStatus
from services.contracts.rollouts.trajectories import Trajectory
from services.core.db.engine import Database
from services.core.db.tables import AlertRow
from services.jobs.events import append_event
from services.jobs.store import get_job, move_job
from services.rollouts.log.log import IndexedLog
from tests.support.evaluation.evaluation_view import metrics_of
from tests.support.evaluation.evaluations import Calls, SucceededEvaluations
from tests.support.gateway import GatewayClient
from tests.support.trajectories import trajectory


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

    main = page.get_by_role("region", name="Main results")
    expect(main).to_contain_text("accuracy50.0% (95% CI 9.5% to 90.5%)")
    expect(main).to_contain_text("Correct1 of 2")
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
    main = page.get_by_role("region", name="Main results")
    expect(main).to_be_hidden()

    result = {"benchmarks": {"one": metrics_of(0.5), "two": metrics_of(0.7)}}
    for status in (JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.SUCCEEDED):
        given = result if status.is_final else None
        with database.write() as session:
            move_job(session, get_job(session, job_id), status, f"now {status}", result=given)

    expect(main).to_contain_text("accuracy of one50.0%")
    expect(main).to_contain_text("Mean over benchmarksone and two have the same items")
    expect(benchmarks.get_by_text("1: one")).to_be_visible()


REINFORCEMENT = {
    "type": "reinforcement",
    "reinforcement": {
        "rewards": [{"name": "rule", "reward": {"type": "retool"}}],
        "hyperparameters": {"steps": 5},
    },
}


def test_what_failed_and_the_audit_of_the_reward_are_on_the_page_of_a_training(
    page: Page, gateway: GatewayClient, database: Database
) -> None:
    # The gateway resolves alerts of jobs that do not run, or whose metrics are fine.
    job_id = gateway.submit("quiet", method=REINFORCEMENT)
    gateway.wait_until(job_id, "running")
    with IndexedLog(gateway.home / "jobs" / job_id) as log:
        for prompt in range(40):
            one_answer = "again and again" if prompt >= 20 else f"answer {prompt}"
            log.append(answered(prompt, one_answer, reward=prompt / 40))
    lost = {"samples_left_out": 2, "batch_samples": 4, "infrastructure_failures/search": 3}
    with database.write() as session:
        append_event(session, job_id, "Step 6", type="metrics", data={"step": 6, **lost})
        append_event(session, job_id, "Step 7", type="metrics", data={"step": 7, **lost})
        row = {"rule": "failure_share", "value": 0.3, "bound": 0.1, "message": "30 % were lost"}
        session.add(AlertRow(id="alert-lost", job_id=job_id, raised_at=time.time(), **row))
    open_job(page, gateway, job_id)

    failed = page.get_by_role("region", name="Failed tools and services")
    expect(failed).to_contain_text("Samples left out in the latest 64 steps: 4")
    expect(failed.get_by_role("row").filter(has_text="search")).to_have_text("search67")
    alerts = page.get_by_role("region", name="Alerts")
    expect(alerts.get_by_role("row").last).to_contain_text("failure shareraised30%10%")
    page.get_by_role("link", name="Alerts").click()
    row_of_job = page.get_by_role("row").filter(has_text=job_id)
    expect(row_of_job).to_contain_text("30 % were lost")
    gateway.cancel(job_id)
    gateway.wait_until(job_id, "cancelled")
    with database.write() as session:
        session.execute(update(AlertRow).values(resolved_at=time.time()))
    page.get_by_label("Job", exact=True).fill(job_id)
    page.get_by_label("Job", exact=True).press("Enter")
    expect(page.get_by_text("Nothing is wrong now.")).to_be_visible()
    page.get_by_label("Show").select_option("all")
    expect(row_of_job).to_contain_text("failure shareresolved30%10%")
    assert page.url.endswith(f"/ui/alerts?job={job_id}&resolved=true")

    open_job(page, gateway, job_id)
    signs = page.get_by_role("region", name="Signs of a gamed reward").get_by_role("row")
    expect(signs).to_have_count(7)
    collapsed = signs.filter(has_text="groups collapsed")
    expect(collapsed).to_contain_text("found0")
    expect(collapsed).to_contain_text("at least 30% of the samples are one response")
    expect(signs.filter(has_text="copied prompt")).to_contain_text("not found")
    page.get_by_role("link", name="last 10").click()
    expect(page.get_by_role("region", name="40 trajectories")).to_be_visible()


def answered(prompt: int, text: str, reward: float) -> Trajectory:
    """A sample that answers a prompt with a text."""
    sample = trajectory(prompt, reward=reward, reward_components={"rule": reward})
    return sample.model_copy(update={"turns": [sample.turns[0].model_copy(update={"text": text})]})


def test_settings_are_shown_by_their_dotted_names(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("succeed", hyperparameters={"learning_rate": 0.00012345})
    gateway.wait_until(job_id, "succeeded")
    shown = open_job(page, gateway, job_id)

    name = "method.supervised.hyperparameters.learning_rate"
    expect(shown.locator(f"dt:text-is('{name}') + dd")).to_have_text("0.00012345")
    main = page.get_by_role("region", name="Main results")
    expect(main.get_by_text("Trained tokens")).to_be_visible()
