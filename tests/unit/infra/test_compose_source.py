import pytest

from infra.core.command import REPOSITORY
from infra.testing.compose import OLDEST, SOURCES, archive_of, is_recent, source_lines

INDEXES = """\
'http://mirror.example/debian-security/dists/bookworm-security/InRelease' a 0
'http://mirror.example/debian/dists/bookworm-updates/InRelease' b 0
'http://mirror.example/debian/dists/bookworm/InRelease' c 0
"""


@pytest.mark.parametrize(
    ("release", "archive"),
    [("bookworm", "http://mirror.example/debian"), ("trixie", None), ("", None)],
)
def test_the_archive_comes_from_apts_configuration(release: str, archive: str | None) -> None:
    assert archive_of(INDEXES, release) == archive


@pytest.mark.parametrize(
    ("version", "recent"),
    [
        ("2.26.1-4\n", True),
        ("v2.24.0", True),
        ("5.0.1", True),
        ("2.23.3", False),
        ("1.29.2", False),
        ("", False),
    ],
)
def test_an_older_compose_counts_as_missing(version: str, recent: bool) -> None:
    assert is_recent(version) is recent


def test_operators_are_told_of_the_oldest_compose() -> None:
    page = (REPOSITORY / "docs" / "operations" / "docker.md").read_text()
    assert f"Compose {'.'.join(map(str, OLDEST))}\nor newer" in page


def test_debian_uses_the_release_that_packages_compose() -> None:
    (line,) = source_lines(SOURCES["debian"], "http://mirror.example/debian", "bookworm").split(
        "\n"
    )[:-1]
    assert line.endswith("http://mirror.example/debian trixie main")


def test_ubuntu_uses_its_own_release() -> None:
    lines = source_lines(SOURCES["ubuntu"], "http://mirror.example/ubuntu", "noble").splitlines()
    assert [line.split()[-2:] for line in lines] == [
        ["noble", "universe"],
        ["noble-updates", "universe"],
    ]
