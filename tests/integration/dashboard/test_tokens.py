"""The tokens of a trajectory in a browser: their text, colors and details."""

import re

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from services.contracts.rollouts.agent_sessions import AgentRecord, AgentSequence, SequenceRole
from services.rollouts.log.log import IndexedLog
from services.rollouts.log.updates import UpdateLog
from tests.support.gateway import GatewayClient
from tests.support.models.worded_tokenizer import write_worded_tokenizer
from tests.support.trajectories import trajectory

HOSTILE = "<script>document.title='broken'</script>\u202e"
TEXTS = {1: "1+", 2: "1", 3: "=", 7: " two", 8: "\n", 9: HOSTILE}


@pytest.fixture(scope="module")
def path(gateway: GatewayClient) -> str:
    """The view of a trajectory with three prompt tokens, three sampled ones and one inserted."""
    folder = gateway.home / "models" / "worded"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "stub"}')
    (folder / "model.safetensors").touch()
    write_worded_tokenizer(folder, TEXTS)
    gateway.http.post("/v1/models", json={"id": "worded", "folder": "worded"})
    body = {"model": "worded", "prompts": [{"question": "1+1=", "gold": 2}]}
    job_id = gateway.http.post("/v1/rollouts", json=body).json()["id"]
    made = trajectory(tokens=4).model_copy(
        update={
            "response_token_ids": [7, 8, 9, 7],
            "response_mask": [1, 0, 1, 1],
            "log_probs": [-0.01, 0.0, -5.0, -1.0],
            "policy_versions": [4, -1, 4, 5],
        }
    )
    job_dir = gateway.home / "jobs" / job_id
    job_dir.mkdir(parents=True, exist_ok=True)
    with IndexedLog(job_dir) as log:
        log.append(made)
    values = [[-0.5, 0.01, 0.75], [-5.0, 2.0, 0.75], [-0.9, 0.5, -0.3]]
    with UpdateLog(job_dir, keep=0) as updates:
        updates.append(3, [made.id], [np.array(values, np.float32)])
    return f"/ui/jobs/{job_id}/trajectories/{made.id}"


def open_view(page: Page, gateway: GatewayClient, path: str) -> Locator:
    """The tokens of the view, once loaded."""
    page.goto(str(gateway.http.base_url.join(path)))
    tokens = page.get_by_role("option").filter(visible=True).and_(page.locator(".tokens *"))
    expect(tokens).to_have_count(7)
    return tokens


def test_tokens_are_shown_as_text(page: Page, gateway: GatewayClient, path: str) -> None:
    tokens = open_view(page, gateway, path)

    shown = tokens.evaluate_all("all => all.map((each) => each.textContent)")
    assert shown == ["1+", "1", "=", " two", "⏎\n", HOSTILE.replace("\u202e", "\\u202e"), " two"]
    origins = tokens.evaluate_all("all => all.map((each) => each.className.trim())")
    assert origins == ["prompt"] * 3 + ["sampled", "inserted", "sampled", "sampled"]
    assert "broken" not in page.title()


def test_tokens_are_colored_by_the_overlay_in_the_url(
    page: Page, gateway: GatewayClient, path: str
) -> None:
    tokens = open_view(page, gateway, f"{path}?color=log_prob")

    expect(tokens.nth(3)).to_have_class("sampled level-0")
    expect(tokens.nth(4)).to_have_class(re.compile("^inserted *$"))
    expect(tokens.nth(5)).to_have_class("sampled level-5")
    expect(tokens.nth(6)).to_have_class("sampled level-3")
    expect(page.locator(".tokens-legend")).to_contain_text("less than 5%")
    widths = tokens.evaluate_all(
        "all => all.map((each) => getComputedStyle(each).borderBottomWidth)"
    )
    assert [widths[each] for each in (3, 5, 6)] == ["0px", "5px", "3px"]  # not by color alone
    colors = tokens.evaluate_all("all => all.map((each) => getComputedStyle(each).backgroundColor)")
    assert len({colors[each] for each in (3, 5, 6)}) == 3


@pytest.mark.parametrize(
    ("overlay", "levels"),
    [
        ("entropy", ["level-0", "level-4", "level-2"]),
        ("mismatch", ["level-4 below", "level-0", "level-3"]),
        ("advantage", ["level-3", "level-3", "level-2 below"]),
    ],
)
def test_tokens_are_colored_by_update_statistics(
    page: Page, gateway: GatewayClient, path: str, overlay: str, levels: list[str]
) -> None:
    tokens = open_view(page, gateway, f"{path}?color={overlay}")

    for token, level in zip((3, 5, 6), levels, strict=True):
        expect(tokens.nth(token)).to_have_class(f"sampled {level}")
    page.get_by_role("listbox", name="Tokens").press("End")
    details = page.get_by_role("status")
    expect(details).to_contain_text("1.105 times the sampler's")
    expect(details).to_contain_text("-0.3")


