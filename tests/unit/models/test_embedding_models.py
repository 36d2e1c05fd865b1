"""Which models compute embeddings."""

import json
from pathlib import Path

import pytest

from services.models.embedding_models import computes_embeddings


@pytest.mark.parametrize(
    ("architectures", "expected"),
    [
        (["BertModel"], True),
        (["T5EncoderModel"], True),
        (["Qwen3ForCausalLM"], False),
        (["Qwen2_5_VLForConditionalGeneration"], False),
        (["GPT2LMHeadModel"], False),
        (["Something"], None),
        ([], None),
        (None, None),
    ],
)
def test_the_architecture_tells(
    tmp_path: Path, architectures: list[str] | None, expected: bool | None
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": architectures}))

    assert computes_embeddings(tmp_path) is expected


def test_a_sentence_transformer_embeds_whatever_its_architecture_is(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["Qwen3ForCausalLM"]}))
    (tmp_path / "modules.json").write_text("[]")

    assert computes_embeddings(tmp_path) is True


@pytest.mark.parametrize("text", ["", "[]", '{"architectures": 3}'])
def test_files_that_do_not_tell(tmp_path: Path, text: str) -> None:
    assert computes_embeddings(None) is None
    assert computes_embeddings(tmp_path) is None

    (tmp_path / "config.json").write_text(text)
    assert computes_embeddings(tmp_path) is None
