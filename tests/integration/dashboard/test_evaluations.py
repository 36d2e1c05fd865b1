"""Evaluations in a browser: their list, a comparison of two, and their answers."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from services.contracts.evaluation_results import SampleResult, ToolUse
from services.core.db.engine import Database
from services.rollouts.log.log import IndexedLog
from tests.support.evaluations import SucceededEvaluations
from tests.support.gateway import GatewayClient
from tests.support.trajectories import call, trajectory


@pytest.fixture(scope="module")
def succeeded(gateway: GatewayClient) -> Iterator[SucceededEvaluations]:
    """Makes evaluations that have succeeded."""
    gateway.submit("succeed")  # registers the model
    files = {"file": ("evals.jsonl", b'{"prompt": "1+1=", "gold": "2"}\n')}
    made = gateway.http.post("/v1/files", files=files, data={"purpose": "evals"})
    database = Database(f"sqlite:///{gateway.home / 'temper.db'}")
    file_id = str(made.json()["id"])
    yield SucceededEvaluations(gateway.http, database, gateway.home, file_id)
    database.close()


@pytest.fixture(scope="module")
def evaluations(succeeded: SucceededEvaluations) -> tuple[str, str]:
    """Two evaluations of the same nine items."""
    return succeeded.evaluation("1100-0000"), succeeded.evaluation("101111111")


def open_view(page: Page, gateway: GatewayClient, path: str) -> None:
    page.goto(str(gateway.http.base_url.join(path)))


def test_two_evaluations_are_compared_on_the_same_items(
    page: Page, gateway: GatewayClient, evaluations: tuple[str, str]
) -> None:
    baseline, candidate = evaluations
    open_view(page, gateway, "/ui/evaluations")
    page.get_by_label(f"Compare {baseline}").check()
    page.get_by_label(f"Compare {candidate}").check()
    page.get_by_role("button", name="Compare 2 with the first").click()

    compared = page.get_by_role("region", name="Paired on the same items")
    expect(compared).to_contain_text(candidate)
    expect(compared).to_contain_text("+66.7 %")
    compared.get_by_text("7", exact=True).click()
    expect(compared).to_contain_text("rows 2, 3, 4, 5, 6, 7, 8")
    expect(page).to_have_url(re.compile(f"compare={baseline}(,|%2C){candidate}"))


def test_answers_are_shown_by_grade(
    page: Page, gateway: GatewayClient, evaluations: tuple[str, str]
) -> None:
    open_view(page, gateway, f"/ui/jobs/{evaluations[0]}/results")

    expect(page.get_by_text("9 of the 9 answers loaded")).to_be_visible()
    page.get_by_label("Grade").select_option("failed")
    expect(page.get_by_text("1 of the 9 answers loaded")).to_be_visible()
    expect(page.get_by_role("row")).to_have_count(2)


def test_an_answer_with_tools_leads_to_its_conversation(
    page: Page, gateway: GatewayClient, succeeded: SucceededEvaluations
) -> None:
    name = succeeded.evaluation("1")
    folder = gateway.home / "jobs" / name
    with IndexedLog(folder) as log:
        log.append(trajectory(calls=[call("python", shown="it printed 2")]))
    used = ToolUse(trajectory="traj-0-0", turns=1, calls=1, failed_calls=0, malformed_calls=0)
    row = SampleResult(id="", index=0, gold=["2"], answer="2", correct=True, tools=used)
    (folder / "results.jsonl").write_text(row.model_dump_json(exclude={"id"}) + "\n")

    open_view(page, gateway, f"/ui/jobs/{name}/results")
    page.get_by_role("link", name="1", exact=True).click()

    expect(page.get_by_text("it printed 2")).to_be_visible()


def test_benchmarks_of_one_evaluation_have_rows_of_their_own(
    page: Page, gateway: GatewayClient, succeeded: SucceededEvaluations
) -> None:
    baseline, candidate = (
        succeeded.of_several(sums="10", words="0"),
        succeeded.of_several(words="1", sums="11"),
    )
    open_view(page, gateway, f"/ui/evaluations?compare={baseline},{candidate}")

    listed = page.get_by_role("row").filter(has_text=baseline)
    expect(listed).to_have_count(2)
    expect(listed.nth(0)).to_contain_text("sums")
    expect(listed.nth(1)).to_contain_text("words")
    expect(listed.get_by_role("checkbox")).to_have_count(1)
    compared = page.get_by_role("region", name="Paired on the same items")
    expect(compared.get_by_role("row").filter(has_text="sums")).to_contain_text("+50.0 %")
    expect(compared.get_by_role("row").filter(has_text="words")).to_contain_text("+100.0 %")

    open_view(page, gateway, f"/ui/jobs/{baseline}/results")
    expect(page.get_by_role("cell", name="sums 1", exact=True)).to_be_visible()
    expect(page.get_by_role("cell", name="words 0", exact=True)).to_be_visible()
