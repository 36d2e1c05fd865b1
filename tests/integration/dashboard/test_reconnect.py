"""A page whose gateway is killed: it reconnects to the next one, losing or repeating no event."""

import hashlib
from pathlib import Path

from playwright.sync_api import Browser, expect
from sqlalchemy import update

from services.core.db.engine import Database
from services.core.db.tables import JobRow
from services.jobs.events import append_event
from tests.integration.dashboard.conftest import KEY, PATIENCE_MS
from tests.support.gateway import GatewayClient
from tests.support.processes import Process, free_port, is_ready, running
from tests.support.waiting import wait_for


def test_a_page_reconnects_after_the_gateway_is_killed(browser: Browser, tmp_path: Path) -> None:
    home, log, port = tmp_path / "home", tmp_path / "gateway.log", free_port()
    url, arguments = f"http://127.0.0.1:{port}", ["--port", str(port)]
    hashed = hashlib.sha256(KEY.encode()).hexdigest()
    settings = {"TEMPER_HOME": str(home), "TEMPER_API_KEY_HASHES": hashed}
    first = Process("services.api", arguments, settings, log)
    try:
        wait_for(lambda: is_ready(first, url), "the first gateway is ready")
        with GatewayClient(url, home) as client:
            client.http.headers["Authorization"] = f"Bearer {KEY}"
            job_id = client.submit("nothing")  # there is no worker: all its events come from here
        database = Database(f"sqlite:///{home / 'temper.db'}")
        events = Events(database, job_id)
        page = browser.new_context().new_page()  # the console logs the lost gateway
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{url}/ui/jobs/{job_id}")
        page.get_by_label("API key").fill(KEY)
        page.get_by_role("button", name="Sign in").click()
        lines = page.get_by_label("Events, newest last").locator("bdi")
        connection = page.get_by_role("heading", name="Events")
        expect(connection).to_have_text("Events (live)")
        events.append("before", 3)
        expect(lines).to_have_count(4)
    finally:
        first.kill()

    expect(connection).not_to_have_text("Events (live)")
    events.append("meanwhile", 700)  # more than one batch of the stream
    with running("services.api", arguments, settings, log) as second:
        wait_for(lambda: is_ready(second, url), "the second gateway is ready")
        expect(lines.last).to_have_text("meanwhile 699")
        expect(connection).to_have_text("Events (live)")
        events.append("after", 2)
        expect(lines.last).to_have_text("after 1")
        events.end()
        expect(page.locator(".status.succeeded")).to_be_visible()
        expect(connection).to_have_text("Events (ended)")
    shown = lines.all_inner_texts()
    database.close()
    page.context.close()

    assert len(shown) == 500  # the page keeps that many
    assert shown == events.messages[-500:]


class Events:
    """Appends events of a job, as its worker would."""

    def __init__(self, database: Database, job_id: str) -> None:
        self._database = database
        self._job_id = job_id
        self.messages: list[str] = []

    def append(self, name: str, count: int) -> None:
        messages = [f"{name} {number}" for number in range(count)]
        with self._database.write() as session:
            for message in messages:
                append_event(session, self._job_id, message)
        self.messages += messages

    def end(self) -> None:
        with self._database.write() as session:
            row = update(JobRow).where(JobRow.id == self._job_id)
            session.execute(row.values(status="succeeded", finished_at=JobRow.created_at))
