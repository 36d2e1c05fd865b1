"""Speed of the dashboard with a job of 100,000 steps, a training run with a million trajectories
and 10,000 jobs, in Chromium on loopback; goals: first paint under 0.5 s, interactions under 100 ms.

Prints for each view when its first response and all of it was painted, in milliseconds from
navigation start; for each interaction the time until the page shows its result; and the memory of
two gateways of the same home: one after requests to the routes by REST alone, and one after the
browser. Medians over the rounds. Then 20 jobs run, each with a step every ten seconds as in a slow
training, an hour of which is played in ``--live-seconds``: the browser's heap and nodes after a
collection, in the page of one of them and in the comparison of all, are to stay flat from the
middle on. Run from the repository root:

    python -m benchmarks.dashboard [--steps 100000] [--trajectories 1000000] [--jobs 10000]
    python -m benchmarks.dashboard --only-live --live-seconds 120
"""

import argparse
import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright
from sqlalchemy import insert, select, update

from services.core.db.engine import Database
from services.core.db.tables import JobRow
from services.jobs.events import Draft, append_events
from services.rollouts.log import updates
from services.rollouts.log.index import ENTRY, INDEX, TRAJECTORIES, key_of
from tests.support.gateway import GatewayClient
from tests.support.processes import Process, running_service
from tests.support.trajectories import trajectory

PATIENCE_MS = 60_000
BLOCK = 10_000
SAMPLES = 8
OF_STEP = 1024  # trajectories
BEST = 9.5  # the largest reward
METRICS = ("loss", "reward", "kl", "entropy", "grad_norm", "length", "step_seconds")
PARTS = {
    **{"generate_seconds": 5.0, "tools_seconds": 1.0, "update_seconds": 3.0},
    **{"sync_seconds": 0.5, "waiting_seconds": 0.5},
}
LIVE_JOBS = 20
LIVE_STEPS = 360
"""Of an hour."""
COLLECTIONS = 3
LIVE_SAMPLES = 4
"""Of an hour."""
PAINTED = """(selector) => new Promise((resolve) => {
    const look = () => {
        if (!document.querySelector(selector)) requestAnimationFrame(look);
        else requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
    };
    look();
})"""
"""Milliseconds from the beginning of the navigation until something is on the screen."""
ANSWERED = """([control, event, value, done]) => new Promise((resolve, reject) => {
    const labeled = [...document.querySelectorAll("main .field")]
        .find((field) => field.innerText.startsWith(control));
    const element = labeled?.querySelector("select, input") ?? document.querySelector(control);
    const isDone = new Function(`return ${done}`);
    const begun = performance.now();
    if (event === "click") element.click();
    else {
        element.value = value;
        element.dispatchEvent(new Event(event, { bubbles: true }));
    }
    const look = () => {
        const milliseconds = performance.now() - begun;
        if (milliseconds > 60_000) reject(new Error(`not shown: ${done}`));
        else if (!isDone()) requestAnimationFrame(look);
        else requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - begun)));
    };
    look();
})"""
"""Milliseconds from an event at a control until its result is on the screen."""


@dataclass(frozen=True)
class View:
    """A view, with selectors for its first response and its completion, and the REST requests of
    its page."""

    name: str
    path: str
    first: str
    whole: str
    routes: tuple[str, ...]


@dataclass(frozen=True)
class Interaction:
    """An event on a control (label prefix or selector), and the condition for its result."""

    name: str
    view: View
    control: str
    event: str
    value: str
    done: str


@dataclass(frozen=True)
class Size:
    """The size of the test data."""

    steps: int
    trajectories: int
    jobs: int


def views_of(long: str, online: str) -> list[View]:
    """Return the views of the job with many steps and of the one with many trajectories."""
    listing = f"/v1/fine_tuning/jobs/{online}/trajectories"
    shown = f"/ui/jobs/{online}/trajectories"
    job = (f"/v1/jobs/{long}", f"/v1/jobs/{long}/metrics", f"/v1/jobs/{long}/events?limit=100")
    listed = tuple(
        listing + query
        for query in ("?limit=100", "/rewards", "?limit=100&sort=reward", "?limit=100&min_reward=9")
    )
    both = tuple(f"/v1/jobs/{each}/metrics" for each in (long, online))
    one = (f"{listing}/traj-5-0", f"{listing}?prompt=5&limit=100")
    return [
        View("jobs", "/ui", "main td", "main td", ("/v1/jobs?limit=50",)),
        View("job", f"/ui/jobs/{long}", "main dd", "main canvas", job),
        View("trajectories", shown, "main h1", "main:has(td) ol.steps", listed),
        View("one trajectory", f"{shown}/traj-5-0", "main dd", "main canvas", one),
        View("compare", f"/ui/compare?jobs={long},{online}", "main h1", "main canvas", both),
    ]


