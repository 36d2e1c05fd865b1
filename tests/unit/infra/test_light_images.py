"""The images of the long test of the whole stack, without an engine that builds them."""

import re
from importlib.util import find_spec
from pathlib import Path

from tests.support.docker.light_images import STUB_SOURCES, STUBS, lightened
from tests.support.processes import REPOSITORY


def test_the_images_are_made_of_files_that_exist() -> None:
    text = lightened((REPOSITORY / "Dockerfile").read_text()).replace("\\\n", " ")
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    sources = {source for line in copies for source in line.split()}
    assert set(STUB_SOURCES) <= sources
    assert [each for each in sources if not (REPOSITORY / each).exists()] == []


def test_the_stand_ins_of_workers_are_in_the_images() -> None:
    copied = {
        file
        for source in map(REPOSITORY.joinpath, STUB_SOURCES)
        for file in (source.rglob("*.py") if source.is_dir() else [source])
    }
    seen: set[str] = set()
    left = list(STUBS.values())
    while left:
        module = left.pop()
        seen.add(module)
        spec = find_spec(module)
        assert spec is not None, module
        assert spec.origin is not None
        assert Path(spec.origin) in copied, module
        text = Path(spec.origin).read_text()
        imported = re.findall(r"^from (tests\.\S+) import", text, re.MULTILINE)
        left += [each for each in imported if each not in seen]
    assert len(seen) > len(STUBS)
