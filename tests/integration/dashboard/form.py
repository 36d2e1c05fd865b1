"""Fills in a dashboard form that starts a job, as a user would."""

import json
import re
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.support.gateway import GatewayClient


class Form:
    """A form on a page; fields are addressed by their labels."""

    def __init__(self, page: Page, gateway: GatewayClient, name: str) -> None:
        self._page = page
        self._gateway = gateway
        page.goto(str(gateway.http.base_url.join(f"/ui/start/{name}")))
        expect(page.get_by_role("button", name="Start", exact=True)).to_be_visible()
        if name == "fine-tune":
            page.get_by_text("All settings", exact=True).click()
        self._place: Page | Locator = page

    def within(self, place: str) -> None:
        """Address the fields of a part of the request from here on."""
        self._place = self._page.get_by_role("group", name=place, exact=True)

    def leave(self) -> None:
        """Address the fields of the whole request again."""
        self._place = self._page

    def fill(self, name: str, value: str) -> None:
        self._place.get_by_label(name, exact=True).fill(value)

    def choose(self, name: str, option: str) -> None:
        self._place.get_by_role("combobox", name=name, exact=True).select_option(label=option)

    def click(self, name: str) -> None:
        self._place.get_by_role("button", name=name, exact=True).click()

    def unfold(self, name: str) -> None:
        summary = self._place.locator("summary").get_by_text(name, exact=True)
        summary.first.click()

    def pick(self, name: str, filename: str) -> str:
        """Fill in the id of the file suggested under this name; returns it."""
        control = self._place.get_by_role("combobox", name=name, exact=True)
        offered = self._page.locator(f"datalist#{control.get_attribute('list')} option")
        option = offered.filter(has_text=filename).first
        option.wait_for(state="attached")
        file_id = option.get_attribute("value") or ""
        control.fill(file_id)
        return file_id

    @property
    def shown(self) -> Any:
        """The request shown on the page."""
        command = self._page.get_by_role("region", name="Request as curl").text_content() or ""
        return json.loads(command.partition("<<'END'\n")[2].partition("\nEND")[0])

    def submit(self) -> str:
        """Start the job and check that it has the request shown; returns its id."""
        shown = self.shown
        self._page.get_by_role("button", name="Start", exact=True).click()
        expect(self._page).to_have_url(re.compile(r"/ui/jobs/[a-z]+-[0-9a-z]+$"))
        job_id = self._page.url.rpartition("/")[2]
        expect(self._page.get_by_role("button", name=f"Copy {job_id}").first).to_be_visible()
        held = self._gateway.http.get(f"/v1/jobs/{job_id}/request").json()["body"]
        assert part_of(held, shown) == shown
        return job_id


def part_of(held: Any, shown: Any) -> Any:
    """The stored values of the fields shown; others have defaults."""
    if isinstance(shown, dict):
        return {name: part_of(held[name], value) for name, value in shown.items()}
    if isinstance(shown, list):
        assert len(held) == len(shown)
        return [part_of(*each) for each in zip(held, shown, strict=True)]
    return held
