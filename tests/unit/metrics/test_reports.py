"""Reports hold whatever text the rows do."""

from pathlib import Path

import openpyxl
import pytest

from services.metrics.reports.document import Document, Section, Table
from services.metrics.reports.writers import write_document

ODD = "a\ud83d\ufffe\uffff\x00b 😀"


def document(text: str) -> Document:
    return Document("title", [text], [Section("rows", [Table(["answer"], [[text]])])], dict)


def test_a_workbook_replaces_what_xml_cannot_hold(tmp_path: Path) -> None:
    path = tmp_path / "report.xlsx"
    write_document(document(ODD), path)

    assert openpyxl.load_workbook(path)["rows"]["A2"].value == "a" + "\ufffd" * 4 + "b 😀"


@pytest.mark.parametrize("suffix", [".html", ".md", ".csv"])
def test_a_page_replaces_what_utf_8_cannot_encode(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"report{suffix}"
    write_document(document(ODD), path)

    assert "a?\ufffe\uffff\x00b 😀" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["# a", "- a", "+ a", "---", "12. a", "`a`", "~~a~~", "[a](b)"])
def test_a_paragraph_of_markdown_stays_text(tmp_path: Path, text: str) -> None:
    path = tmp_path / "report.md"
    write_document(document(text), path)

    paragraph = path.read_text(encoding="utf-8").splitlines()[2]
    assert paragraph != text
    assert paragraph.replace("\\", "") == text
