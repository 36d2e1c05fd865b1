"""Records a newcomer's path as an animated picture: ``python -m infra.recording.newcomer``.

It walks the path that a test walks, in Chromium, on a gateway of its own.
"""

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import ViewportSize, expect, sync_playwright

from infra.recording.pictures import Frames
from tests.support.dashboard.newcomer import Newcomer, new_gateway

SIZE = ViewportSize(width=1024, height=720)
TIMEOUT_MS = 120_000


def main() -> None:
    """Replace the picture."""
    with tempfile.TemporaryDirectory() as folder:
        frames = Frames(Path(folder) / "frames")
        record(Path(folder), frames)
        frames.join("animation", "first-hour.webp")


def record(folder: Path, frames: Frames) -> None:
    """Walk the path, and take a picture of each place."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is not installed: apt-get install chromium")
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright, new_gateway(folder) as gateway:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, reduced_motion="reduce", timezone_id="UTC")
        page.set_default_timeout(TIMEOUT_MS)
        Newcomer(page, gateway, lambda words: frames.take(page, words)).walk()
        browser.close()


if __name__ == "__main__":
    main()
