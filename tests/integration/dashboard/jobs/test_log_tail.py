"""The tail of a job's log on its page: bounded, followed live, and always plain text."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.gateway import GatewayClient

HOSTILE = "<img src=x onerror=\"document.title='broken'\">\u202e</pre>"


@pytest.fixture
def running_job(gateway: GatewayClient) -> Iterator[str]:
    """A job that runs until the test has ended."""
    job_id = gateway.submit("forever")
    gateway.wait_until(job_id, "running")
    yield job_id
    gateway.cancel(job_id)


def log_of(gateway: GatewayClient, job_id: str) -> Path:
    return gateway.home / "jobs" / job_id / "log.txt"


def append(log: Path, text: str) -> None:
    with log.open("a", encoding="utf-8", newline="") as file:
        file.write(text)


def open_job(page: Page, gateway: GatewayClient, job_id: str) -> Locator:
    """The lines of the log on the page of a job."""
    page.goto(str(gateway.http.base_url.join(f"/ui/jobs/{job_id}")))
    return page.get_by_role("log", name="Log, newest last")


def test_the_log_of_a_running_job_is_followed(
    page: Page, gateway: GatewayClient, running_job: str
) -> None:
    log = log_of(gateway, running_job)
    append(log, "".join(f"line {number}\n" for number in range(1, 301)))
    shown = open_job(page, gateway, running_job)
    lines = shown.locator("span")
    expect(lines).to_have_count(200)
    expect(lines.first).to_have_text("line 101")

    append(log, "\x1b[32mline 301\x1b[0m\n 10%\r 20%")
    expect(lines.last).to_have_text("20%")
    append(log, "\r 30%\nthe end")
    expect(lines.last).to_have_text("the end")

    tail = [text.strip() for text in lines.all_inner_texts()[-4:]]
    assert tail == ["line 300", "line 301", "30%", "the end"]
    expect(lines).to_have_count(200)
    assert shown.evaluate("(e) => e.scrollHeight - e.scrollTop - e.clientHeight < 2")


def test_scroll_position_is_kept_after_scrolling_up(
    page: Page, gateway: GatewayClient, running_job: str
) -> None:
    log = log_of(gateway, running_job)
    append(log, "".join(f"line {number}\n" for number in range(1, 101)))
    shown = open_job(page, gateway, running_job)
    expect(shown).to_contain_text("line 100")

    shown.press("Control+Home")
    expect(shown.locator("span").first).to_be_in_viewport()
    append(log, "line 101\n")

    expect(shown).to_contain_text("line 101")
    assert shown.evaluate("(element) => element.scrollTop") == 0


def test_a_truncated_log_is_read_from_the_start(
    page: Page, gateway: GatewayClient, running_job: str
) -> None:
    log = log_of(gateway, running_job)
    append(log, "an old line\nanother old line\n")
    shown = open_job(page, gateway, running_job)
    expect(shown).to_contain_text("another old line")

    log.write_text("new\n")

    expect(shown.locator("span")).to_have_text(["new"])


def test_only_the_tail_of_a_large_log_is_read(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("succeed")
    gateway.wait_until(job_id, "succeeded")
    log = log_of(gateway, job_id)
    append(log, "".join(f"{number:03} {'ü' * 2000}\n" for number in range(100)))
    for number in range(101):  # the log is beyond the first page of files
        (log.parent / f"checked-{number:03}").touch()
    answers: list[dict[str, str]] = []
    page.on(
        "response",
        lambda one: answers.append(one.headers) if one.url.endswith("/log.txt") else None,
    )
    shown = open_job(page, gateway, job_id)

    expect(shown).to_contain_text("099")
    numbers = [text.split()[0] for text in shown.locator("span").all_inner_texts()]
    assert numbers == [f"{number:03}" for number in range(84, 100)]
    size = log.stat().st_size
    assert [each["content-range"] for each in answers] == [
        f"bytes {size - 65536}-{size - 1}/{size}"
    ]
    expect(page.get_by_role("link", name="log.txt", exact=True)).to_have_count(1)


def test_log_output_is_plain_text_and_not_announced(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("succeed")
    gateway.wait_until(job_id, "succeeded")
    append(log_of(gateway, job_id), f"{HOSTILE}\nthe next line\n")
    shown = open_job(page, gateway, job_id)

    expect(shown.locator("span")).to_contain_text([HOSTILE, "the next line"])
    expect(shown).to_have_attribute("aria-live", "off")
    assert page.locator("main img").count() == 0
    assert "broken" not in page.title()


def test_a_job_without_a_log_says_so(page: Page, gateway: GatewayClient) -> None:
    silent = gateway.submit("succeed")
    gateway.wait_until(silent, "succeeded")
    assert log_of(gateway, silent).stat().st_size == 0
    missing = gateway.submit("succeed")
    gateway.wait_until(missing, "succeeded")
    log_of(gateway, missing).unlink()

    for job_id in (silent, missing):
        expect(open_job(page, gateway, job_id)).to_be_hidden()
        expect(page.get_by_text("No log output yet.")).to_be_visible()
