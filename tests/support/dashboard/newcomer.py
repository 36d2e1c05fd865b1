"""A newcomer's path in the browser: from an empty stack to a model compared with its base.

A test walks it, and the documentation's recording shows it.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from playwright.sync_api import Locator, Page, expect
from sqlalchemy import update

from services.contracts.jobs import JobStatus
from services.core.db.engine import Database
from services.core.db.tables import JobRow, ModelRow
from services.jobs.events import append_event
from services.jobs.store import get_job, move_job
from tests.support import processes
from tests.support.dashboard.accessibility import violations
from tests.support.engines.serving_worker import ServingWorker
from tests.support.evaluation.evaluations import SucceededEvaluations
from tests.support.gateway import GatewayClient
from tests.support.models.hub import Kind, Repository, running
from tests.support.models.slow_hub import SlowHub
from tests.support.processes import running_gateway
from tests.support.threaded_server import LoopThread

TUNED = "ft:tiny:temper::0123abcd"
NAME = "tiny supervised on sums.jsonl"
STEPS = 20
HALF = 1 << 20
CONVERSATION = {
    "messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]
}
ITEM = {"prompt": "1+1=", "gold": "2"}


@contextmanager
def new_gateway(folder: Path) -> Iterator[GatewayClient]:
    """A gateway of a new home, below whose model root are a model, a broken one and a GGUF file."""
    root = folder / "home" / "models"
    write_model(root / "tiny")
    write_model(root / "broken")
    (root / "broken" / "model.safetensors").unlink()
    (root / "small").mkdir()
    (root / "small" / "small.gguf").write_bytes(b"GGUF" + b"0" * 1020)
    with (
        running_gateway({"TEMPER_HOME": str(folder / "home")}, folder / "gateway.log") as url,
        GatewayClient(url, folder / "home") as client,
    ):
        yield client


def write_model(folder: Path) -> None:
    """Write what a model's folder needs to be served by a stand-in."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "stub"}')
    (folder / "model.safetensors").write_bytes(b"0" * 2048)


