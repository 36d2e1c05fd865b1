"""Datasets of a hub: they are asked for before anything slow is imported, so that a wrong name
fails in seconds."""

from pathlib import Path

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import RemoteEntryNotFoundError

from services.trainer.hub import explained
from services.trainer.sft.dataset import prepared_data
from services.trainer.sft.spec import TrainingSpec

_README = "README.md"


def check_datasets(spec: TrainingSpec, data_dir: Path) -> None:
    """Raise TrainingFailure, naming it, for a hub dataset that is not there or not readable.

    Nothing is asked once an earlier attempt has prepared the data in ``data_dir``.
    """
    if prepared_data(data_dir, spec) is not None:
        return
    sources = {"training_file": spec.training_data, "validation_file": spec.validation_data}
    for param, source in sources.items():
        if source is None or source.hub_name is None:
            continue
        what = f"dataset {source.hub_name!r}"
        with explained(what, None, code="dataset_load_failed", param=param):
            try:
                hf_hub_download(source.hub_name, _README, repo_type="dataset")
            except RemoteEntryNotFoundError:
                continue  # the dataset is there, only without a card
