"""Takes six views of the sample runs, side by side: ``python -m infra.recording.six_views``."""

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import ViewportSize, sync_playwright

from infra.recording.pictures import Frames
from infra.recording.sample import SampleRuns
from tests.support.gateway import GatewayClient
from tests.support.processes import running_gateway

SIZE = ViewportSize(width=1280, height=800)
TIMEOUT_MS = 120_000


def main() -> None:
    """Replace the picture."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is not installed: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        frames, home = Frames(Path(folder) / "frames"), Path(folder) / "home"
        with (
            running_gateway({"TEMPER_HOME": str(home)}, Path(folder) / "gateway.log") as url,
            GatewayClient(url, home) as client,
        ):
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport=SIZE, reduced_motion="reduce", timezone_id="UTC")
            page.set_default_timeout(TIMEOUT_MS)
            for words, (path, shown) in views_of(client, SampleRuns(client).fill()[:2]).items():
                page.goto(f"{url}{path}")
                page.locator("main").locator(shown).first.wait_for()
                frames.take(page, words)
            browser.close()
        frames.join("sheet", "after.webp")


def views_of(client: GatewayClient, paths: list[str]) -> dict[str, tuple[str, str]]:
    """The path of each view and what it shows once it is loaded, by its words; ``paths`` lead to
    the trajectories of a training and to two evaluations."""
    trajectories, evaluations = paths
    job = trajectories.removesuffix("/trajectories")
    listed = client.http.get(f"/v1/fine_tuning/jobs/{job.rpartition('/')[2]}/trajectories").json()
    return {
        "Jobs": ("/ui", "td"),
        "An online training": (job, "canvas"),
        "Its trajectories": (trajectories, "td"),
        "A trajectory": (f"{trajectories}/{listed['data'][0]['id']}", "dd"),
        "Two evaluations, paired": (evaluations, "[aria-label^=Paired] td"),
        "Lineage": ("/ui/lineage?model=ft:base:sums::0123abcd", "td"),
    }


if __name__ == "__main__":
    main()
