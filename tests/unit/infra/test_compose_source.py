import pytest

from infra.testing.compose import SOURCES, archive_of, source_lines

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
