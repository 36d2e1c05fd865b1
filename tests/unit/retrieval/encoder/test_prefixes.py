"""The prefixes that models expect."""

import pytest

from services.retrieval.encoder.models.loading import prefixes_of


@pytest.mark.parametrize(
    ("name", "query", "passage"),
    [
        ("intfloat/e5-small-v2", "query: ", "passage: "),
        ("intfloat/multilingual-e5-base", "query: ", "passage: "),
        ("/models/e5-large", "query: ", "passage: "),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        ("BAAI/bge-base-zh-v1.5", "为这个句子生成表示以用于检索相关文章：", ""),  # noqa: RUF001 - it is Chinese or Greek
        ("BAAI/bge-m3", "", ""),
        ("thenlper/gte-small", "", ""),
        ("sentence-transformers/all-MiniLM-L6-v2", "", ""),
        ("minilm", "", ""),
        ("someone/code5-small", "", ""),
    ],
)
def test_families_are_recognized_by_name(name: str, query: str, passage: str) -> None:
    prefixes = prefixes_of(name)

    assert (prefixes.query, prefixes.passage) == (query, passage)


@pytest.mark.parametrize(
    "name", ["intfloat/multilingual-e5-large-instruct", "Alibaba-NLP/gte-Qwen2-1.5B-instruct"]
)
def test_instruct_models_get_the_task_for_queries_only(name: str) -> None:
    prefixes = prefixes_of(name)

    assert prefixes.query.startswith("Instruct: ")
    assert prefixes.query.endswith("\nQuery: ")
    assert prefixes.passage == ""
