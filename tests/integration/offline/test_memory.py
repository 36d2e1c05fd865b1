"""Measured peaks of trainings of small decoders: against the estimate, and without whole logits."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.memory import __main__ as command
from benchmarks.memory import learner, offline
from benchmarks.memory.cases import Case
from benchmarks.memory.models import make_model
from benchmarks.memory.peak import Measured
from services.models.capacity.shape import ModelShape, read_shape
from services.models.capacity.training import FLOAT32_BYTES, held_bytes
from services.trainer.forward import output_layer

CASES: list[dict[str, Any]] = [
    {"method": "sft", "length": 256},
    {"method": "sft", "checkpointing": False},
    {"method": "sft", "precision": "float32"},
    {"method": "sft", "precision": "pure_bf16", "checkpointing": False},
    {"method": "sft", "optimizer": "sgd"},
    {"method": "sft", "training_type": "lora", "checkpointing": False, "length": 256},
    {"method": "dpo", "checkpointing": False},
    {"method": "dpo", "training_type": "lora", "length": 256},
    {"method": "kto", "training_type": "lora"},
    {"method": "rm", "checkpointing": False},
    {"method": "grpo", "length": 256},
    {"method": "grpo", "checkpointing": False, "precision": "float32"},
    {"method": "grpo", "training_type": "lora"},
    {"method": "grpo", "training_type": "lora", "checkpointing": False, "length": 256},
]
MANY_WORDS: dict[str, Any] = {
    **{"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64},
    **{"num_attention_heads": 1, "num_key_value_heads": 1, "vocab_size": 20_000},
    **{"tie_word_embeddings": False},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model("tiny", tmp_path_factory.mktemp("tiny"))


def peak(case: Case, model: Path, folder: Path) -> int:
    """The most bytes of tensors that were alive in a step."""
    measure = learner.measure if case.method == "grpo" else offline.measure
    return measure(case, model, folder).peak


def shape_of(model: Path) -> ModelShape:
    shape = read_shape(model)
    assert shape is not None
    return shape


@pytest.mark.parametrize("settings", CASES, ids=lambda each: " ".join(map(str, each.values())))
def test_the_estimate_is_the_measured_peak_within_15_percent(
    settings: dict[str, Any], model: Path, tmp_path: Path
) -> None:
    case = Case.model_validate({"length": 128, "rows": 4, **settings})

    measured = peak(case, model, tmp_path)

    assert case.estimated_bytes(shape_of(model)) == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize("method", ["sft", "dpo", "kto", "rm", "grpo"])
def test_a_step_needs_less_than_half_of_its_logits(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond what is held; passes of a reference and entropies included."""
    words = MANY_WORDS["vocab_size"]
    monkeypatch.setattr("benchmarks.memory.models.SHAPES", {"words": MANY_WORDS})
    monkeypatch.setattr(output_layer, "MAX_LOGITS", 8 * words)
    model = make_model("words", tmp_path / "model")
    case = Case.model_validate({"method": method, "length": 512, "rows": 2})

    measured = peak(case, model, tmp_path)

    whole = FLOAT32_BYTES * words * case.length * case.rows
    assert measured - held_bytes(case.load(shape_of(model))) < whole / 2


@pytest.mark.parametrize(("share", "code"), [(1.0, 0), (0.5, 1)])
def test_the_command_compares_each_case_with_its_estimate(
    share: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(case: Case, model: Path) -> Measured:
        return Measured(int(share * case.estimated_bytes(shape_of(model))), 1234.5)

    line = ["memory", "tiny", "--lengths", "64", "128", "--only", "grpo lora, mixed", "kto"]
    monkeypatch.setattr(command, "measured_apart", measured)
    monkeypatch.setattr("sys.argv", line)

    assert command.main() == code

    lines = [each for each in capsys.readouterr().out.splitlines() if each.endswith("1,234")]
    assert len(lines) == 6
    assert lines[-1].startswith("grpo lora, mixed, recomputing, 2 x 128")
