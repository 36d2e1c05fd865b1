"""Makes the screenshots of docs/dashboard.md from the runs of a demonstration.

Run while its stack is up: ``temper demo addition``, ``temper up``, then
``python infra/screenshots.py [ADDRESS]``. Needs Debian's chromium.
"""

import shutil
import sys
from pathlib import Path

import httpx
from playwright.sync_api import Browser, ViewportSize, expect, sync_playwright

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "screenshots"
ADDRESS = "http://127.0.0.1:8080"
SIZE = ViewportSize(width=1200, height=800)
PATIENCE_SECONDS = 60
MAX_BYTES = 200_000


def latest(gateway: httpx.Client, kind: str, count: int = 1) -> list[str]:
    """The ids of the latest jobs of a kind that succeeded; raises SystemExit without enough."""
    query = {"kind": kind, "status": "succeeded", "limit": str(count)}
    answer = gateway.get("/v1/jobs", params=query).raise_for_status().json()
    if len(answer["data"]) < count:
        raise SystemExit(f"{count} jobs of kind {kind} must have succeeded: run a demonstration")
    return [str(job["id"]) for job in answer["data"]]


def views_of(gateway: httpx.Client) -> dict[str, tuple[str, str]]:
    """Paths by the names of their screenshots, with a selector that is there once all is shown."""
    (training,) = latest(gateway, "fine_tuning")
    trained, base = latest(gateway, "evaluation", 2)
    return {
        "job": (f"/ui/jobs/{training}", "canvas"),
        "evaluations": (f"/ui/evaluations?compare={base},{trained}", "h2 + .scroll td"),
    }


def take(browser: Browser, address: str, path: str, shown: str, file: Path) -> None:
    """One screenshot; raises SystemExit if it is too large for the repository."""
    page = browser.new_page(viewport=SIZE, color_scheme="light", reduced_motion="reduce")
    page.goto(address + path)
    expect(page.locator("main").locator(shown).first).to_be_visible(timeout=PATIENCE_SECONDS * 1e3)
    page.screenshot(path=file, animations="disabled")
    page.close()
    if file.stat().st_size > MAX_BYTES:
        raise SystemExit(f"{file} has more than {MAX_BYTES} bytes")
    print(file)


def main(address: str = ADDRESS) -> None:
    """Replace the screenshots in docs/screenshots."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is not installed: apt-get install chromium")
    FOLDER.mkdir(exist_ok=True)
    with httpx.Client(base_url=address, timeout=PATIENCE_SECONDS) as gateway:
        views = views_of(gateway)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, (path, shown) in views.items():
            take(browser, address, path, shown, FOLDER / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
