"""Records what a gateway answers to the dashboard: ``python -m infra.recording [ADDRESS]``.

It follows the links of the pages from the list of jobs on, in Chromium, and keeps the responses
that they load. Without an address it starts a gateway with the sample runs.
"""

import json
import re
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from playwright.sync_api import Error, Page, Request, Response, sync_playwright

from infra.recording.sample import SampleRuns
from services.api.dashboard.demo import COMPARISON, RECORDING, Responses, key_of
from tests.support.gateway import GatewayClient
from tests.support.processes import running_gateway

MOST_PAGES = 40
MOST_OF_A_KIND = 3
"""Pages whose addresses differ only in their ids; a list has many trajectories."""
MOST_OF = {"/ui/jobs/ID": 10}
MAX_BODY_BYTES = 100_000
MAX_BYTES = 600_000
TIMEOUT_MS = 20_000
SETTLE_MS = 1000
LEFT_OUT = re.compile(r"^/ui/(start|chat|passage|jobs/[\w-]+/(clone|sweep))")
LINKS = """() => [...document.querySelectorAll("header a, main a")].map((link) => link.href)"""


def main(address: str | None = None) -> int:
    """Replace the recording."""
    if address is not None:
        return record_pages(address)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        settings = {"TEMPER_HOME": str(home)}
        with (
            running_gateway(settings, Path(folder) / "gateway.log") as url,
            GatewayClient(url, home) as client,
        ):
            return record_pages(url, SampleRuns(client).fill())


def record_pages(address: str, further: Sequence[str] = ()) -> int:
    """Record a gateway's pages, from the list of jobs and ``further`` paths on."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        responses = record(page, address.rstrip("/"), further)
        browser.close()
    text = json.dumps(dict(sorted(responses.items())), ensure_ascii=False, separators=(",", ":"))
    if len(text) > MAX_BYTES:
        raise SystemExit(f"{len(text)} bytes are more than {MAX_BYTES}")
    RECORDING.write_text(f"{text}\n", encoding="utf-8")
    print(f"{len(responses)} responses, {len(text)} bytes")
    return 0


def record(page: Page, address: str, further: Sequence[str]) -> Responses:
    """Visit the pages, breadth first; return the responses to their requests."""
    found: Responses = {}
    page.on("requestfinished", lambda request: keep(request, found))
    pending, visited = deque(f"{address}{path}" for path in ("/ui", *further)), set[str]()
    kinds: dict[str, int] = {}
    while pending and len(visited) < MOST_PAGES:
        url = pending.popleft()
        place = urlsplit(url)
        kind = re.sub(r"[\w-]*\d[\w-]*", "ID", place.path)
        is_own = url.startswith(f"{address}/ui") and not LEFT_OUT.match(place.path)
        if url in visited or not is_own or kinds.get(kind, 0) >= MOST_OF.get(kind, MOST_OF_A_KIND):
            continue
        visited.add(url)
        kinds[kind] = kinds.get(kind, 0) + 1
        page.goto(url)
        page.locator("main h1").first.wait_for()
        page.wait_for_timeout(SETTLE_MS)  # a page that polls is never idle
        pending.extend(link.partition("#")[0] for link in page.evaluate(LINKS))
    return found


def keep(request: Request, found: Responses) -> None:
    """Keep a response of the API, unless it is a stream, an error or large."""
    place = urlsplit(request.url)
    response = request.response()
    is_comparison = request.method == "POST" and place.path.endswith(COMPARISON)
    if not place.path.startswith("/v1/") or response is None:
        return
    if request.method != "GET" and not is_comparison:
        return
    is_stream = "event-stream" in response.headers.get("content-type", "")
    if not response.ok or is_stream or (body := text_of(response)) is None:
        return
    query = parse_qsl(place.query, keep_blank_values=True)
    sent = request.post_data if is_comparison else request.headers.get("range")
    found[key_of(place.path, query, sent)] = body


def text_of(response: Response) -> str | None:
    """The body as text; None if it is large, or gone with its page."""
    try:
        body = response.body()
        return body.decode() if len(body) <= MAX_BODY_BYTES else None
    except (Error, UnicodeDecodeError):
        return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