class Newcomer:
    """Walks the path; ``shown`` is called with what each place of it shows."""

    def __init__(
        self, page: Page, gateway: GatewayClient, shown: Callable[[str], None] = lambda _: None
    ) -> None:
        self.page = page
        self._gateway = gateway
        self._shown = shown
        self._home = str(gateway.http.base_url.join("/ui"))
        self._folder = gateway.home.parent

    def walk(self) -> None:
        """From nothing to the comparison, and to the end of the model."""
        page, gateway = self.page, self._gateway
        page.goto(self._home)
        expect(page.get_by_text("No jobs yet.")).to_be_visible()
        self._add_model()
        page.goto(self._home)
        self._upload_data()
        page.goto(self._home)
        job_id = self._start_training()
        database = Database(f"sqlite:///{gateway.home / 'temper.db'}")
        self._watch(database, job_id)
        write_model(gateway.home / "jobs" / job_id / "output")
        self._chat_beside_base()
        page.goto(f"{self._home}/jobs/{job_id}")
        base, tuned = self._evaluate()
        finished = SucceededEvaluations(gateway.http, database, gateway.home, "")
        finished.finish(base, "0001" * 10)
        finished.finish(tuned, "0111" * 10)
        database.close()
        compared = page.get_by_role("region", name="Paired on the same items")
        expect(compared).to_contain_text("+50.0%")
        self._shown("Both evaluated and compared, with the interval of the difference")

        page.goto(self._home)
        listed = page.get_by_role("row").filter(has_text="tiny on questions.jsonl")
        expect(listed).to_contain_text("accuracy 25.0%")
        expect(page.get_by_role("row").filter(has_text=NAME)).to_contain_text("supervised")
        self._shown("Jobs by name, with their main numbers")
        self._delete_model()

    def _first_steps(self) -> Locator:
        return self.page.get_by_role("region", name="First steps")

    def _check(self, shown: str) -> None:
        """Show a place, which passes axe-core."""
        assert violations(self.page) == []
        self._shown(shown)

    def _add_model(self) -> None:
        page = self.page
        expect(self._first_steps().get_by_role("listitem")).to_have_count(5)
        self._check("A new stack says what to do next, one step at a time")
        self._first_steps().get_by_role("link").click()
        row = page.get_by_role("region", name="Folders below the model root").get_by_role("row")
        expect(row.filter(has_text="broken")).to_contain_text("no *.safetensors")
        expect(row.filter(has_text="tiny")).to_contain_text("2.0 KiB")
        expect(row.filter(has_text="small")).to_contain_text("GGUF file")
        self._check("Models to add: folders with sizes and what is wrong, GGUF files, a hub")
        self._convert_file()
        self._download_model()
        page.get_by_role("link", name="Models", exact=True).click()
        page.get_by_role("button", name="Add tiny").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("tiny")

    def _convert_file(self) -> None:
        """Add a GGUF file; its conversion waits for a worker, and is cancelled."""
        page = self.page
        page.get_by_role("button", name="Add small").click()
        page.get_by_role("button", name="Convert it into a model").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("converted")
        expect(page.get_by_text("no merge worker is running").first).to_be_visible()
        page.get_by_role("button", name="cancel").click()
        expect(page.locator(".status.cancelled")).to_be_visible()
        page.get_by_role("link", name="Models", exact=True).click()

    def _download_model(self) -> None:
        """Add a model of a hub that is slow; the download is cancelled, and begun again."""
        page, folder = self.page, self._folder
        repository = folder / "repository"
        write_model(repository)
        (repository / "model.safetensors").write_bytes(b"0" * HALF * 2)
        with running(SlowHub()) as hub:
            hub.add(Repository(Kind.MODEL, "lab/slow", {"main": repository}))
            home, cache = str(self._gateway.home), str(folder / "cache")
            settings = {"TEMPER_HOME": home, "HF_ENDPOINT": hub.url, "HF_HOME": cache}
            page.get_by_label("Model of a hub").fill("lab/slow")
            page.get_by_role("button", name="Add and download").click()
            expect(page.get_by_text("no download worker is running").first).to_be_visible()
            with processes.running("services.trainer", [], settings, folder / "worker.log"):
                hub.limit = HALF
                expect(page.get_by_text("1.0 MiB of 2.0 MiB, ")).to_be_visible()
                self._check("A hub's model, with bytes, rate and time left")
                cancel = page.get_by_role("button", name="Cancel the download")
                cancel.focus()
                hub.limit = HALF + HALF // 2
                expect(page.get_by_text("1.5 MiB of 2.0 MiB, ")).to_be_visible()
                expect(cancel).to_be_focused()
                cancel.click()
                expect(page.get_by_text("cancelled", exact=True).first).to_be_visible()
                page.goto(f"{self._home}/model?id=lab/slow")
                hub.limit = 2 * HALF
                page.get_by_role("button", name="Download it now").click()
                expect(page.get_by_text("It is on the worker's host.")).to_be_visible()

    def _upload_data(self) -> None:
        page = self.page
        self._first_steps().get_by_role("link", name="Upload data").click()
        choose(page, "questions.jsonl", ITEM, 16)
        expect(page.get_by_text("look like prompts with gold answers")).to_be_visible()
        page.get_by_role("button", name="Upload", exact=True).click()
        # Prompts are no broken conversations.
        expect(page.get_by_text("They are not rows of a supervised fine-tune")).to_be_visible()
        expect(page.get_by_text("invalid rows")).to_have_count(0)
        checks = self._gateway.http.get("/v1/jobs?kind=check").json()["data"]
        assert checks == []

        page.get_by_role("link", name="Data", exact=True).click()
        choose(page, "sums.jsonl", CONVERSATION, 20)
        expect(page.get_by_text("look like demonstrations")).to_be_visible()
        self._shown("Data: what a file is for is found by its rows")
        page.get_by_role("button", name="Upload", exact=True).click()
        expect(page.get_by_text("1+1?").first).to_be_visible()
        expect(page.get_by_role("link", name=re.compile("^check of ")).first).to_be_visible()
        self._shown("The uploaded file, its check and its rows")

    def _start_training(self) -> str:
        page = self.page
        self._first_steps().get_by_role("link", name="Start a fine-tune").click()
        page.get_by_label("Base model").select_option("tiny")
        page.get_by_label("Training data").select_option(label=first_with(page, "sums.jsonl"))
        expect(page.get_by_text("Forecast: method supervised")).to_be_visible()
        self._check("A fine-tune with defaults, and its forecast")
        page.get_by_role("button", name="Start", exact=True).click()
        expect(page).to_have_url(re.compile("/ui/jobs/ftjob-[0-9a-z]+$"))
        expect(page.get_by_role("heading", level=1)).to_contain_text(NAME)
        return page.url.rpartition("/")[2]

    def _watch(self, database: Database, job_id: str) -> None:
        """Watch a fine-tune, which is run as its worker would."""
        begin_training(database, job_id)
        expect(self.page.get_by_text("50 %, 1m 15s left")).to_be_visible()
        loss = self.page.get_by_role("region", name="loss").locator("canvas")
        expect(loss).to_be_visible()
        self._shown("The training: progress, time left and the curve that decides")
        end_training(database, job_id)
        expect(self.page.get_by_role("region", name="Next steps")).to_contain_text(TUNED)
        self._shown("The result, and what one can do with it")

    def _chat_beside_base(self) -> None:
        """Chat with the result and its base, which a worker with a stand-in engine serves."""
        page = self.page
        page.get_by_role("link", name="Chat with it beside its base").click()
        expect(page.get_by_role("combobox", name="Other model")).to_have_value("tiny")
        page.get_by_label("Message").fill("1+1?")
        page.get_by_label("Message").press("Enter")
        expect(page.get_by_text("serve worker is running").first).to_be_visible()
        with LoopThread() as loop, closing(ServingWorker(self._gateway.home, loop)) as worker:
            asked = (str(worker.next_job().request["model"]) for _ in range(2))
            servings = [worker.serve_next(model=name) for name in asked]
            expect(page.locator(".assistant pre")).to_have_text(["one two", "one two"])
            self._check("A chat with the result, beside its base")
            for serving in servings:
                worker.succeed(serving)

    def _evaluate(self) -> tuple[str, str]:
        """Start the evaluations of base and result; returns their ids."""
        page = self.page
        after = page.get_by_role("region", name="Next steps")
        for following in ("Train it further", "Serve, export or delete it"):
            expect(after.get_by_role("link", name=following)).to_be_visible()
        assert violations(page) == []
        rows = after.get_by_label("Rows with prompt and gold")
        rows.select_option(label=first_with(page, "questions.jsonl"))
        after.get_by_role("button", name="Evaluate and compare with its base").click()
        waits = page.get_by_text("The comparison appears here once these have ended")
        expect(waits).to_be_visible()
        base, tuned = page.url.rpartition("compare=")[2].split("%2C")
        return base, tuned

    def _delete_model(self) -> None:
        page = self.page
        page.goto(f"{self._home}/model?id={TUNED}")
        expect(page.get_by_role("row").filter(has_text=NAME)).to_be_visible()
        self._check("The model: serve, export, evaluate, train it further or delete it")
        page.get_by_role("button", name="Delete…").click()
        page.get_by_role("button", name="Delete for good").click()
        expect(page).to_have_url(re.compile("/ui/models$"))
        expect(page.get_by_role("button", name="Add tiny")).to_have_count(0)
        expect(page.get_by_role("link", name=TUNED)).to_have_count(0)