def interactions_of(views: list[View]) -> list[Interaction]:
    """Return the interactions in these views."""
    jobs, job, trajectories, *_ = views
    rows = "document.querySelectorAll('main tbody tr').length"
    first = "document.querySelector('main tbody tr')?.textContent"
    return [
        Interaction(
            "jobs: one status",
            jobs,
            "Status",
            "change",
            "failed",
            "[...document.querySelectorAll('main td .status')].every((each) =>"
            " each.classList.contains('failed')) && " + rows,
        ),
        Interaction("jobs: text", jobs, "Search", "input", "zzz", f"{rows} === 0"),
        Interaction("jobs: more", jobs, "main div > button", "click", "", f"{rows} > 50"),
        Interaction("job: smoothing", job, "input[type=range]", "input", "0.9", "true"),
        Interaction(
            "job: logarithmic",
            job,
            "input[type=checkbox]",
            "click",
            "",
            "document.querySelector('main canvas')",
        ),
        Interaction(
            "trajectories: by reward",
            trajectories,
            "Sort by",
            "change",
            "reward",
            f"{first}?.includes('{BEST}')",
        ),
        Interaction(
            "trajectories: min reward",
            trajectories,
            "Min reward",
            "change",
            "9.1",
            f"{rows} === 1",
        ),
        Interaction(
            "trajectories: more", trajectories, "main div > button", "click", "", f"{rows} > 100"
        ),
    ]


