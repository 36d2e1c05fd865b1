"""The seams between LLaMA-Factory 0.9.5 and newer libraries: still needed, and closed."""

from importlib.util import find_spec, module_from_spec
from pathlib import Path

import pytest

from services.contracts.llamafactory.names import Stage
from services.trainer.offline.library.internals import llamafactory_module
from tests.support.training.offline import OfflineJob


def test_the_library_refuses_the_installed_transformers_when_it_may() -> None:
    """With 5.19.0: "transformers>=4.55.0,<=5.6.0 is required for a normal functioning"."""
    spec = find_spec("llamafactory.extras.misc")
    assert spec is not None
    assert spec.loader is not None
    original = module_from_spec(spec)
    spec.loader.exec_module(original)

    with pytest.raises(ImportError, match=r"transformers>=4\.55\.0,<=5\.6\.0 is required"):
        original.check_dependencies()
    assert llamafactory_module("hparams.parser").get_train_args is not None


def test_transformers_sees_no_torchaudio_in_the_empty_module() -> None:
    """With 0.9.5: "No module named 'torchaudio'" from the module that prepares data."""
    import transformers.utils

    assert llamafactory_module("data.mm_plugin").torchaudio.__spec__.loader is None
    assert not transformers.utils.is_torchaudio_available()


def test_gradient_checkpointing_changes_no_loss(base: Path, tmp_path: Path) -> None:
    """With transformers 5.24.0: "'function' object has no attribute '__self__'", since a layer
    is then checkpointed as ``partial(forward, self)``. Up to 5.19.0 nothing needs mending."""
    plain, checkpointed = (
        OfflineJob(
            tmp_path / str(off),
            base,
            Stage.SFT,
            method="lora",
            arguments={"logging_steps": 1, "disable_gradient_checkpointing": off},
        )
        for off in (True, False)
    )

    plain.run()
    checkpointed.run()

    assert checkpointed.losses() == pytest.approx(plain.losses(), abs=1e-6)
