"""Reports hold whatever text the rows do."""

from pathlib import Path

import openpyxl
import pytest

from services.metrics.tables import Sheet, write_html, write_markdown
from services.metrics.workbook import write_workbook

ODD = "a\ud83d\ufffe\uffff\x00b 😀"


def sheets() -> list[Sheet]:
    return [("rows", ["answer"], [[ODD]])]


def test_a_workbook_replaces_what_xml_cannot_hold(tmp_path: Path) -> None:
    path = tmp_path / "report.xlsx"
    write_workbook(path, sheets())

    assert openpyxl.load_workbook(path)["rows"]["A2"].value == "a" + "\ufffd" * 4 + "b 😀"


@pytest.mark.parametrize("write", [write_html, write_markdown])
def test_a_page_replaces_what_utf_8_cannot_encode(tmp_path: Path, write: object) -> None:
    assert callable(write)
    write(tmp_path / "report", "title", "summary", sheets())

    assert "a?\ufffe\uffff\x00b 😀" in (tmp_path / "report").read_text(encoding="utf-8")
