"""Evaluations in a browser: their list, a comparison of two, and their answers."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from services.contracts.evaluation.results import SampleResult, ToolUse
from services.core.db.engine import Database
from services.rollouts.log.log import IndexedLog
from tests.support.evaluation.evaluations import LOWER_SCORE, SucceededEvaluations
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
    page.get_by_title(baseline).check()
    page.get_by_title(candidate).check()
    page.get_by_role("button", name="Compare 2 with the first").click()

    compared = page.get_by_role("region", name="Paired on the same items")
    expect(compared).to_contain_text(candidate)
    expect(compared).to_contain_text("+66.7%")
    compared.get_by_text("7", exact=True).click()
    expect(compared.get_by_role("link", name="of the candidate")).to_have_count(7)
    expect(page).to_have_url(re.compile(f"compare={baseline}(,|%2C){candidate}"))


def test_the_main_metric_is_shown_with_its_interval_and_its_direction(
    page: Page, gateway: GatewayClient, succeeded: SucceededEvaluations
) -> None:
    share = succeeded.evaluation("10" * 4)
    score = succeeded.evaluation("11", benchmark=LOWER_SCORE)
    both = succeeded.of_several(sums="10", words="0")
    lengths = {"name": "characters", "direction": "minimize", "mean": 12.0, "share": False}
    short = succeeded.evaluation("11", grader_metric=lengths)
    open_view(page, gateway, "/ui/evaluations")

    listed = page.get_by_role("row").filter(has_text=share)
    expect(listed).to_contain_text("accuracy ↑50.0%21.5% to 78.5%4 of 8")
    expect(listed.get_by_role("img", name="higher is better")).to_be_visible()
    listed = page.get_by_role("row").filter(has_text=score)
    expect(listed).to_contain_text(re.compile(r"mean score ↓0\.25-?[0-9.]+ to [0-9.]+2 of 2"))
    expect(listed.get_by_role("img", name="lower is better")).to_be_visible()
    listed = page.get_by_role("row").filter(has_text=short)
    expect(listed).to_contain_text("characters ↓122 of 2")  # 12, and its correct answers
    rows = page.get_by_role("row").filter(has_text=both)
    expect(rows).to_contain_text(["accuracy ↑50.0%", "accuracy ↑0.0%", "no mean: sums and words"])


def test_lower_is_better_marks_and_ranks_the_lower_candidate_first(
    page: Page, gateway: GatewayClient, succeeded: SucceededEvaluations
) -> None:
    # Each correct row has a score that grows with its number, and others have 0.
    baseline, same, lower = (
        succeeded.evaluation(marks, benchmark=LOWER_SCORE)
        for marks in ("1" * 10, "1" * 10, "1110000000")
    )
    open_view(page, gateway, f"/ui/evaluations?compare={baseline},{same},{lower}")

    rows = page.get_by_role("region", name="Paired on the same items").get_by_role("row")
    expect(rows.nth(1)).to_contain_text(lower)
    expect(rows.nth(1)).to_contain_text("mean score ↓100.450.03-0.42")
    expect(rows.nth(1).locator("strong")).to_have_text("0.03")
    expect(rows.nth(1).get_by_role("cell", name="candidate", exact=True)).to_be_visible()
    expect(rows.nth(2)).to_contain_text(same)
    expect(rows.nth(2).get_by_role("cell", name="neither, at 5%")).to_be_visible()
    expect(rows.filter(has_text="%").filter(has_text=lower)).to_have_count(0)


@pytest.mark.parametrize(("direction", "row"), [("7", 2), ("1", 1)])
@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_a_changed_item_links_to_both_answers(
    page: Page,
    gateway: GatewayClient,
    evaluations: tuple[str, str],
    direction: str,
    row: int,
    side: str,
) -> None:
    open_view(page, gateway, f"/ui/evaluations?compare={','.join(evaluations)}")
    compared = page.get_by_role("region", name="Paired on the same items")
    compared.get_by_text(direction, exact=True).click()
    compared.get_by_role("link", name=f"row {row} of the {side}", exact=True).click()

    shown = evaluations[side == "candidate"]
    expect(page).to_have_url(re.compile(rf"/{shown}/results\?row={row}$"))
    expect(page.get_by_role("row")).to_have_count(2)
    expect(page.get_by_text(f"question {row}").first).to_be_visible()


def test_answers_are_shown_by_grade(
    page: Page, gateway: GatewayClient, evaluations: tuple[str, str]
) -> None:
    open_view(page, gateway, f"/ui/jobs/{evaluations[0]}/results")

    expect(page.get_by_text("9 answers", exact=True)).to_be_visible()
    page.get_by_label("Grade").select_option("failed")
    expect(page.get_by_text("1 answer", exact=True)).to_be_visible()
    expect(page.get_by_role("row")).to_have_count(2)
    expect(page).to_have_url(re.compile("outcome=failed"))


def test_answers_are_filtered_by_tag_and_text(
    page: Page, gateway: GatewayClient, evaluations: tuple[str, str]
) -> None:
    open_view(page, gateway, f"/ui/jobs/{evaluations[0]}/results?outcome=wrong")

    expect(page.get_by_text("6 answers", exact=True)).to_be_visible()
    page.get_by_label("Tag").fill("odd")
    page.get_by_label("Tag").press("Enter")
    expect(page.get_by_text("3 answers", exact=True)).to_be_visible()
    page.get_by_text("Equivalent curl and CLI commands").click()
    command = f"temper evals show {evaluations[0]} --only 'wrong' --tag 'odd'"
    expect(page.get_by_text(command)).to_be_visible()
    page.get_by_label("Answer text").fill("it's <b>")
    page.get_by_label("Answer text").press("Enter")
    expect(page.get_by_text("No matching answers.")).to_be_visible()
    expect(page.get_by_text("--text 'it'\\''s <b>'")).to_be_attached()


def test_an_answer_with_tools_links_to_its_conversation(
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


def test_each_benchmark_of_an_evaluation_has_its_own_row(
    page: Page, gateway: GatewayClient, succeeded: SucceededEvaluations
) -> None:
    baseline, candidate = (
        succeeded.of_several(sums="10", words="0"),
        succeeded.of_several(words="1", sums="11"),
    )
    open_view(page, gateway, f"/ui/evaluations?compare={baseline},{candidate}")

    listed = page.get_by_role("row").filter(has_text=baseline)
    expect(listed).to_have_count(3)
    expect(listed.nth(0)).to_contain_text("sums")
    expect(listed.nth(1)).to_contain_text("words")
    expect(listed.get_by_role("checkbox")).to_have_count(1)
    compared = page.get_by_role("region", name="Paired on the same items")
    expect(compared.get_by_role("row").filter(has_text="sums")).to_contain_text("+50.0%")
    expect(compared.get_by_role("row").filter(has_text="words")).to_contain_text("+100.0%")

    open_view(page, gateway, f"/ui/jobs/{baseline}/results")
    expect(page.get_by_role("cell", name="sums 1", exact=True)).to_be_visible()
    expect(page.get_by_role("cell", name="words 0", exact=True)).to_be_visible()


def test_tool_call_scores_are_shown_by_tool_and_parameter(
    page: Page, gateway: GatewayClient, succeeded: SucceededEvaluations
) -> None:
    search: dict[str, object] = {"toolName": "search", "paramList": {"q": "tides", "n": 3}}
    other: dict[str, object] = {"toolName": "search", "paramList": {"q": "tides", "n": 5}}
    opened: dict[str, object] = {"toolName": "open", "paramList": {"page": 1}}
    name = succeeded.of_tool_calls(
        ([search], [search]), ([search, opened], [other]), ([opened], [opened])
    )
    open_view(page, gateway, "/ui/evaluations")
    page.get_by_role("row").filter(has_text=name).get_by_role("link", name="85.7%").click()

    equal = page.get_by_role("definition")
    expect(equal).to_have_text(["2 of 2 (100.0%)", "0 of 1 (0.0%)"])
    tools = page.get_by_role("region", name="Tools", exact=True).get_by_role("row")
    expect(tools.filter(has_text="open")).to_have_text("open100.0%50.0%66.7%211")
    expect(tools.filter(has_text="search")).to_have_text("search100.0%100.0%100.0%222")
    expect(tools.filter(has_text="micro average")).to_have_text("micro average100.0%75.0%85.7%")
    page.get_by_text("Parameters", exact=True).click()
    parameters = page.get_by_role("region", name="Tool parameters").get_by_role("row")
    expect(parameters.filter(has_text="search-n")).to_have_text("search-n50.0%50.0%50.0%221")


def test_tool_call_scores_of_two_models_are_side_by_side(
    page: Page, gateway: GatewayClient, succeeded: SucceededEvaluations
) -> None:
    search: dict[str, object] = {"toolName": "search", "paramList": {"q": "tides"}}
    opened: dict[str, object] = {"toolName": "open", "paramList": {"page": 1}}
    baseline = succeeded.of_tool_calls(([search], [search]), ([search], [opened]))
    candidate = succeeded.of_tool_calls(([search], [search]), ([search], [search]))
    open_view(page, gateway, f"/ui/evaluations?compare={baseline},{candidate}")

    listed = page.get_by_role("row").filter(has_text=baseline)
    expect(listed.filter(has=page.get_by_role("checkbox"))).to_contain_text("50.0%50.0%50.0%")
    name = gateway.job(candidate)["name"]
    tools = page.get_by_role("region", name=f"Tools: baseline vs. {name}")
    scores = "100.0%100.0%50.0%100.0%66.7%100.0%+33.3%"
    expect(tools.get_by_role("row").filter(has_text="search")).to_have_text(f"search{scores}")
    opened_row = tools.get_by_role("row").filter(has_text="open")
    expect(opened_row).to_have_text("open0.0%0.0%0.0%")
    averages = tools.get_by_role("row").filter(has_text="micro average")
    expect(averages).to_contain_text("50.0%100.0%50.0%100.0%50.0%100.0%+50.0%")
    page.get_by_text("Parameters", exact=True).click()
    parameters = page.get_by_role("region", name=f"Parameters: baseline vs. {name}")
    expect(parameters.get_by_role("row").filter(has_text="search-q")).to_be_visible()


def test_an_evaluation_without_graded_calls_has_no_tool_call_scores(
    page: Page, gateway: GatewayClient, evaluations: tuple[str, str]
) -> None:
    open_view(page, gateway, f"/ui/jobs/{evaluations[0]}/results")

    expect(page.get_by_text("9 answers", exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="Tool calls")).to_have_count(0)
