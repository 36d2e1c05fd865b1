"""The dashboard views with screenshots in docs/dashboard.md."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlencode

from playwright.sync_api import Page, expect

from examples.demo_1_addition.data import question
from infra.screenshots.demo_runs import DemoRuns

PHONE_WIDTH = 390
TABLE_WIDTH = 1440
"""For wide tables."""
ANSWER_SECONDS = 600.0
ANSWER_ATTEMPTS = 8
"""Engines on CPU may take longer to start than a request's timeout."""


@dataclass(frozen=True)
class View:
    """A screenshot: a path, and a selector that is visible once the view is loaded."""

    name: str
    path: Callable[[DemoRuns], str]
    shown: str
    top: str | None = None
    """Selector of the element at the top edge; None: the top of the page."""
    scheme: Literal["light", "dark"] = "light"
    width: int = 1280
    height: int = 800
    prepare: Callable[[Page], None] | None = None


def _choose_token(page: Page) -> None:
    """Select the first sampled token with less than 95% probability."""
    page.locator(".tokens .sampled:not(.level-0)").first.click()


def _ask(page: Page) -> None:
    """Ask both models of a chat, retrying while an engine is starting."""
    page.get_by_label("Message").fill(question(47, 38))
    page.get_by_role("button", name="Send").click()
    again = page.get_by_role("button", name="Try again")
    for _ in range(ANSWER_ATTEMPTS):
        expect(page.get_by_role("button", name="Stop")).to_be_hidden(timeout=ANSWER_SECONDS * 1e3)
        for _ in range(again.count()):
            again.first.click()
    expect(page.locator(".assistant pre:not(:empty)")).to_have_count(2)
    expect(page.locator(".assistant .error")).to_have_count(0)


def _chat(runs: DemoRuns) -> str:
    tuning = runs.addition
    models = {"model": tuning.model, "other": tuning.fine_tuned_model}
    return f"/ui/chat?{urlencode({**models, 'temperature': 0, 'max_tokens': 64})}"


def _file_tokens(runs: DemoRuns) -> str:
    tuning = runs.addition
    query = urlencode({"show": "training", "model": tuning.model})
    return f"/ui/data/{tuning.training_file}?{query}"


def _trajectories(runs: DemoRuns) -> str:
    return f"/ui/jobs/{runs.reinforcement.id}/trajectories"


def _comparison(runs: DemoRuns) -> str:
    base, tuned = runs.evaluations
    return f"/ui/evaluations?{urlencode({'compare': f'{base.id},{tuned.id}'})}"


def _lineage(runs: DemoRuns) -> str:
    return f"/ui/lineage?{urlencode({'model': runs.reinforcement.fine_tuned_model})}"


VIEWS = (
    View("jobs", lambda _: "/ui", "tbody td", width=TABLE_WIDTH),
    View("jobs-phone", lambda _: "/ui", "tbody td", width=PHONE_WIDTH),
    View("job", lambda runs: f"/ui/jobs/{runs.addition.id}", "canvas"),
    View("attempts", lambda runs: f"/ui/jobs/{runs.resumed.id}", "canvas", "h2 >> text=Events"),
    View(
        "steps",
        lambda runs: f"/ui/jobs/{runs.reinforcement.id}",
        ".stacks li",
        "h2 >> text=Time per step",
        scheme="dark",
    ),
    View("training-tokens", _file_tokens, ".tokens .learned", "h2 >> text=Rows"),
    View("lineage", _lineage, ".lineage li", width=TABLE_WIDTH),
    View("trajectories", _trajectories, ".histogram", width=TABLE_WIDTH),
    View(
        "trajectory",
        lambda runs: f"{_trajectories(runs)}/{runs.trajectory}",
        ".tokens .sampled",
    ),
    View(
        "trajectory-tokens",
        lambda runs: f"{_trajectories(runs)}/{runs.trajectory}?color=log_prob",
        ".tokens .sampled",
        "h2 >> text=Tokens",
        scheme="dark",
        prepare=_choose_token,
    ),
    View("campaign", lambda runs: f"/ui/campaigns/{runs.campaign.id}", "tbody td"),
    View("evaluations", _comparison, "[aria-label^=Paired] td", width=TABLE_WIDTH),
    View("chat", _chat, "form.ask", prepare=_ask),
)
