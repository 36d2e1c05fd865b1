"""Trajectories in a browser: the list with its filters, a conversation, and hostile replies."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from services.contracts.rollouts.tool_runs import (
    HttpRun,
    Passage,
    ProgramRun,
    QueryHits,
    RequestFailure,
    SearchRun,
)
from services.contracts.rollouts.trajectories import CallOutcome, ToolCallRecord
from services.contracts.sandbox.programs import CommandResult, CommandStatus, RunStatus
from services.rollouts.log.log import IndexedLog
from services.rollouts.log.updates import UpdateLog
from tests.support.dashboard.accessibility import violations
from tests.support.gateway import GatewayClient
from tests.support.trajectories import call, endpoint_trajectory, trajectory

HOSTILE = "<script>document.title='broken'</script>\u202e</pre><img src=x>"
LONG = "x" * 60_000
PROGRAM = ProgramRun(
    language="python",
    code="x = 2\n_ = (x)\nif _ is not None: print(_)\n",
    status=RunStatus.FAILED,
    run_result=CommandResult(
        status=CommandStatus.FINISHED,
        execution_time=0.25,
        return_code=3,
        stdout=HOSTILE,
        stderr="went wrong",
        peak_memory_mb=12.5,
        stderr_truncated=True,
    ),
)
NILE = Passage(id="wiki-7", score=0.875, title=HOSTILE, text="A river.")
SEARCH = SearchRun(
    index="wiki", topk=3, queries=[QueryHits(query="it's long", found=1, passages=[NILE])]
)

FAILURE = RequestFailure(status=503, answer=HOSTILE, seconds=0.25)
FAILED_RUNS = {
    "sandbox": ProgramRun(language="python", failure=FAILURE),
    "search": SearchRun(
        index="wiki", topk=3, queries=[QueryHits(query="Po", found=0, passages=[])], failure=FAILURE
    ),
    "http": HttpRun(failure=RequestFailure(seconds=30)),
}


@pytest.fixture(scope="module")
def job(gateway: GatewayClient) -> str:
    """A rollout job with four trajectories of two prompts."""
    gateway.submit("succeed")  # registers the model
    body = {"model": "base", "prompts": [{"question": "1+1=", "gold": 2}]}
    answer = gateway.http.post("/v1/rollouts", json=body)
    assert answer.status_code == 200, answer.text
    job_id = str(answer.json()["id"])
    folder = gateway.home / "jobs" / job_id
    folder.mkdir(parents=True, exist_ok=True)
    with IndexedLog(folder) as log:
        log.append(trajectory(0, 0, reward=1.0, calls=[call(shown=HOSTILE)]))
        log.append(trajectory(0, 1, reward=-1.0, calls=[call(shown=LONG, run=SEARCH)]))
        log.append(trajectory(1, 0, reward=0.25, calls=[call("python", run=PROGRAM)]))
        log.append(trajectory(1, 1, calls=[call("python", CallOutcome.TIMED_OUT)]))
    with UpdateLog(folder, keep=0) as updates:
        advantages = [np.array([[-0.5, 1.0, each]] * 2, np.float32) for each in (0.75, -0.75)]
        updates.append(1, ["traj-0-0", "traj-0-1"], advantages)
        updates.append(2, ["traj-1-0"], None)
    return job_id


@pytest.fixture(scope="module")
def endpoint_job(gateway: GatewayClient, job: str) -> str:
    """A job with two conversations of a chat endpoint."""
    body = {"model": "base", "prompts": [{"question": "1+1=", "gold": 2}]}
    answer = gateway.http.post("/v1/rollouts", json=body)
    job_id = str(answer.json()["id"])
    folder = gateway.home / "jobs" / job_id
    folder.mkdir(parents=True, exist_ok=True)
    with IndexedLog(folder) as log:
        log.append(endpoint_trajectory())
        log.append(endpoint_trajectory(sample=1, counted=False))
    return job_id


def open_view(page: Page, gateway: GatewayClient, path: str) -> None:
    page.goto(str(gateway.http.base_url.join(path)))


def test_trajectories_are_filtered_and_opened(page: Page, gateway: GatewayClient, job: str) -> None:
    open_view(page, gateway, f"/ui/jobs/{job}")
    page.get_by_role("link", name="Trajectories", exact=True).click()

    expect(page.get_by_role("row")).to_have_count(5)
    page.get_by_label("Min reward").fill("0.5")
    page.get_by_label("Min reward").press("Enter")
    expect(page.get_by_role("row")).to_have_count(2)
    expect(page).to_have_url(re.compile("min_reward=0.5"))
    page.get_by_label("Min reward").fill("")
    page.get_by_label("Min reward").press("Enter")
    page.get_by_label("Text", exact=True).fill("ANSWER 1.0")
    page.get_by_label("Text", exact=True).press("Enter")
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("link", name="Prompt 1, sample 0").click()
    expect(page.get_by_text("question 1")).to_be_visible()


def test_the_rewards_of_a_step_link_to_its_trajectories(
    page: Page, gateway: GatewayClient, job: str
) -> None:
    open_view(page, gateway, f"/ui/jobs/{job}/trajectories")

    whole = page.get_by_role("img", name="3 rewards, 1 missing: -1 to 1, mean 0.08333")
    expect(whole).to_be_visible()
    page.get_by_role("link", name="step 1: 2 rewards, mean 0", exact=True).press("Enter")
    expect(page).to_have_url(re.compile(r"trajectories\?step=1$"))
    expect(page.get_by_role("row")).to_have_count(3)
    expect(page.get_by_label("Training step")).to_have_value("1")
    page.get_by_label("Min tokens").fill("3")
    page.get_by_label("Min tokens").press("Enter")
    expect(page.get_by_text("No matching trajectories.")).to_be_visible()
    page.get_by_text("Equivalent curl and CLI commands").first.click()
    expect(page.get_by_text(f"temper traj {job} --min-length 3 --step 1")).to_be_visible()


def test_a_conversation_shows_calls_and_the_group(
    page: Page, gateway: GatewayClient, job: str
) -> None:
    open_view(page, gateway, f"/ui/jobs/{job}/trajectories/traj-0-0")

    expect(page.get_by_text("search: answered")).to_be_visible()
    expect(page.get_by_text("<script>document.title")).to_be_visible()
    assert page.locator("main img").count() == 0
    assert "broken" not in page.title()
    group = page.get_by_role("region", name="The group").get_by_role("row")
    expect(group.filter(has_text="this one")).to_contain_text("+1")
    expect(page.locator("canvas")).to_be_visible()
    page.get_by_role("link", name="sample 1 side by side").click()
    expect(page).to_have_url(re.compile("traj-0-0.beside=traj-0-1$"))
    expect(page.get_by_role("region", name="Prompt 0, sample 0")).to_contain_text(
        "reward 1, answered"
    )
    expect(page.get_by_role("region", name="Prompt 0, sample 1")).to_contain_text(
        "reward -1, answered"
    )
    page.get_by_role("link", name="close").click()
    expect(page.get_by_role("region", name="Prompt 0, sample 1")).to_have_count(0)
    page.get_by_role("link", name="sample 1", exact=True).click()
    expect(page).to_have_url(re.compile("traj-0-1$"))


def test_a_group_shows_the_advantages_of_a_training_step(
    page: Page, gateway: GatewayClient, job: str
) -> None:
    open_view(page, gateway, f"/ui/jobs/{job}/trajectories/traj-0-0?beside=traj-0-1")

    group = page.get_by_role("region", name="The group").get_by_role("row")
    expect(group.filter(has_text="this one")).to_have_text(re.compile(r"^this one 1\+1\+0\.751"))
    expect(group.filter(has_text="sample 1")).to_have_text(re.compile("^sample 1 -1-1-0.751"))
    bars = [each.bounding_box() for each in group.locator(".bar-of-0 span").all()]
    assert [bar["width"] > 0 for bar in bars if bar] == [True, True]
    for sample, told in ((0, "reward 1, answered, advantage +0.75"), (1, "advantage -0.75")):
        expect(page.get_by_role("region", name=f"Prompt 0, sample {sample}")).to_contain_text(told)
    page.get_by_text("Equivalent curl and CLI commands").first.click()
    expect(page.get_by_text(f"temper traj {job} --prompt 0 --step 1 -n 100")).to_be_visible()

    open_view(page, gateway, f"/ui/jobs/{job}/trajectories/traj-1-0")
    expect(group.filter(has_text="this one")).to_have_text(re.compile(r"^this one 0.25\+02"))


def test_a_group_is_that_of_the_step_of_a_sample(
    page: Page, gateway: GatewayClient, job: str
) -> None:
    big = call(arguments={"n": 9007199254740993})
    job_id = rollout_with(gateway, [big])
    folder = gateway.home / "jobs" / job_id
    with IndexedLog(folder) as log, UpdateLog(folder, keep=0) as updates:
        for draw in range(10):
            names = [f"traj-0-{draw}-{sample}" for sample in range(16)]
            for sample, name in enumerate(names):
                drawn = trajectory(0, sample, reward=float(sample % 4 == 0), calls=[big])
                log.append(drawn.model_copy(update={"id": name}))
            updates.append(draw + 1, names, None)
    open_view(page, gateway, f"/ui/jobs/{job_id}/trajectories/traj-0-0-12")

    expect(page.get_by_role("heading", name="16 samples of this prompt in step 1")).to_be_visible()
    own = page.get_by_role("region", name="The group").get_by_role("row", name="this one")
    expect(own).to_have_text(re.compile(r"^this one 1\+0\.751"))
    expect(page.get_by_text('"n": 9007199254740993')).to_be_visible()
    open_view(page, gateway, f"/ui/jobs/{job_id}/trajectories?text=answer")
    expect(page.get_by_role("region", name="The first 100 trajectories")).to_be_visible()
    expect(page.get_by_text("The rewards are counted without the text filter.")).to_be_visible()
    page.get_by_role("button", name="Show more").click()
    expect(page.get_by_role("region", name="161 trajectories", exact=True)).to_be_visible()


def test_a_trajectory_is_downloaded_as_the_api_returns_it(
    page: Page, gateway: GatewayClient, job: str, tmp_path: Path
) -> None:
    open_view(page, gateway, f"/ui/jobs/{job}/trajectories/traj-0-0")

    with page.expect_download() as started:
        page.get_by_role("link", name="Download as JSON").click()
    assert started.value.suggested_filename == f"{job}-traj-0-0.json"
    started.value.save_as(tmp_path / "saved.json")
    answer = gateway.http.get(f"/v1/rollouts/{job}/trajectories/traj-0-0")
    assert (tmp_path / "saved.json").read_bytes() == answer.content


def test_a_trajectory_is_copied_as_json(page: Page, gateway: GatewayClient, job: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_view(page, gateway, f"/ui/jobs/{job}/trajectories/traj-0-0")
    page.get_by_role("button", name="Copy as JSON").click()

    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert copied == gateway.http.get(f"/v1/rollouts/{job}/trajectories/traj-0-0").json()


REFUSAL = "Object.defineProperty(navigator, 'clipboard', { value: %s })"


@pytest.mark.parametrize(
    ("clipboard", "reason"),
    [
        ("undefined", "the clipboard needs HTTPS or a loopback address"),
        ("{ writeText: async () => { throw new Error('denied'); } }", "denied"),
    ],
    ids=["without a clipboard", "denied"],
)
def test_a_failed_copy_is_reported(
    page: Page, gateway: GatewayClient, job: str, clipboard: str, reason: str
) -> None:
    page.add_init_script(REFUSAL % clipboard)
    open_view(page, gateway, f"/ui/jobs/{job}/trajectories/traj-0-0")
    page.get_by_role("button", name="Copy as JSON").click()

    told = page.get_by_role("alert").filter(has_text="Copy failed")
    expect(told).to_have_text(f"Copy failed: {reason}")
    expect(page.get_by_role("button", name="Copy as JSON")).to_be_visible()


def test_a_long_reply_is_shortened_until_expanded(
    page: Page, gateway: GatewayClient, job: str
) -> None:
    open_view(page, gateway, f"/ui/jobs/{job}/trajectories/traj-0-1")

    reply = page.locator(".turn.tool pre")
    expect(reply).to_have_text("x" * 20_000)
    page.get_by_role("button", name="Show all 60,000 characters").click()
    expect(reply).to_have_text(LONG)


def test_estimated_token_counts_are_labeled(
    page: Page, gateway: GatewayClient, endpoint_job: str
) -> None:
    open_view(page, gateway, f"/ui/jobs/{endpoint_job}/trajectories")
    expect(page.get_by_role("cell", name="about 102", exact=True)).to_have_count(2)

    page.get_by_role("link", name="Prompt 0, sample 0").click()
    counted = "12 sampled, as counted by the endpoint; about 90 in tool results (estimated)"
    expect(page.get_by_text(counted, exact=True)).to_be_visible()
    expect(
        page.get_by_text("No token ids were recorded: chat endpoints do not return them.")
    ).to_be_visible()
    expect(page.get_by_role("listbox", name="Tokens")).to_have_count(0)
    expect(page.get_by_text("--tokens")).to_have_count(0)

    open_view(page, gateway, f"/ui/jobs/{endpoint_job}/trajectories/traj-0-1")
    estimated = "about 12 sampled (estimated); about 90 in tool results (estimated)"
    expect(page.get_by_text(estimated, exact=True)).to_be_visible()


def test_a_call_shows_its_sandbox_run(page: Page, gateway: GatewayClient, job: str) -> None:
    open_view(page, gateway, f"/ui/jobs/{job}/trajectories/traj-1-0")
    expect(page.get_by_text("if _ is not None: print(_)").first).to_be_hidden()
    page.get_by_text("Sandbox run").press("Enter")

    expect(page.get_by_role("heading", name="Executed code")).to_be_visible()
    run = page.locator(".tool-run")
    expect(run.get_by_role("definition")).to_have_text(
        ["Failed", "python", "Finished", "3", "0.25 s", "12.5 MiB"]
    )
    expect(run.get_by_role("heading", name="stderr (truncated)")).to_be_visible()
    expect(run.get_by_text("went wrong")).to_be_visible()
    expect(run.get_by_text("<script>")).to_be_visible()
    run.get_by_text("Equivalent curl").click()
    expect(run.get_by_text("/run_code --json")).to_be_visible()
    assert "broken" not in page.title()


def test_a_call_shows_its_search(page: Page, gateway: GatewayClient, job: str) -> None:
    open_view(page, gateway, f"/ui/jobs/{job}/trajectories/traj-0-1")
    page.get_by_text("Search", exact=True).press("Enter")

    run = page.locator(".tool-run")
    expect(run.get_by_role("heading", name="it's long")).to_be_visible()
    expect(run.get_by_role("listitem")).to_contain_text(["<script>"])
    expect(run.get_by_role("definition")).to_have_text(["wiki", "3", "wiki-7", "0.875"])
    expect(run.get_by_text("A river.")).to_be_visible()
    run.get_by_text("Equivalent curl").click()
    expect(run.get_by_text("/retrieve --json")).to_contain_text("it's long")
    assert page.locator("main img, main script").count() == 0


@pytest.fixture(scope="module")
def failed_calls(gateway: GatewayClient, job: str) -> str:
    """A job with a trajectory of calls whose requests failed."""
    calls = [
        call(name, CallOutcome.FAILED, run=run, error=f"{name} is broken", attempts=2)
        for name, run in FAILED_RUNS.items()
    ]
    return rollout_with(gateway, calls)


def rollout_with(gateway: GatewayClient, calls: list[ToolCallRecord]) -> str:
    """A job with one trajectory."""
    body = {"model": "base", "prompts": [{"question": "1+1=", "gold": 2}]}
    job_id = str(gateway.http.post("/v1/rollouts", json=body).json()["id"])
    folder = gateway.home / "jobs" / job_id
    folder.mkdir(parents=True, exist_ok=True)
    with IndexedLog(folder) as log:
        log.append(trajectory(0, 0, calls=calls))
    return job_id


def test_a_call_shows_its_failed_request(
    page: Page, gateway: GatewayClient, failed_calls: str
) -> None:
    open_view(page, gateway, f"/ui/jobs/{failed_calls}/trajectories/traj-0-0")

    for name in FAILED_RUNS:
        expect(page.get_by_text(f"{name} is broken", exact=True)).to_be_visible()
    for title in ("Sandbox run", "Search", "Request"):
        page.get_by_text(title, exact=True).press("Enter")
    program, searched, requested = page.locator(".tool-run").all()
    expect(program.get_by_role("definition")).to_have_text(["python", "503", "2", "0.25 s"])
    expect(program.get_by_text("<script>")).to_be_visible()
    expect(searched.get_by_role("heading", name="Po", exact=True)).to_be_visible()
    expect(searched.get_by_role("definition")).to_have_text(["wiki", "3", "503", "2", "0.25 s"])
    expect(requested.get_by_role("definition")).to_have_text(["no response", "2", "30 s"])
    assert page.locator("main img, main script").count() == 0


def found_now(*documents: dict[str, str]) -> dict[str, object]:
    """A search response."""
    hits = [{"document": each, "score": 0.5} for each in documents]
    return {"index": "wiki", "mode": "bm25", "results": [hits]}


def test_a_passage_opens_in_full_with_its_indexing_job(
    page: Page, gateway: GatewayClient, job: str
) -> None:
    rows = {"file": ("corpus.jsonl", b'{"id": "wiki-7", "contents": "A river."}\n')}
    made = gateway.http.post("/v1/files", files=rows, data={"purpose": "user_data"})
    assert made.status_code == 200, made.text
    built = {"id": "idxjob-1", "index": "wiki", "status": "succeeded", "file": made.json()["id"]}
    jobs = {"data": [{**built, "id": "idxjob-2", "status": "failed"}, built]}
    whole = {"id": "wiki-7", "contents": "", "title": HOSTILE, "text": f"A river. {LONG}"}
    page.route("**/v1/search", lambda route: route.fulfill(json=found_now(whole)))
    page.route("**/v1/indexing/jobs?*", lambda route: route.fulfill(json=jobs))
    open_view(page, gateway, f"/ui/jobs/{job}/trajectories/traj-0-1")
    page.get_by_text("Search", exact=True).press("Enter")

    with page.expect_request("**/v1/search") as asked:
        page.get_by_role("link", name="full passage").click()
    assert asked.value.post_data_json == {"query": "it's long", "topk": 3, "index": "wiki"}
    article = page.get_by_role("article")
    expect(article.get_by_role("heading", name="<script>")).to_be_visible()
    expect(article.get_by_text("A river.")).to_be_visible()
    expect(page.get_by_role("link", name="idxjob-1")).to_be_visible()
    expect(page.get_by_role("link", name="corpus.jsonl")).to_be_visible()
    assert page.locator("main img, main script").count() == 0
    assert violations(page) == []

    page.route("**/v1/search", lambda route: route.fulfill(json=found_now()))
    page.reload()
    expect(page.get_by_text("The search no longer returns this passage")).to_be_visible()


def test_a_passage_of_another_service_has_no_link(
    page: Page, gateway: GatewayClient, foreign_search: str
) -> None:
    open_view(page, gateway, f"/ui/jobs/{foreign_search}/trajectories/traj-0-0")
    page.get_by_text("Search", exact=True).press("Enter")

    expect(page.get_by_text("A river.")).to_be_visible()
    expect(page.get_by_role("link", name="full passage")).to_have_count(0)


@pytest.fixture(scope="module")
def foreign_search(gateway: GatewayClient, job: str) -> str:
    """A job with a search that an external service answered."""
    searched = SEARCH.model_copy(update={"own": False})
    return rollout_with(gateway, [call(run=searched)])