def fill(client: GatewayClient, size: Size) -> tuple[str, str]:
    """Create the jobs; return the ids of the long one and of the one with trajectories."""
    long, online = client.submit("long"), client.submit("online")
    database = Database(f"sqlite:///{client.home / 'temper.db'}")
    with database.write() as session:
        now = time.time()
        session.execute(update(JobRow).values(status="succeeded", started_at=now, finished_at=now))
        template = session.scalars(select(JobRow).where(JobRow.id == online)).one()
        columns = [each.name for each in JobRow.__table__.columns if each.name != "seq"]
        common = {name: getattr(template, name) for name in columns}
        statuses = ("succeeded", "failed", "cancelled")
        rows = [
            common | {"id": f"ftjob-{number:024x}", "status": statuses[number % 3]}
            for number in range(size.jobs - 2)
        ]
        session.execute(insert(JobRow), rows)
        events = [Draft(f"Step {step}: loss 0.1") for step in range(size.steps)]
        append_events(session, long, events)
    database.close()
    for job_id, steps in ((long, size.steps), (online, size.steps // 100)):
        folder = client.home / "jobs" / job_id
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "metrics.jsonl", "w") as file:
            file.writelines(metrics(steps))
    write_trajectories(client.home / "jobs" / online, size.trajectories)
    return long, online


def metrics(steps: int) -> Iterator[str]:
    """Yield metrics lines as training reports them."""
    for step in range(1, steps + 1):
        values = {name: random.random() + 10 / step for name in METRICS}
        yield json.dumps({"step": step, "time": 1e9 + step, **values, **PARTS}) + "\n"


def write_trajectories(folder: Path, count: int) -> None:
    """Write short trajectories with their index, as training rollouts do."""
    text = trajectory(0, 0, tokens=8, reward=0.5).model_dump_json()
    entries = np.zeros(count, ENTRY)
    rewards = np.random.default_rng(0).uniform(-9, 9, count).round(4)
    rewards[count // 2] = BEST
    offset = 0
    with open(folder / TRAJECTORIES, "wb") as file:
        for number in range(count):
            prompt, sample = divmod(number, SAMPLES)
            line = text.replace("traj-0-0", f"traj-{prompt}-{sample}")
            line = line.replace('"prompt_index":0', f'"prompt_index":{prompt}')
            line = line.replace('"sample_index":0', f'"sample_index":{sample}')
            line = line.replace('"reward":0.5', f'"reward":{rewards[number]}') + "\n"
            key = key_of(f"traj-{prompt}-{sample}")
            of_one = (offset, len(line), 0, key, prompt, sample, rewards[number], 8, 0, b"answered")
            entries[number] = of_one
            offset += file.write(line.encode())
    entries.tofile(folder / INDEX)
    learned = np.zeros(count, updates.ENTRY)
    learned["key"] = entries["key"]
    learned["step"] = np.arange(count) // OF_STEP + 1
    learned.tofile(folder / updates.INDEX)


def open_view(browser: Browser, url: str, view: View) -> tuple[Page, float, float]:
    """Open a view in a fresh browser; return when its first response and all of it was painted."""
    page = browser.new_context().new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(url + view.path, wait_until="commit")
    first = page.evaluate(PAINTED, view.first)
    return page, first, page.evaluate(PAINTED, view.whole)


def measure(url: str, views: list[View], rounds: int) -> None:
    """Print the times of views and interactions."""
    executable = shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        print(f"{'view, ms':<28}{'first':>8}{'all':>8}")
        for view in views:
            times = []
            for _ in range(rounds):
                page, *painted = open_view(browser, url, view)
                times.append(painted)
                page.context.close()
            first, whole = (statistics.median(each) for each in zip(*times, strict=True))
            print(f"{view.name:<28}{first:>8.0f}{whole:>8.0f}", flush=True)
        print(f"\n{'interaction, ms':<28}{'shown':>8}")
        for one in interactions_of(views):
            shown = []
            for _ in range(rounds):
                page, *_ = open_view(browser, url, one.view)
                arguments = [one.control, one.event, one.value, one.done]
                shown.append(page.evaluate(ANSWERED, arguments))
                page.context.close()
            print(f"{one.name:<28}{statistics.median(shown):>8.0f}", flush=True)
        browser.close()


def live(client: GatewayClient, url: str, seconds: float, hours: int) -> None:
    """Print the memory of live pages while `LIVE_JOBS` jobs report hours of steps, each in
    ``seconds``."""
    ids = [client.submit("live") for _ in range(LIVE_JOBS)]
    database = Database(f"sqlite:///{client.home / 'temper.db'}")
    with database.write() as session:
        now = time.time()
        running = {"status": "running", "started_at": now, "lease_expires_at": now + 1e6}
        session.execute(update(JobRow).where(JobRow.id.in_(ids)).values(**running))
    print(f"{'live page, hours':<32}{'heap MiB':>10}{'nodes':>8}")
    with sync_playwright() as playwright:
        executable = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        pages = {}
        for path in (f"/ui/jobs/{ids[0]}", f"/ui/compare?jobs={','.join(ids)}"):
            pages[path.split("/")[2].partition("?")[0]] = page = browser.new_page()
            page.goto(url + path)
        begun = time.monotonic()
        for step in range(1, hours * LIVE_STEPS + 1):
            values = {name: random.random() for name in METRICS}
            with database.write() as session:
                for job_id in ids:
                    data = {"step": step, **values}
                    append_events(session, job_id, [Draft(f"Step {step}", "info", "metrics", data)])
            if step % (LIVE_STEPS // LIVE_SAMPLES) == 0:
                for name, page in pages.items():
                    heap, nodes = memory_of(page)
                    played = f"{name} {step / LIVE_STEPS:.2f}"
                    print(f"{played:<32}{heap / 2**20:>10.1f}{nodes:>8}", flush=True)
            pages["jobs"].wait_for_timeout(
                max(0.0, (begun + seconds * step / LIVE_STEPS - time.monotonic()) * 1000)
            )
        browser.close()
    database.close()


def memory_of(page: Page) -> tuple[int, int]:
    """The bytes of a page's heap with its buffers, and its DOM nodes: the least after a few
    collections, as one may come while the page draws."""
    session = page.context.new_cdp_session(page)
    found = []
    for _ in range(COLLECTIONS):
        session.send("HeapProfiler.collectGarbage")
        usage = session.send("Runtime.getHeapUsage")
        heap = usage["usedSize"] + usage.get("backingStorageSize", 0)
        nodes = session.send("Memory.getDOMCounters")["nodes"]
        found.append((int(heap), int(nodes)))
        page.wait_for_timeout(100)
    session.detach()
    return min(found)


def most_memory(process: Process) -> int:
    """Return the peak memory of a process, in MiB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    line = next(each for each in status.splitlines() if each.startswith("VmHWM:"))
    return int(line.split()[1]) // 1024


def main(size: Size | None, rounds: int, live_seconds: float, hours: int) -> None:
    """Run the benchmark; without a size only that of the live pages."""
    if size is not None:
        measure_views(size, rounds)
    with tempfile.TemporaryDirectory() as folder:
        home, log = Path(folder) / "home", Path(folder) / "gateway.log"
        with (
            running_service("services.api", {"TEMPER_HOME": str(home)}, log) as (_, url),
            GatewayClient(url, home) as client,
        ):
            live(client, url, live_seconds, hours)


def measure_views(size: Size, rounds: int) -> None:
    """Print times of views and interactions, and the gateway's memory."""
    with tempfile.TemporaryDirectory() as folder:
        home, log = Path(folder) / "home", Path(folder) / "gateway.log"
        settings = {"TEMPER_HOME": str(home)}
        with (
            running_service("services.api", settings, log) as (_, url),
            GatewayClient(url, home) as client,
        ):
            views = views_of(*fill(client, size))
        with running_service("services.api", settings, log) as (process, url):
            print(f"memory after the start: {most_memory(process)} MiB")
            for _ in range(rounds):
                for route in (route for view in views for route in view.routes):
                    httpx.get(url + route, timeout=60).raise_for_status()
            print(f"memory after REST alone: {most_memory(process)} MiB\n")
        with running_service("services.api", settings, log) as (process, url):
            measure(url, views, rounds)
            print(f"\nmemory after the browser: {most_memory(process)} MiB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--trajectories", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--live-seconds", type=float, default=300.0)
    parser.add_argument("--live-hours", type=int, default=1)
    parser.add_argument("--only-live", action="store_true")
    given = parser.parse_args()
    size = None if given.only_live else Size(given.steps, given.trajectories, given.jobs)
    main(size, given.rounds, given.live_seconds, given.live_hours)
