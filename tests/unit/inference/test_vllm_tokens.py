"""The count of an engine's tokens, by which a long generation shows progress."""

from services.inference.vllm.server import token_count

EXPOSITION = """\
# HELP vllm:generation_tokens_total Number of generation tokens processed.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="base"} 1200.0
vllm:generation_tokens_total{engine="1",model_name="base"} 30.0
vllm:generation_tokens_created{engine="0",model_name="base"} 1.7e+09
vllm:prompt_tokens_total{engine="0",model_name="base"} 8.0
vllm:prompt_tokens_cached_total{engine="0",model_name="base"} 5.0
"""


def test_read_and_generated_tokens_of_all_engines_are_counted() -> None:
    assert token_count(EXPOSITION) == 1238.0


def test_an_exposition_without_counters_counts_nothing() -> None:
    assert token_count("") == 0.0
