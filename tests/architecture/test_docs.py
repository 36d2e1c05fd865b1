"""The documentation matches the tree: links, paths, generated parts and example files."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.contracts.campaigns.llms import LlmRole
from services.contracts.jobs import JobStatus
from services.core.process.runtimes import REPOSITORY
from temper.stack.services import Service
from tests.support.docs.blocks import without_code_blocks

PAGES = sorted(
    path
    for top in REPOSITORY.iterdir()
    if not top.name.startswith(".")
    for path in ([top] if top.is_file() else top.rglob("*.md"))
    if path.suffix == ".md"
)
"""All pages of the repository; environments and data are in hidden folders."""
RUNTIMES = REPOSITORY / "infra/runtimes"
MAX_README_BYTES = 6 * 1024

_LINK = re.compile(r"\[[^\]]*\]\((?!https?://|mailto:)([^)\s]+)\)")
_PATH = re.compile(
    r"(?<![\w/.$-])((?:services|temper|infra|tests|benchmarks|examples|docs)/[\w./*-]*[\w*/])"
)
_MODULE = re.compile(r"python -m (benchmarks[\w.]*)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def ids_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def anchor(heading: str) -> str:
    """The anchor that GitHub and MyST give a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return kept.strip().replace(" ", "-")


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, fragment = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return False
    return not fragment or fragment in map(anchor, _HEADING.findall(target.read_text()))


def mentioned_paths(text: str) -> Iterator[str]:
    yield from (match[1].rstrip(".") for match in _PATH.finditer(text))
    for module in _MODULE.findall(text):
        path = module.replace(".", "/")
        yield path if (REPOSITORY / path).is_dir() else f"{path}.py"


@pytest.mark.parametrize("page", PAGES, ids=ids_of)
def test_every_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    links = _LINK.findall(without_code_blocks(page.read_text()))

    dead = [link for link in links if not leads_somewhere(page, link)]

    assert dead == []


@pytest.mark.parametrize("page", PAGES, ids=ids_of)
def test_every_mentioned_path_exists(page: Path) -> None:
    paths = set(mentioned_paths(page.read_text()))

    assert sorted(path for path in paths if not list(REPOSITORY.glob(path))) == []


@pytest.mark.parametrize(
    ("term", "names"),
    [
        ("status", {status.value for status in JobStatus}),
        ("runtime", {path.parent.name for path in RUNTIMES.glob("*/runtime.toml")}),
        ("role (of an LLM)", {role.value for role in LlmRole}),
        ("service", {service.value for service in Service}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_glossary_names_each_value_of_a_term(term: str, names: set[str]) -> None:
    rows = (REPOSITORY / "docs/glossary.md").read_text().splitlines()
    meaning = next(row.split(" | ")[1] for row in rows if row.startswith(f"| {term} |"))

    assert set(re.findall(r"`(\w+)`", meaning)) == names


def test_the_readme_is_short() -> None:
    assert len((REPOSITORY / "README.md").read_bytes()) <= MAX_README_BYTES


@pytest.mark.service
@pytest.mark.parametrize("script", [["-m", "infra.tables"], ["infra/docs/sequence.py"]], ids=str)
def test_generated_parts_are_current(script: list[str]) -> None:
    command = [sys.executable, *script, "--check"]

    assert subprocess.run(command, cwd=REPOSITORY, check=False).returncode == 0