def choose(page: Page, name: str, row: object, count: int) -> None:
    """Choose a file for the upload form."""
    content = "".join(f"{json.dumps(row)}\n" for _ in range(count)).encode()
    chosen = {"name": name, "mimeType": "application/json", "buffer": content}
    page.get_by_label("File to upload").set_input_files(chosen)  # type: ignore[arg-type]  # the mapping's values are of several types


def begin_training(database: Database, job_id: str) -> None:
    """Run a fine-tune to its half, as its worker would."""
    with database.write() as session:
        for status in (JobStatus.QUEUED, JobStatus.RUNNING):
            move_job(session, get_job(session, job_id), status, f"now {status}")
        now = time.time()
        state = {"phase": "training", "step": STEPS, "total_steps": 2 * STEPS, "eta_seconds": 75.0}
        held = {"started_at": now, "lease_expires_at": now + 600}
        session.execute(update(JobRow).where(JobRow.id == job_id).values(**state, **held))
        for step in range(1, STEPS + 1):
            values = {"step": step, "loss": 2.0 / step, "learning_rate": 1e-3 / step}
            append_event(session, job_id, f"Step {step}", type="metrics", data=values)


def end_training(database: Database, job_id: str) -> None:
    """End a fine-tune as its worker would, with a model."""
    with database.write() as session:
        lineage = {"job_id": job_id, "parent": "tiny", "library_versions": {}}
        row = ModelRow(id=TUNED, kind="full", job_id=job_id, job_path="output", created_at=1.0)
        row.lineage = lineage
        session.add(row)
        result = {"fine_tuned_model": TUNED, "trained_tokens": 7, "train_seconds": 60.0}
        move_job(session, get_job(session, job_id), JobStatus.SUCCEEDED, "Succeeded", result=result)


def first_with(page: Page, text: str) -> str:
    """The label of the first option that contains a text."""
    option = page.locator("select option").filter(has_text=text).first
    option.wait_for(state="attached")
    return option.text_content() or ""
