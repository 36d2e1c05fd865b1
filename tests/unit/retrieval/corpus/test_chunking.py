"""Texts are split where a reader would split them, and nothing is lost."""

from hypothesis import given
from hypothesis import strategies as st

from services.retrieval.corpus.chunking import cut

texts = st.text(alphabet="ab. \n\t!?中文。é😀", max_size=400) | st.text(max_size=200)


@given(texts, st.integers(min_value=4, max_value=60))
def test_chunks_keep_all_text_and_the_size_limit(text: str, most: int) -> None:
    passages = list(cut(text, most))

    assert all(0 < len(passage.encode()) <= most for passage in passages)
    assert "".join("".join(passages).split()) == "".join(text.split())


def test_short_paragraphs_share_a_passage() -> None:
    assert list(cut("one\n\ntwo\n\n\nthree", 60)) == ["one\n\ntwo\n\nthree"]


def test_chunks_prefer_paragraph_boundaries() -> None:
    assert list(cut(f"{'a' * 30}\n\n{'b' * 30}", 40)) == ["a" * 30, "b" * 30]


def test_a_long_paragraph_is_split_after_a_sentence() -> None:
    text = "This is the first sentence. And this is the second one of them."

    assert list(cut(text, 40)) == [
        "This is the first sentence.",
        "And this is the second one of them.",
    ]


def test_text_without_spaces_is_split_after_its_own_full_stop() -> None:
    assert list(cut("你好世界。再见世界。", 18)) == ["你好世界。", "再见世界。"]


def test_words_are_not_split() -> None:
    assert list(cut("wonderful world of words", 16)) == ["wonderful world", "of words"]
