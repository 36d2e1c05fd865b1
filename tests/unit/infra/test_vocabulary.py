import pytest

from infra.vocabulary import words_in


@pytest.mark.parametrize(
    ("line", "better"),
    [
        ("def _optimise(self) -> None:", "-ize, -ization"),
        ("the behaviours of a queue", "behavior"),
        ("x is no valid name", "is not a"),
        ("a tokenizer that cannot be had", "is not available, cannot be downloaded"),
    ],
)
def test_a_word_is_found_with_its_replacement(line: str, better: str) -> None:
    assert [written for _, _, written in words_in(line)] == [better]


def test_every_occurrence_is_located_but_in_lines_that_refuse_a_name() -> None:
    text = "\u0130 Anew,\nthe Colours of anew.\n# renamed from colour"
    found = sorted(words_in(text))
    assert [(position, word) for position, word, _ in found] == [
        (2, "Anew"),
        (12, "Colours"),
        (23, "anew"),
    ]


@pytest.mark.parametrize(
    "line",
    ["there is no job", "it is no longer queued", "optimizer", "the player played on", "promise"],
)
def test_other_words_are_accepted(line: str) -> None:
    assert list(words_in(line)) == []
