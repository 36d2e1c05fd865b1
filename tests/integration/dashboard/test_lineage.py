"""The lineage of a model in a browser: the graph of its ancestors, data and descendants."""

import re
import time
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from sqlalchemy import update

from services.core.db.engine import Database
from services.core.db.tables import JobRow, ModelRow
from tests.support.gateway import GatewayClient


@pytest.fixture(scope="module")
def job(gateway: GatewayClient) -> str:
    """The job recorded as the creator of a family of models."""
    job_id = gateway.submit("succeed")  # registers the model base
    gateway.wait_until(job_id, "succeeded")
    sums = {"file": "file-sums", "sha256": "5" * 64, "num_samples": 1200}
    calls = {"file": "file-calls"}
    rows = [
        trained("family-a", "base", job_id, training_file=sums),
        trained("family-b", "family-a", job_id, training_file=sums, validation_file=calls),
        trained("family-c", "family-b", job_id) | {"kind": "full"},
        trained("family-d", "family-a", job_id, training_file=sums),
        trained("family-orphan", "family-gone", job_id),
    ]
    register(gateway, *rows)
    return job_id


def register(gateway: GatewayClient, *rows: dict[str, Any]) -> None:
    """Put models into the registry."""
    database = Database(f"sqlite:///{gateway.home / 'temper.db'}")
    with database.write() as session:
        session.add_all(ModelRow(**row) for row in rows)
    database.close()


def trained(name: str, parent: str, job_id: str, **files: dict[str, Any]) -> dict[str, Any]:
    """The row of a model that a job created from its parent and files."""
    versions = {"llamafactory": "1.2.3"}
    lineage = {"job_id": job_id, "parent": parent, "files": files, "library_versions": versions}
    made = {"job_id": job_id, "created_at": time.time(), "lineage": lineage}
    return {"id": name, "kind": "adapter", "base": "base", **made}


def change_job(gateway: GatewayClient, job_id: str, **values: Any) -> None:
    """Update a job's row in the database."""
    database = Database(f"sqlite:///{gateway.home / 'temper.db'}")
    with database.write() as session:
        session.execute(update(JobRow).where(JobRow.id == job_id).values(**values))
    database.close()


def upload(gateway: GatewayClient) -> str:
    """The id of a new training file, which stub jobs never read."""
    file = {"file": ("rows.jsonl", b'{"messages": []}\n')}
    answer = gateway.http.post("/v1/files", files=file, data={"purpose": "fine-tune"})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def open_view(page: Page, gateway: GatewayClient, path: str) -> None:
    page.goto(str(gateway.http.base_url.join(path)))


def graph_of(page: Page) -> Locator:
    return page.get_by_role("region", name="Lineage graph")


def left_of(graph: Locator, name: str) -> float:
    box = graph.get_by_role("listitem").filter(has_text=name).bounding_box()
    assert box is not None
    return box["x"]


def test_a_model_is_between_its_ancestors_and_descendants(
    page: Page, gateway: GatewayClient, job: str
) -> None:
    open_view(page, gateway, "/ui/models")
    page.locator("main a[href='/ui/lineage?model=family-b']").click()

    expect(page).to_have_url(re.compile(r"/ui/lineage\?model=family-b$"))
    graph = graph_of(page)
    names = ["base", "family-a", "family-b", "family-c"]
    expect(graph.get_by_role("listitem")).to_contain_text([*names, "file-sums", "file-calls"])
    places = [left_of(graph, name) for name in names[1:]]
    assert places == sorted(set(places))
    assert left_of(graph, "file-sums") < left_of(graph, "family-a")
    # Three from a parent; file-sums to two models, file-calls to one.
    expect(graph.locator("path")).to_have_count(6)
    expect(graph.locator("[aria-current]")).to_have_text("family-b")
    expect(graph.locator(f"a[href='/ui/jobs/{job}']")).to_have_text(["succeed"] * 3)
    data = graph.get_by_role("link", name="file-sums")
    expect(data).to_have_attribute("href", "/ui/data/file-sums")


def test_each_model_links_to_its_own_lineage(page: Page, gateway: GatewayClient, job: str) -> None:
    open_view(page, gateway, "/ui/lineage?model=family-b")
    graph_of(page).get_by_role("link", name="family-a", exact=True).click()

    expect(page).to_have_url(re.compile("model=family-a$"))
    graph = graph_of(page)
    expect(graph.locator("[aria-current]")).to_have_text("family-a")
    expect(graph.get_by_role("link", name="family-d", exact=True)).to_be_visible()


def test_the_table_shows_data_and_versions(page: Page, gateway: GatewayClient, job: str) -> None:
    open_view(page, gateway, "/ui/lineage?model=family-a")

    row = page.get_by_role("table").get_by_role("row").filter(has_text="file-calls")
    expect(row).to_contain_text("file-sums (1,200 rows, sha256 555555555555), file-calls")
    expect(row).to_contain_text("llamafactory 1.2.3")


def test_a_deleted_parent_is_shown(page: Page, gateway: GatewayClient, job: str) -> None:
    open_view(page, gateway, "/ui/lineage?model=family-orphan")

    items = graph_of(page).get_by_role("listitem")
    expect(items).to_have_count(2)
    expect(items.filter(has_text="family-gone")).to_contain_text("not in the registry")


