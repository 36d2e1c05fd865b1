"""Paths given by clients stay below the work directory."""

import base64
import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.errors import Unprocessable
from services.sandbox.wire import clean_path, clean_paths, decode_content, decode_files

PARTS = st.sampled_from(["a", "b.txt", ".", "..", "", "...", " ", "\n", "é", "x" * 255, "x" * 256])
PATHS = st.one_of(st.text(max_size=40), st.lists(PARTS, max_size=6).map("/".join))


@given(PATHS)
def test_every_accepted_path_stays_below_the_work_directory(path: str) -> None:
    try:
        clean = clean_path(path, "files")
    except Unprocessable:
        return
    place = posixpath.normpath(posixpath.join("/top", clean))
    assert place == f"/top/{clean}"
    assert place.startswith("/top/")
    assert "\0" not in clean


@given(st.lists(st.sampled_from(["a", "b.txt", "deep", "..."]), min_size=1, max_size=6))
def test_plain_relative_paths_are_unchanged(parts: list[str]) -> None:
    path = "/".join(parts)

    assert clean_path(path, "files") == path


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/etc/passwd", "is absolute"),
        ("../up", "leads outside"),
        ("a/../../b", "leads outside"),
        ("..", "leads outside"),
        ("", "empty component"),
        ("a//b", "empty component"),
        ("folder/", "empty component"),
        (".", "names a folder"),
        ("a/.", "names a folder"),
        ("nul\0", "NUL"),
        ("x" * 256, "255 bytes"),
        ("é" * 128, "255 bytes"),
        ("/".join(["abcdefg"] * 200), "1024 bytes"),
    ],
)
def test_invalid_paths_are_rejected_with_a_reason(path: str, reason: str) -> None:
    with pytest.raises(Unprocessable) as refusal:
        clean_paths([path], "fetch_files")

    assert reason in refusal.value.message
    assert repr(path)[:100] in refusal.value.message
    assert refusal.value.param == "fetch_files"


def test_paths_are_normalized_and_their_spelling_is_kept() -> None:
    assert clean_paths(["./a/./b", "c"], "fetch_files") == {"a/b": "./a/./b", "c": "c"}


def test_the_number_of_patterns_is_limited() -> None:
    names = [f"{number}.txt" for number in range(500)]
    patterns = [f"{number}*.txt" for number in range(20)]

    assert len(clean_paths(names + patterns, "fetch_files")) == 520
    with pytest.raises(Unprocessable, match="more than 20 patterns"):
        clean_paths([*patterns, "*"], "fetch_files")


@given(st.binary(max_size=200))
def test_file_contents_arrive_unchanged(content: bytes) -> None:
    plain, in_lines = base64.b64encode(content), base64.encodebytes(content)

    assert decode_content(plain.decode(), "a", "files") == content
    assert decode_content(in_lines.decode(), "a", "files") == content


@pytest.mark.parametrize("content", ["a", "a===", "abc", "ab!d", "é===", "ab=d", "-_=="])
def test_invalid_base64_is_rejected_naming_the_path(content: str) -> None:
    with pytest.raises(Unprocessable, match=r"'in\.txt' is not base64"):
        decode_files({"in.txt": content}, "files")


def test_null_creates_no_file() -> None:
    assert decode_files({"a": None, "b": ""}, "files") == {"b": b""}


@pytest.mark.parametrize("paths", [("a", "./a"), ("a", "a/b"), ("d/e", "d/e/f/g"), ("a/b", "./a")])
def test_conflicting_paths_are_rejected(paths: tuple[str, str]) -> None:
    with pytest.raises(Unprocessable):
        decode_files(dict.fromkeys(paths, ""), "files")
