"""A newcomer's path in the browser: from an empty stack to a model compared with its base."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from services.contracts.jobs import JobStatus
from services.core.db.engine import Database
from services.core.db.tables import ModelRow
from services.jobs.store import get_job, move_job
from tests.support.dashboard.accessibility import violations
from tests.support.engines.serving_worker import ServingWorker
from tests.support.evaluation.evaluations import SucceededEvaluations
from tests.support.gateway import GatewayClient
from tests.support.processes import running_gateway
from tests.support.threaded_server import LoopThread

TUNED = "ft:tiny:temper::0123abcd"
NAME = "tiny supervised on sums.jsonl"
CONVERSATION = {
    "messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]
}
ITEM = {"prompt": "1+1=", "gold": "2"}

pytestmark = pytest.mark.drill


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[GatewayClient]:
    """A gateway of a new home, below whose model root are a model and a broken one."""
    root = tmp_path / "home" / "models"
    write_model(root / "tiny")
    write_model(root / "broken")
    (root / "broken" / "model.safetensors").unlink()
    with (
        running_gateway({"TEMPER_HOME": str(tmp_path / "home")}, tmp_path / "gateway.log") as url,
        GatewayClient(url, tmp_path / "home") as client,
    ):
        yield client


def write_model(folder: Path) -> None:
    """Write what a model's folder needs to be served by a stand-in."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "stub"}')
    (folder / "model.safetensors").write_bytes(b"0" * 2048)


def end_training(database: Database, job_id: str) -> None:
    """End a fine-tune as its worker would, with a model."""
    with database.write() as session:
        for status in (JobStatus.QUEUED, JobStatus.RUNNING):
            move_job(session, get_job(session, job_id), status, f"now {status}")
        lineage = {"job_id": job_id, "parent": "tiny", "library_versions": {}}
        row = ModelRow(id=TUNED, kind="full", job_id=job_id, job_path="output", created_at=1.0)
        row.lineage = lineage
        session.add(row)
        result = {"fine_tuned_model": TUNED, "trained_tokens": 7, "train_seconds": 60.0}
        move_job(session, get_job(session, job_id), JobStatus.SUCCEEDED, "Succeeded", result=result)


def choose(page: Page, name: str, row: object, count: int) -> None:
    """Choose a file for the upload form."""
    content = "".join(f"{json.dumps(row)}\n" for _ in range(count)).encode()
    chosen = {"name": name, "mimeType": "application/json", "buffer": content}
    page.get_by_label("File to upload").set_input_files(chosen)  # type: ignore[arg-type]


def test_from_nothing_to_a_model_of_ones_own(
    page: Page, empty: GatewayClient, expected_errors: list[str]
) -> None:
    expected_errors.append("503 (Service Unavailable)")  # while engines start
    home = str(empty.http.base_url.join("/ui"))
    page.goto(home)
    expect(page.get_by_text("No jobs yet.")).to_be_visible()
    add_model(page)
    page.goto(home)
    upload_data(page, empty)
    page.goto(home)
    job_id = start_training(page)

    database = Database(f"sqlite:///{empty.home / 'temper.db'}")
    end_training(database, job_id)
    write_model(empty.home / "jobs" / job_id / "output")
    chat_beside_base(page, empty)
    page.goto(f"{home}/jobs/{job_id}")
    base, tuned = evaluate(page)
    finished = SucceededEvaluations(empty.http, database, empty.home, "")
    finished.finish(base, "0001" * 10)
    finished.finish(tuned, "0111" * 10)
    compared = page.get_by_role("region", name="Paired on the same items")
    expect(compared).to_contain_text("+50.0%")
    database.close()

    page.goto(home)
    listed = page.get_by_role("row").filter(has_text="tiny on questions.jsonl")
    expect(listed).to_contain_text("accuracy 25.0%")
    expect(page.get_by_role("row").filter(has_text=NAME)).to_contain_text("supervised")
    delete_model(page, home)


def first_steps(page: Page) -> Locator:
    return page.get_by_role("region", name="First steps")