def test_a_job_links_to_its_data_parent_and_output(page: Page, gateway: GatewayClient) -> None:
    data, more = upload(gateway), upload(gateway)
    job_id = gateway.submit(
        "succeed",
        training_file=data,
        training_files=[{"file": data}, {"file": more}],
        validation_file=data,
    )
    gateway.wait_until(job_id, "succeeded")
    change_job(gateway, job_id, result={"fine_tuned_model": "family-made"})
    open_view(page, gateway, f"/ui/jobs/{job_id}")

    links = page.get_by_role("region", name="Lineage").get_by_role("link")
    expect(links).to_have_text(["family-made", "base", *["rows.jsonl"] * 3])
    leads_to = [link.get_attribute("href") for link in links.all()]
    files = [f"/ui/data/{file}" for file in (data, more, data)]
    assert leads_to == ["/ui/lineage?model=family-made", "/ui/lineage?model=base", *files]
    page.get_by_role("link", name="base", exact=True).click()
    expect(graph_of(page).locator("[aria-current]")).to_have_text("base")


def test_names_are_asked_for_again_on_a_page_that_is_not_redrawn(
    page: Page, gateway: GatewayClient, expected_errors: list[str]
) -> None:
    expected_errors.append("status of 500")
    job_id = gateway.submit("succeed", training_file=upload(gateway))
    gateway.wait_until(job_id, "succeeded")
    page.route("**/ui/names?*", lambda route: route.fulfill(status=500), times=1)
    open_view(page, gateway, f"/ui/jobs/{job_id}")

    links = page.get_by_role("region", name="Lineage").get_by_role("link")
    expect(links.last).to_have_text("rows.jsonl")


def test_an_element_that_a_redraw_gives_another_file_gets_its_name(
    page: Page, gateway: GatewayClient
) -> None:
    first, second = upload(gateway), upload(gateway)
    job_id = gateway.submit("succeed", training_file=first)
    gateway.wait_until(job_id, "succeeded")
    request = gateway.http.get(f"/v1/jobs/{job_id}/request").json()["body"]
    change_job(gateway, job_id, status="paused")
    open_view(page, gateway, f"/ui/jobs/{job_id}")
    link = page.get_by_role("region", name="Lineage").get_by_role("link").last
    expect(link).to_have_text("rows.jsonl")
    # The last redraw: a job that has ended is not loaded again.
    change_job(gateway, job_id, status="succeeded", request=request | {"training_file": second})

    expect(link).to_have_attribute("href", f"/ui/data/{second}")
    expect(link).to_have_text("rows.jsonl")


def test_a_job_started_from_a_checkpoint_links_to_its_job(
    page: Page, gateway: GatewayClient, job: str
) -> None:
    job_id = gateway.submit("succeed", metadata={"campaign": f"campaign-{'0' * 24}", "loop": "3"})
    gateway.wait_until(job_id, "succeeded")
    request = gateway.http.get(f"/v1/jobs/{job_id}/request").json()["body"]
    change_job(gateway, job_id, request=request | {"model": f"{job}:step-4"})
    open_view(page, gateway, f"/ui/jobs/{job_id}")

    lineage = page.get_by_role("region", name="Lineage")
    expect(lineage).to_contain_text("step 4 of succeed")
    expect(lineage.locator(f"a[href='/ui/jobs/{job}']")).to_be_visible()
    campaign = lineage.get_by_role("link", name="attempt 3")
    expect(campaign).to_have_attribute("href", f"/ui/campaigns/campaign-{'0' * 24}/loops/3")


def test_a_checkpoint_is_between_its_ancestors_and_descendants(
    page: Page, gateway: GatewayClient, job: str
) -> None:
    first = gateway.submit("succeed")
    gateway.wait_until(first, "succeeded")
    checkpoint = f"{first}:step-4"
    register(gateway, trained("final", "base", first), trained("later", checkpoint, job))
    open_view(page, gateway, "/ui/lineage?model=later")
    graph_of(page).get_by_role("link", name=checkpoint).click()

    graph = graph_of(page)
    expect(graph.locator("[aria-current]")).to_have_text(checkpoint)
    places = [left_of(graph, name) for name in ("base", checkpoint, "later")]
    assert places == sorted(set(places))
    data = gateway.http.get(f"/v1/fine_tuning/jobs/{first}").json()["training_file"]
    expect(graph.locator(f"a[href='/ui/data/{data}']")).to_be_visible()
    expect(page.get_by_text("of step 4 of succeed, which produced final")).to_be_visible()
    expect(page.get_by_text("does not have this checkpoint")).to_have_count(0)
    open_view(page, gateway, f"/ui/lineage?model={first}:step-400")
    expect(page.get_by_text("The job does not have this checkpoint.")).to_be_visible()


def test_an_unknown_model_is_reported(page: Page, gateway: GatewayClient, job: str) -> None:
    open_view(page, gateway, "/ui/lineage?model=nothing")

    expect(page.get_by_text("No model named nothing.")).to_be_visible()
