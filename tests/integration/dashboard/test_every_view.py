"""Every view of the dashboard, with keys required and hostile text in every field: it passes
axe-core, shows text as text, and logs no console errors."""

import re
from contextlib import suppress
from typing import Literal

import pytest
from playwright.sync_api import Error, Page, expect

from services.api.dashboard.assets import STATIC
from tests.integration.dashboard.conftest import KEY
from tests.support.dashboard.accessibility import violations
from tests.support.dashboard.showcase import BEGIN, END, LONG, SEARCHED, Showcase

PHONE, WIDE = (390, 800), (2560, 1440)
ZOOMED = (640, 400)
"""A window of 1,280 by 800 pixels at a zoom of 200 %."""
OPEN_ALL = "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
SIDEWAYS = """() => {
    if (document.scrollingElement.scrollWidth <= innerWidth) return [];
    const scrolls = (element) => element && (getComputedStyle(element).overflowX !== "visible"
        || scrolls(element.parentElement));
    const wide = [...document.querySelectorAll("body *")].filter((each) =>
        each.getBoundingClientRect().right > innerWidth && !scrolls(each.parentElement));
    return [`the page scrolls sideways: ${wide.at(-1)?.outerHTML.slice(0, 120)}`];
}"""
"""The innermost element that makes the page wider than its window."""

REORDERED = """([begin, end]) => {
    const isolates = (node) => {
        const { display, unicodeBidi } = getComputedStyle(node);
        return !display.startsWith("inline") || unicodeBidi !== "normal";
    };
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) {
        const text = walker.currentNode.data;
        if (!text.includes("\\u202e")) continue;
        let box = walker.currentNode.parentElement;
        while (!isolates(box)) box = box.parentElement;
        const whole = box.textContent;
        const before = whole.slice(0, whole.indexOf(begin));
        const around = before + whole.slice(whole.lastIndexOf(end) + 1);
        if (whole.includes(end) && around.trim()) found.push([box.outerHTML.slice(0, 60), around]);
    }
    return found;
}"""
"""Elements where our text shares a bidi paragraph with hostile text, which could reorder it."""

MISSING = """() => {
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) {
        const text = walker.currentNode.data.trim();
        if (/^(null|undefined|NaN|\\[object .*)$/.test(text)) found.push(text);
    }
    return found;
}"""
"""Text nodes of missing values."""


IDS_AS_NAMES = """(ids) => {
    const shown = "a, h1, h2, h3, h4, caption, summary, strong, select option, .u-label";
    const texts = [...document.querySelectorAll(shown)].map((each) => each.textContent);
    return [document.title, ...texts].filter((text) => ids.some((id) => text.includes(id)));
}"""
"""Titles, headings, links and legends with an id of something that has a name."""


@pytest.fixture
def views(page: Page, furnished: tuple[str, Showcase]) -> dict[str, str]:
    """URLs of all views, for a signed-in page."""
    url, showcase = furnished
    page.route("**/v1/search", lambda route: route.fulfill(json=SEARCHED))
    page.goto(f"{url}/ui")
    page.get_by_label("API key").fill(KEY)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    return {f"{url}{path}": selector for path, selector in showcase.views.items()}


def open_expanded(page: Page, address: str, selector: str) -> None:
    """Open a view and expand all of it."""
    page.goto(address)
    expect(page.locator("main").locator(selector).first).to_be_visible()
    page.evaluate(OPEN_ALL)


@pytest.mark.parametrize(
    ("scheme", "size"),
    [
        ("dark", PHONE),
        pytest.param("light", WIDE, marks=pytest.mark.variant),
        pytest.param("dark", ZOOMED, marks=pytest.mark.variant),
        pytest.param("light", PHONE, marks=pytest.mark.variant),
    ],
)
def test_every_view_is_accessible(
    page: Page, views: dict[str, str], scheme: Literal["dark", "light"], size: tuple[int, int]
) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    if size == ZOOMED:
        page.emulate_media(color_scheme=scheme, contrast="more")
    page.set_viewport_size({"width": size[0], "height": size[1]})
    broken = {}
    for address, selector in views.items():
        open_expanded(page, address, selector)
        if found := [*violations(page), *page.evaluate(SIDEWAYS)]:
            broken[address.partition("/ui")[2]] = found

    assert broken == {}


def test_no_view_interprets_markup_or_shows_a_missing_value_or_an_id_for_a_name(
    page: Page, furnished: tuple[str, Showcase], views: dict[str, str]
) -> None:
    ids = furnished[1].ids
    wrong = {}
    for address, selector in views.items():
        open_expanded(page, address, selector)
        assert page.locator("main img, main script").count() == 0, address
        assert page.title() != "broken"
        assert page.evaluate("document.cookie") == ""
        with suppress(Error):  # names are loaded after what has them
            page.wait_for_function(f"(ids) => !({IDS_AS_NAMES})(ids).length", arg=ids)
        found = [*page.evaluate(REORDERED, [BEGIN, END]), *page.evaluate(MISSING)]
        if found := [*found, *page.evaluate(IDS_AS_NAMES, ids)]:
            wrong[address.partition("/ui")[2]] = found

    assert wrong == {}


def test_a_reply_of_5_mb_is_shown_on_demand(page: Page, views: dict[str, str]) -> None:
    address = next(each for each in views if "beside" in each)
    open_expanded(page, address, views[address])
    page.get_by_role("button", name=f"Show all {len(LONG):,} characters").first.click()

    shown = page.locator(".turn.tool pre").nth(1)
    assert shown.evaluate("(element) => element.textContent.length") == len(LONG)


def test_every_view_is_covered(furnished: tuple[str, Showcase]) -> None:
    patterns = re.findall(r"^  \[/(\^.*\$)/, ", (STATIC / "main.js").read_text(), re.MULTILINE)
    paths = [path.partition("?")[0] for path in furnished[1].views]

    assert len(patterns) > 10
    missing = [each for each in patterns if not any(re.search(each, path) for path in paths)]
    assert missing == []