def add_model(page: Page) -> None:
    expect(first_steps(page).get_by_role("listitem")).to_have_count(5)
    assert violations(page) == []
    first_steps(page).get_by_role("link").click()  # one step at a time
    folders = page.get_by_role("region", name="Folders below the model root")
    expect(folders.get_by_role("row").filter(has_text="broken")).to_contain_text("no *.safetensors")
    expect(folders.get_by_role("row").filter(has_text="tiny")).to_contain_text("2.0 KiB")
    assert violations(page) == []
    page.get_by_role("button", name="Add tiny").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("tiny")


def upload_data(page: Page, empty: GatewayClient) -> None:
    first_steps(page).get_by_role("link", name="Upload data").click()
    choose(page, "questions.jsonl", ITEM, 16)
    expect(page.get_by_text("look like prompts with gold answers")).to_be_visible()
    page.get_by_role("button", name="Upload", exact=True).click()
    # Prompts are no broken conversations.
    expect(page.get_by_text("They are not rows of a supervised fine-tune")).to_be_visible()
    expect(page.get_by_text("invalid rows")).to_have_count(0)
    assert empty.http.get("/v1/jobs?kind=check").json()["data"] == []

    page.get_by_role("link", name="Data", exact=True).click()
    choose(page, "sums.jsonl", CONVERSATION, 20)
    expect(page.get_by_text("look like demonstrations")).to_be_visible()
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.get_by_text("1+1?").first).to_be_visible()
    expect(page.get_by_role("link", name=re.compile("^check-")).first).to_be_visible()


def start_training(page: Page) -> str:
    first_steps(page).get_by_role("link", name="Start a fine-tune").click()
    page.get_by_label("Base model").select_option("tiny")
    page.get_by_label("Training data").select_option(label=first_with(page, "sums.jsonl"))
    expect(page.get_by_text("Forecast: method supervised")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page).to_have_url(re.compile("/ui/jobs/ftjob-[0-9a-z]+$"))
    expect(page.get_by_role("heading", level=1)).to_contain_text(NAME)
    return page.url.rpartition("/")[2]


def chat_beside_base(page: Page, empty: GatewayClient) -> None:
    """Chat with the result and its base, which a worker with a stand-in engine serves."""
    page.get_by_role("link", name="Chat with it beside its base").click()
    expect(page.get_by_role("combobox", name="Other model")).to_have_value("tiny")
    page.get_by_label("Message").fill("1+1?")
    page.get_by_label("Message").press("Enter")
    expect(page.get_by_text("serve worker is running").first).to_be_visible()
    with LoopThread() as loop, closing(ServingWorker(empty.home, loop)) as worker:
        asked = (str(worker.next_job().request["model"]) for _ in range(2))
        servings = [worker.serve_next(model=name) for name in asked]
        expect(page.locator(".assistant pre")).to_have_text(["one two", "one two"])
        assert violations(page) == []
        for serving in servings:
            worker.succeed(serving)


def evaluate(page: Page) -> tuple[str, str]:
    """Start the evaluations of base and result; returns their ids."""
    after = page.get_by_role("region", name="Next steps")
    expect(after).to_contain_text(TUNED)
    for following in ("Train it further", "Serve, export or delete it"):
        expect(after.get_by_role("link", name=following)).to_be_visible()
    assert violations(page) == []
    rows = after.get_by_label("Rows with prompt and gold")
    rows.select_option(label=first_with(page, "questions.jsonl"))
    after.get_by_role("button", name="Evaluate and compare with its base").click()
    expect(page.get_by_text("The comparison appears here once these have ended")).to_be_visible()
    base, tuned = page.url.rpartition("compare=")[2].split("%2C")
    return base, tuned


def delete_model(page: Page, home: str) -> None:
    page.goto(f"{home}/model?id={TUNED}")
    expect(page.get_by_role("row").filter(has_text=NAME)).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete for good").click()
    expect(page).to_have_url(re.compile("/ui/models$"))
    expect(page.get_by_role("button", name="Add tiny")).to_have_count(0)
    expect(page.get_by_role("link", name=TUNED)).to_have_count(0)


def first_with(page: Page, text: str) -> str:
    """The label of the first option that contains a text."""
    option = page.locator("select option").filter(has_text=text).first
    option.wait_for(state="attached")
    return option.text_content() or ""
