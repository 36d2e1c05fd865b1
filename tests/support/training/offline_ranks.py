"""The loss of one batch of each preference stage, shared by the processes of torch's launcher.

    python -m torch.distributed.run --nproc-per-node=N \
        --module tests.support.training.offline_ranks BASE FOLDER SITE_PACKAGES

writes ``losses.json``: by stage the mean of the processes' losses. Each process has an equal part
of four rows; of two, the first has no desirable row.
"""

import json
import os
import sys
from pathlib import Path

# Behind the runtime's own packages, for pytest.
sys.path.append(sys.argv[3])

import pytest
import torch
import torch.distributed

from services.contracts.llamafactory.names import Stage
from services.trainer.ranks import end_process
from tests.support.training.offline import OfflineJob, rows_of

ROWS = 4


def loss_of(stage: Stage, base: Path, folder: Path) -> float:
    """The loss of the batch over all processes."""
    rows = sorted(rows_of(stage, ROWS), key=lambda row: row.get("label", False))
    with pytest.MonkeyPatch.context() as patch:
        trainer = OfflineJob(folder, base, stage, rows=rows).trainer(patch)
    rank, processes = trainer.accelerator.process_index, trainer.accelerator.num_processes
    share = ROWS // processes
    mine = range(rank * share, (rank + 1) * share)
    batch = trainer.data_collator([trainer.train_dataset[index] for index in mine])
    model = trainer.model.eval()
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.02)
        loss = trainer.compute_loss(model, batch)
    return float(trainer.accelerator.gather(loss.detach()).mean())


def main() -> None:
    base, folder = map(Path, sys.argv[1:3])
    stages = (Stage.DPO, Stage.KTO, Stage.RM)
    losses = {stage.value: loss_of(stage, base, folder / stage.value) for stage in stages}
    if os.environ["RANK"] == "0":
        (folder / "losses.json").write_text(json.dumps(losses))
    torch.distributed.destroy_process_group()
    end_process(0)


if __name__ == "__main__":
    main()
