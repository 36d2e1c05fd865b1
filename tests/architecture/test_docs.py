"""The documentation matches the tree: links, paths, generated parts and example files."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from infra.tables.settings import READERS
from services.api.settings import ApiSettings
from services.api.tool_routes import sandbox
from services.contracts.campaigns.llms import LlmRole
from services.contracts.jobs import JobStatus
from services.core.process.runtimes import REPOSITORY
from temper.settings import ClientSettings
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
SOURCES = ("services", "temper", "infra", "benchmarks", "examples", "docker-compose.yml")
"""Where a name in the documentation can be from."""
FAMILIES = REPOSITORY / "docs/training/families.md"
"""Written by a test of the installed libraries, whose types of models it names."""
OF_OTHERS = {
    *("cache_control", "encoding_format", "truncate_prompt_tokens"),  # of requests to engines
    "api_base",  # of LiteLLM
    *("part_aa", "part_ab"),  # of a published corpus
    *("eval_chat_loss", "eval_exact_match"),  # a loss or score, by the name that a user chose
}
"""Names that no source has."""

_LINK = re.compile(r"\[[^\]]*\]\((?!https?://|mailto:)([^)\s]+)\)")
_PATH = re.compile(
    r"(?<![\w/.$-])((?:services|temper|infra|tests|benchmarks|examples|docs)/[\w./*-]*[\w*/])"
)
_NAME = re.compile(r"`([a-z][a-z0-9]*(?:_[a-z0-9]+)+)`")
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


@pytest.fixture(scope="module")
def words_of_the_sources() -> set[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *SOURCES]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    readable = {".py", ".js", ".html", ".yaml", ".yml", ".json", ".toml", ".sh", ".md"}
    paths = [REPOSITORY / name for name in listed.stdout.splitlines()]
    texts = (path.read_text() for path in paths if path.suffix in readable and path.is_file())
    return {word for text in texts for word in re.findall(r"\w+", text.lower())}


@pytest.mark.parametrize("page", [page for page in PAGES if page != FAMILIES], ids=ids_of)
def test_every_named_field_code_and_metric_exists(
    page: Path, words_of_the_sources: set[str]
) -> None:
    named = set(_NAME.findall(without_code_blocks(page.read_text())))

    assert sorted(named - words_of_the_sources - OF_OTHERS) == []


def test_names_of_others_are_in_no_source(words_of_the_sources: set[str]) -> None:
    assert OF_OTHERS & words_of_the_sources == set()


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


@pytest.mark.parametrize(
    "settings", [ClientSettings, *dict(READERS)], ids=lambda each: each.__name__
)
def test_the_page_of_settings_lists_each_variable(settings: type[BaseModel]) -> None:
    page = (REPOSITORY / "docs/operations/settings.md").read_text()
    variables = {f"TEMPER_{name.upper()}" for name in settings.model_fields}

    assert sorted(name for name in variables if f"| `{name}` |" not in page) == []


def test_the_page_of_the_sandbox_says_what_the_gateway_forwards(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs/sandbox.md").read_text()
    rows = re.findall(r"^\| `(?:[A-Z]+ )?(/[\w/]+)` \|.*\| (yes|no) \|$", page, re.MULTILINE)
    forwarded = {route.path for route in sandbox(ApiSettings(home=tmp_path)).routes}

    assert len(rows) > len(forwarded)
    assert {path for path, answer in rows if answer == "yes"} == forwarded


def test_the_readme_is_short() -> None:
    assert len((REPOSITORY / "README.md").read_bytes()) <= MAX_README_BYTES


@pytest.mark.service
@pytest.mark.parametrize("script", [["-m", "infra.tables"], ["infra/docs/sequence.py"]], ids=str)
def test_generated_parts_are_current(script: list[str]) -> None:
    command = [sys.executable, *script, "--check"]

    assert subprocess.run(command, cwd=REPOSITORY, check=False).returncode == 0
