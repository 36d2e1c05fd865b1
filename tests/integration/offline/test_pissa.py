"""PiSSA adapters fit the base as it is on disk."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from services.contracts.llamafactory.names import Stage
from services.core.process.reporter import REPORTS
from tests.support.training.offline import OfflineJob

PISSA = {"pissa_init": True, "pissa_convert": True, "logging_steps": 1, "save_steps": 2}
PROBE = torch.tensor([[5, 17, 40, 99]])


class Killed(BaseException):
    """The process ends here."""


def job(folder: Path, base: Path, **changes: Any) -> OfflineJob:
    arguments = PISSA | changes.pop("arguments", {})
    settings = {"method": "lora", "lora": {"rank": 4}, "arguments": arguments}
    return OfflineJob(folder, base, Stage.SFT, **(settings | changes))


def logits(base: Path, adapter: Path | None = None) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    if adapter is not None:
        model = PeftModel.from_pretrained(model, str(adapter))
    with torch.inference_mode():
        result: torch.Tensor = model.eval()(PROBE).logits
    return result


@pytest.mark.parametrize("arguments", [{}, {"use_rslora": True}])
def test_an_untrained_adapter_leaves_the_base_unchanged(
    base: Path, tmp_path: Path, arguments: dict[str, Any]
) -> None:
    trained = job(tmp_path, base, learning_rate=1e-12, arguments=arguments | {"max_steps": 2})

    result = trained.run()

    adapter = tmp_path / result["model_dir"]
    assert not result["needs_merge"]
    assert json.loads((adapter / "adapter_config.json").read_bytes())["r"] == 8
    assert torch.allclose(logits(base, adapter), logits(base), atol=1e-4)


def test_a_resumed_training_and_its_checkpoints_have_the_adapter_of_an_unbroken_one(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, halved = job(tmp_path / "whole", base), job(tmp_path / "halved", base)
    expected = whole.run()

    def kill(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(halved.context.reporter, "checkpoint", kill)
        with pytest.raises(Killed):
            halved.run()
    resumed = job(tmp_path / "halved", base).run()

    assert halved.losses() == pytest.approx(whole.losses(), rel=1e-4)
    reports = map(json.loads, (tmp_path / "whole" / REPORTS).read_text().splitlines())
    *_, last = (each["path"] for each in reports if each["type"] == "checkpoint")
    folders = [
        tmp_path / "whole" / expected["model_dir"],
        tmp_path / "whole" / last,
        tmp_path / "halved" / resumed["model_dir"],
    ]
    final, of_checkpoint, of_resumed = (
        load_file(folder / "adapter_model.safetensors") for folder in folders
    )
    assert {name: weight.shape for name, weight in final.items()} == {
        name: weight.shape for name, weight in of_checkpoint.items()
    }
    assert all(torch.equal(final[name], of_checkpoint[name]) for name in final)
    assert all(torch.allclose(final[name], of_resumed[name], atol=1e-4) for name in final)
    assert not torch.allclose(logits(base, folders[0]), logits(base), atol=1e-2)
