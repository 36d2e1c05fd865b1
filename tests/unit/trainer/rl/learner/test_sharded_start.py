"""How the processes of a sharded learner come to their weights."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from services.trainer.rl.learner.learner import Learner
from services.trainer.rl.learner.model import LanguageModel, load_learner_model
from services.trainer.rl.learner.parallel import ProcessGroup, WeightReceiver
from services.trainer.rl.learner.protocol import Export, LearnerSpec
from tests.support.learning import learner_spec

CPU = torch.device("cpu")


@pytest.fixture(params=[False, True], ids=["untied", "tied"])
def stored(request: pytest.FixtureRequest, base: Path, tmp_path: Path) -> Path:
    """A model of tied or untied embeddings."""
    config = AutoConfig.from_pretrained(base)
    config.tie_word_embeddings = request.param
    torch.manual_seed(3)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "stored")
    return tmp_path / "stored"


def received(spec: LearnerSpec) -> tuple[LanguageModel, LanguageModel]:
    """The main process's model, and that of another process after it received its weights; layers
    first, as when they are sharded."""
    sent: list[Tensor] = []
    main = load_learner_model(spec, bf16=False)
    share(main, lambda tensor: sent.append(tensor.clone()))
    other = load_learner_model(spec, bf16=False, empty=True)
    assert all(each.is_meta for each in other.model.parameters())
    arriving: Iterator[Tensor] = iter(sent)
    share(other, lambda tensor: tensor.copy_(next(arriving)))
    assert next(arriving, None) is None
    return main, other


def share(model: LanguageModel, broadcast: Any) -> None:
    weights = WeightReceiver(CPU, broadcast)
    for module in [each for each in model.modules() if model.is_layer(each)]:
        weights.receive(module)
    weights.receive(model)


def log_probs(model: LanguageModel) -> Tensor:
    token_ids = torch.arange(1, 9).reshape(2, 4)
    with torch.no_grad():
        return model.logits(model.hidden(token_ids)).log_softmax(-1)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("reinforcement", {}),
        ("reinforcement", {"training_type": "lora", "lora": {"rank": 4}}),
        ("ppo", {}),
        ("ppo", {"critic": {"kind": "shared"}}),
    ],
    ids=["full", "lora", "critic", "shared critic"],
)
def test_processes_without_weights_receive_those_of_the_main_process(
    method: str, settings: dict[str, Any], stored: Path, tmp_path: Path
) -> None:
    main, other = received(learner_spec(stored, method, tmp_path, **settings))

    expected, found = main.state_dict(), other.state_dict()
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    trained = {name for name, each in main.named_parameters() if each.requires_grad}
    assert {name for name, each in other.named_parameters() if each.requires_grad} == trained
    assert torch.equal(log_probs(other), log_probs(main))


def test_tied_embeddings_stay_tied(stored: Path, tmp_path: Path) -> None:
    is_tied = AutoConfig.from_pretrained(stored).tie_word_embeddings

    for model in received(learner_spec(stored, "reinforcement", tmp_path)):
        embeddings = model.causal.get_input_embeddings().weight
        assert (model.causal.get_output_embeddings().weight is embeddings) is is_tied


@pytest.mark.parametrize("training_type", ["lora", "full"])
def test_an_adapter_that_is_continued_is_received_too(
    training_type: str, base: Path, tmp_path: Path
) -> None:
    lora = {"training_type": "lora", "lora": {"rank": 4}}
    begun = learner_spec(base, "reinforcement", tmp_path, **lora)
    learner = Learner(begun, ProcessGroup(begun.settings.optimizer))
    learner.answer(Export(folder=tmp_path / "adapter"))
    settings = lora if training_type == "lora" else {}
    spec = learner_spec(base, "reinforcement", tmp_path, **settings)

    main, other = received(spec.model_copy(update={"adapter": tmp_path / "adapter"}))

    assert main.state_dict().keys() == other.state_dict().keys()
    assert torch.equal(log_probs(other), log_probs(main))
