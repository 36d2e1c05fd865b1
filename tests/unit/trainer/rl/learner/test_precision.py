"""The precision of what a learner computes in bfloat16."""

from pathlib import Path

import pytest
import torch

from services.trainer.rl.learner.learner import Learner
from services.trainer.rl.learner.model import load_frozen
from services.trainer.rl.learner.parallel import ProcessGroup
from tests.support.training.learning import learner_spec

TOKEN_IDS = torch.arange(1, 9)


@pytest.mark.parametrize("training_type", ["full", "lora"])
def test_logits_of_a_bfloat16_model_have_the_precision_of_float32(
    training_type: str, base: Path, tmp_path: Path
) -> None:
    spec = learner_spec(
        base, "reinforcement", tmp_path, dtype="bfloat16", training_type=training_type
    )
    model = Learner(spec, ProcessGroup(spec.settings.optimizer))._plain

    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        states = model.hidden(TOKEN_IDS, [8])
        logits = model.logits(states)

    head = model.causal.get_output_embeddings().weight.detach()
    torch.testing.assert_close(logits, states.float() @ head.float().T)
    assert (logits != logits.bfloat16()).any()


def test_logits_of_a_frozen_bfloat16_model_have_the_precision_of_float32(base: Path) -> None:
    model = load_frozen(base, None, bf16=True)

    with torch.no_grad():
        logits = model.logits(model.hidden(TOKEN_IDS, [8]))

    assert logits.dtype == torch.float32
    assert (logits != logits.bfloat16()).any()
