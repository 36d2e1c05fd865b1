"""Takes the screenshots: ``python -m infra.screenshots [ADDRESS]``.

Run it while the demo stack is up (``KEEP=1 temper demo addition`` keeps it). Screenshots of demos
that have not run are left unchanged, and the missing demos are printed. Needs Debian's chromium.
"""

import base64
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Browser, ViewportSize, expect, sync_playwright

from infra.screenshots.demo_runs import DemoMissing, DemoRuns
from infra.screenshots.views import VIEWS, View
from temper.cli.gateway import client_of, gateway_url
from temper.settings import load_settings

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "screenshots"
TIMEOUT_SECONDS = 60.0
MAX_BYTES = 200_000
MAX_TOTAL_BYTES = 1_500_000
MARGIN_PIXELS = 16
FLAGS = ["--no-sandbox"]
# Chromium's WebP of this quality is lossless, and less than half as large as its PNG.
FORMAT = {"format": "webp", "quality": 100}


def main(address: str | None = None) -> int:
    """Replace the screenshots in docs/screenshots; returns 1 if one could not be taken."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is not installed: apt-get install chromium")
    FOLDER.mkdir(exist_ok=True)
    settings = load_settings()
    url = address or gateway_url(settings)
    missing: list[str] = []
    with client_of(url, settings) as client, sync_playwright() as playwright:
        runs = DemoRuns(client)
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for view in VIEWS:
            try:
                path = view.path(runs)
            except DemoMissing as demo:
                missing.append(f"{view.name}.webp is unchanged: first run {demo}")
                continue
            take(browser, url + path, view, FOLDER / f"{view.name}.webp")
        browser.close()
    print(*missing, sep="\n", end="\n" if missing else "")
    check_sizes()
    return 1 if missing else 0


def take(browser: Browser, address: str, view: View, file: Path) -> None:
    """Take a screenshot of a view once it is fully loaded."""
    page = browser.new_page(
        viewport=ViewportSize(width=view.width, height=view.height),
        color_scheme=view.scheme,
        reduced_motion="reduce",
        timezone_id="UTC",
    )
    page.goto(address)
    expect(page.locator("main").locator(view.shown).first).to_be_visible(
        timeout=TIMEOUT_SECONDS * 1e3
    )
    if view.prepare is not None:
        view.prepare(page)
    if view.top is not None:
        page.locator(view.top).first.evaluate(
            "(top, margin) => scrollBy(0, top.getBoundingClientRect().top - margin)", MARGIN_PIXELS
        )
    picture = page.context.new_cdp_session(page).send("Page.captureScreenshot", FORMAT)
    file.write_bytes(base64.b64decode(picture["data"]))
    page.close()
    print(file)


def check_sizes() -> None:
    """Raise SystemExit if the screenshots are too large for the repository."""
    files = [FOLDER / f"{view.name}.webp" for view in VIEWS]
    sizes = {file.name: file.stat().st_size for file in files if file.exists()}
    large = [name for name, size in sizes.items() if size > MAX_BYTES]
    if large:
        raise SystemExit(f"more than {MAX_BYTES:,} bytes: {', '.join(large)}")
    if sum(sizes.values()) > MAX_TOTAL_BYTES:
        raise SystemExit(f"{sum(sizes.values()):,} bytes in total, of {MAX_TOTAL_BYTES:,}")


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
