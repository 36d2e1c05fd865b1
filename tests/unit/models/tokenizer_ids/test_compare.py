"""Refusing models whose text has other ids in one runtime than in another."""

import json
from pathlib import Path

import pytest

from services.contracts.errors import InvalidRequest
from services.core.process.runtimes import Accelerator, Runtime
from services.models.tokenizer_ids import compare as module
from services.models.tokenizer_ids.compare import (
    RuntimeIds,
    TokenizerDiffers,
    check_built,
    check_equal_ids,
    compare,
)
from services.models.tokenizer_ids.prepared import vocabulary_of
from services.models.tokenizer_ids.words import (
    MOST_PROBED,
    check_told_words,
    spread_words,
)
from tests.support.models.tokenizer_kinds import KINDS

RUNTIMES = [
    Runtime(name, Path(f"/runtimes/{name}/bin/python"), "1", Accelerator.CPU)
    for name in ("training", "vllm")
]


def ids(name: str, *built: list[int], plain: list[list[int]] | None = None) -> RuntimeIds:
    return RuntimeIds(class_name=name, built=list(built), plain=plain)


def test_the_class_the_text_and_both_ids_are_named() -> None:
    found = {
        "training": ids("LlamaTokenizer", [1], [7, 9], plain=[[1], [7, 8]]),
        "vllm": ids("TokenizersBackend", [1], [7, 8], plain=[[1], [7, 8]]),
    }

    with pytest.raises(TokenizerDiffers) as raised:
        compare("tuned", ["a", " b"], found)

    assert (raised.value.code, raised.value.param) == ("tokenizer_differs", "model")
    for part in ("'tuned'", "' b'", "[7, 8]", "[7, 9]", "LlamaTokenizer", "training"):
        assert part in raised.value.message


def test_two_runtimes_are_compared_without_a_tokenizer_file() -> None:
    found = {"training": ids("A", [1]), "vllm": ids("B", [2])}

    with pytest.raises(TokenizerDiffers, match=r"A in the runtime training.*B in the runtime vllm"):
        compare("tuned", ["a"], found)


def test_a_runtime_that_cannot_load_a_tokenizer_is_left_to_its_jobs() -> None:
    compare("tuned", ["a"], {"training": ids("A", [1]), "vllm": RuntimeIds(error="no such class")})


def test_no_runtime_is_asked_where_the_file_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "encode_in", None)
    folder = KINDS["r1_distill_llama"].write(tmp_path / "model")

    check_equal_ids("tuned", folder, RUNTIMES, tmp_path / "home")


def test_each_runtime_is_asked_once_for_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def encode(python: Path, given: list[tuple[Path, list[str]]]) -> list[RuntimeIds]:
        asked.append(python)
        return [ids("A", *([len(text)] for text in texts)) for _, texts in given]

    monkeypatch.setattr(module, "encode_in", encode)
    folder = KINDS["llama3"].write(tmp_path / "model")
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "pad_token": "H"}))

    for _ in range(2):
        check_equal_ids("tuned", folder, RUNTIMES, tmp_path / "home")
    config.write_text(json.dumps({**json.loads(config.read_text()), "sep_token": "H"}))
    check_equal_ids("tuned", folder, RUNTIMES, tmp_path / "home")

    assert asked == [each.python for each in RUNTIMES] * 2


def test_words_that_are_probed_are_spread_over_the_vocabulary(tmp_path: Path) -> None:
    words = spread_words(KINDS["llama3"].write(tmp_path / "student"))

    known = vocabulary_of(tmp_path / "student")
    assert MOST_PROBED / 4 < len(words) <= MOST_PROBED
    assert max(words) > 0.9 * max(known.values())
    assert not any("\ufffd" in text for text in words.values())


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ({1: "a", 2: "b", 3: "c", 4: "d"}, None),
        ({1: "a", 2: "b", 3: "c"}, None),  # the teacher lacks an added token
        ({1: " a", 2: "b ", 3: "\ufffd", 4: "d"}, None),
        ({1: "a", 2: "x", 3: "c", 4: "y"}, "2 of 4 common ids differ: token 2 is ' b'"),
        ({1: "a"}, "cannot be compared: its server tells the text of 1 of 4 tokens"),
        ({}, "cannot be compared"),
    ],
)
def test_a_distant_teacher_must_tell_the_same_words(
    told: dict[int, str], problem: str | None
) -> None:
    words = {1: "a", 2: " b", 3: "c", 4: "d"}
    if problem is None:
        check_told_words(words, told, "teacher")
        return

    with pytest.raises(InvalidRequest, match=problem) as raised:
        check_told_words(words, told, "teacher")

    assert (raised.value.param, raised.value.code) == ("teacher", "vocabulary_differs")


def install(runtimes: Path, *names: str) -> None:
    """Runtimes whose programs the tests replace."""
    for name in names:
        python = runtimes / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.touch()
        (runtimes / name / "runtime.json").write_text('{"version": "1", "accelerator": "cpu"}')


@pytest.mark.parametrize("others", [["vllm"], []])
def test_a_model_without_a_tokenizer_file_is_compared_where_it_is_used(
    others: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    install(tmp_path / "runtimes", "training", *others)
    python = tmp_path / "runtimes" / "training" / "bin" / "python"

    def encode(python: Path, asked: list[tuple[Path, list[str]]]) -> list[RuntimeIds]:
        return [ids("A", *([len(str(python))] for _ in asked[0][1]))]

    monkeypatch.setattr(module, "encode_in", encode)
    check_built("published", folder, python)  # it has no tokenizer at all
    (folder / "tokenizer.model").touch()

    if not others:
        check_built("published", folder, python)
        return
    with pytest.raises(TokenizerDiffers, match=r"'published' is not the same everywhere.*vllm"):
        check_built("published", folder, python)