def test_policy_versions_are_marked_at_their_first_token(
    page: Page, gateway: GatewayClient, path: str
) -> None:
    tokens = open_view(page, gateway, f"{path}?beside=traj-0-0")
    page.get_by_label("Color by").select_option("policy version")

    expect(page).to_have_url(re.compile("beside=traj-0-0&color=policy_version$"))
    marks = tokens.evaluate_all("all => all.map((each) => each.dataset.mark ?? null)")
    assert marks == [None, None, None, "v4", None, None, "v5"]


def test_tokens_are_selected_by_keyboard(page: Page, gateway: GatewayClient, path: str) -> None:
    tokens = open_view(page, gateway, path)
    details = page.get_by_role("status")
    expect(details).to_contain_text("Select a token")

    page.get_by_role("listbox", name="Tokens").focus()
    page.keyboard.press("End")
    expect(details).to_contain_text("-1 (36.8%)")
    page.keyboard.press("ArrowLeft")

    expect(tokens.nth(5)).to_have_attribute("aria-selected", "true")
    expect(details).to_contain_text("<script>")
    expect(details).to_contain_text("5 (id 9)")
    expect(details).to_contain_text("sampled by the policy")
    expect(details).to_contain_text("-5 (0.67%)")
    tokens.nth(4).hover()
    expect(details).to_contain_text("inserted")
    assert page.locator("main script").count() == 0


def test_tokens_without_a_tokenizer_are_shown_by_their_ids(
    page: Page, gateway: GatewayClient, path: str
) -> None:
    tokenizer = gateway.home / "models" / "worded" / "tokenizer.json"
    kept = tokenizer.read_bytes()
    tokenizer.unlink()
    try:
        tokens = open_view(page, gateway, path)
        expect(tokens.nth(5)).to_have_text("9 ")
        expect(page.get_by_text("worded has no tokenizer.json")).to_be_visible()
    finally:
        tokenizer.write_bytes(kept)


def test_the_turns_of_an_agent_lead_to_their_tokens(
    page: Page, gateway: GatewayClient, path: str
) -> None:
    _, _, _, job_id, *_ = path.split("/")
    other = AgentSequence(
        role=SequenceRole.DISCARDED,
        turns=1,
        prompt_token_ids=[1, 2, 3],
        response_token_ids=[7, 8, 2, 9],
        response_mask=[0, 0, 1, 1],
        log_probs=[-1.0, 0.0, -1.0, -1.0],
        policy_versions=[0, -1, 0, 0],
    )
    made = trajectory(5, tokens=3).model_copy(
        update={
            "response_token_ids": [7, 8, 7],
            "response_mask": [1, 0, 1],
            "log_probs": [-1.0, 0.0, -1.0],
            "policy_versions": [0, -1, 0],
            "agent": AgentRecord(model_calls=3, other_sequences=[other]),
        }
    )
    with IndexedLog(gateway.home / "jobs" / job_id) as log:
        log.append(made)

    requests: list[Route] = []

    def hold(route: Route) -> None:
        requests.append(route)

    page.route(re.compile("/tokens"), hold)
    page.route("**/turns", lambda route: route.continue_(url=f"{route.request.url}?limit=2"))
    with page.expect_request(re.compile("/tokens")):
        page.goto(str(gateway.http.base_url.join(f"/ui/jobs/{job_id}/trajectories/{made.id}")))
    tree = page.locator(".turn-tree")
    expect(tree.get_by_role("listitem")).to_have_count(2)
    page.get_by_role("button", name="Show more (3 turns in total)").dblclick()
    expect(tree.get_by_role("listitem")).to_have_count(3)
    expect(tree.get_by_role("listitem").first).to_contain_text("3 read, 1 written")
    forked = tree.get_by_role("listitem").filter(has_text="discarded").last
    expect(forked).to_contain_text("1 read, 2 written")
    tree.get_by_role("link", name="Turn 2").click()
    (held,) = requests  # neither repeated for the turn, nor by a new view
    held.continue_()
    page.unroute_all()
    expect(page.locator(".tokens [aria-selected=true]")).to_have_attribute("data-position", "5")
    expect(page.locator(".tokens [role=option]")).to_have_count(6)
    expect(tree.get_by_role("listitem")).to_have_count(3)
    forked.get_by_role("link", name="Turn 3").click()

    expect(page.get_by_role("heading", name="Tokens of sequence 1")).to_be_visible()
    expect(page.locator(".tokens [aria-selected=true]")).to_have_text("1")
    expect(page.locator(".tokens [role=option]")).to_have_count(7)
