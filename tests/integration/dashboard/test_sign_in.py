"""Sign-in to a gateway with keys: the cookie replaces the key, for our own pages only."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.processes import running_gateway

KEY = "temper-test-key"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("locked")
    hashed = hashlib.sha256(KEY.encode()).hexdigest()
    settings = {"TEMPER_HOME": str(folder / "home"), "TEMPER_API_KEY_HASHES": hashed}
    with running_gateway(settings, folder / "gateway.log") as url:
        yield url


def sign_in(page: Page) -> None:
    page.get_by_label("API key").fill(KEY)
    page.get_by_role("button", name="Sign in").click()


@contextmanager
def signed_in(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=60) as client:
        answer = client.post("/ui/session", headers={"Authorization": f"Bearer {KEY}"})
        assert answer.status_code == 204
        yield client


def test_a_browser_signs_in_and_out(page: Page, locked: str) -> None:
    page.goto(f"{locked}/ui")
    page.get_by_label("API key").fill("temper\u2013key")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text('cannot have the character "\u2013"')
    sign_in(page)

    expect(page.get_by_text("No jobs yet.")).to_be_visible()
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()


def test_an_expired_session_asks_for_the_key_and_returns_to_the_page_as_it_was(
    page: Page, locked: str, expected_errors: list[str]
) -> None:
    expected_errors.append("401 (Unauthorized)")
    page.goto(f"{locked}/ui/start/rollout")
    sign_in(page)
    page.get_by_role("textbox", name="samples_per_prompt", exact=True).fill("7")
    page.context.clear_cookies()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page).to_have_title("Sign in · Temper")
    expect(page.get_by_role("heading")).to_have_text(["Sign in"])

    sign_in(page)
    expect(page).to_have_title("Start a rollout · Temper")
    expect(page.get_by_role("textbox", name="samples_per_prompt", exact=True)).to_have_value("7")
    assert page.url == f"{locked}/ui/start/rollout"


@pytest.mark.drill
def test_a_live_page_asks_for_the_key_and_goes_on(
    page: Page, locked: str, expected_errors: list[str]
) -> None:
    expected_errors.append("401 (Unauthorized)")
    page.goto(f"{locked}/ui?text=nothing")
    sign_in(page)
    expect(page.get_by_text("No matching jobs.")).to_be_visible()
    page.context.clear_cookies()
    expect(page.get_by_label("API key")).to_be_focused()

    sign_in(page)
    expect(page.get_by_text("No matching jobs.")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_text("")


def test_a_view_that_loads_behind_the_sign_in_form_does_not_name_the_page(
    page: Page, locked: str, expected_errors: list[str]
) -> None:
    expected_errors.append("401 (Unauthorized)")
    page.goto(f"{locked}/ui")
    sign_in(page)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/openapi.json", hold)
    with page.expect_request("**/openapi.json"):
        page.get_by_role("link", name="rollout", exact=True).click()
    page.evaluate("window.dispatchEvent(new Event('signedout'))")
    expect(page).to_have_title("Sign in · Temper")
    held[0].continue_()

    expect(page.locator("main h1")).to_have_text(["Start a rollout", "Sign in"])
    expect(page).to_have_title("Sign in · Temper")
    expect(page.get_by_role("heading")).to_have_text(["Sign in"])


def test_the_cookie_stands_for_the_key(locked: str) -> None:
    with signed_in(locked) as client:
        (cookie,) = client.cookies.jar
        assert cookie.has_nonstandard_attr("HttpOnly")
        assert cookie.get_nonstandard_attr("SameSite") == "strict"
        assert KEY not in str(cookie.value)
        assert client.get("/v1/jobs").status_code == 200


@pytest.mark.parametrize("origin", [None, "https://evil.example", "http://127.0.0.1:1"])
def test_other_origins_cannot_change_anything_with_the_cookie(
    locked: str, origin: str | None
) -> None:
    with signed_in(locked) as client:
        headers = {} if origin is None else {"Origin": origin}
        answer = client.post("/v1/jobs/ftjob-0/cancel", headers=headers)
        ours = client.post("/v1/jobs/ftjob-0/cancel", headers={"Origin": locked})

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "foreign_origin")
    assert ours.status_code == 404


def test_a_tampered_cookie_is_rejected(locked: str) -> None:
    with signed_in(locked) as client:
        (cookie,) = client.cookies.jar
        expires, principal, signature = str(cookie.value).split(".")
        later = f"{int(expires) + 1}.{principal}.{signature}"
        forged = f"{expires}.{principal}.{'0' * 64}"
        for value in (later, forged, "x", "..", f"{expires}.{principal}"):
            answer = httpx.get(f"{locked}/v1/jobs", cookies={"temper_session": value}, timeout=60)
            assert answer.status_code == 401


def test_a_wrong_key_gets_no_cookie(locked: str) -> None:
    answer = httpx.post(
        f"{locked}/ui/session", headers={"Authorization": "Bearer wrong"}, timeout=60
    )

    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
