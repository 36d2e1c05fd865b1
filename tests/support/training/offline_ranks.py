"""The loss of one batch of each preference stage, shared by the processes of torch's launcher,
and evaluations of rows that the processes cannot share equally.

    python -m torch.distributed.run --nproc-per-node=N \
        --module tests.support.training.offline_ranks BASE FOLDER SITE_PACKAGES

writes ``losses.json``: by stage the mean of the processes' losses, and the evaluations' metrics.
Each process has an equal part of four rows; of two, the first has no desirable row.
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
VALIDATION_ROWS = 5
MEANS = {
    Stage.SFT: {"eval_loss", "eval_accuracy"},
    Stage.PT: {"eval_loss"},
    Stage.DPO: {"eval_loss", "eval_rewards/margins", "eval_rewards/accuracies"},
    Stage.KTO: {"eval_rewards/margins", "eval_count/chosen", "eval_count/rejected"},
    Stage.RM: {"eval_loss", "eval_rewards/margins"},
}
"""Metrics of evaluations that are means over rows or tokens."""


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


def evaluation_of(stage: Stage, base: Path, folder: Path) -> dict[str, float]:
    """The metrics of five rows in batches of two, of which two processes fill up the last ones."""
    folder.mkdir(parents=True, exist_ok=True)
    validation = folder / "validation.jsonl"
    if os.environ["RANK"] == "0":  # which prepares the data for all
        rows = rows_of(stage, VALIDATION_ROWS)
        validation.write_text("".join(json.dumps(row) + "\n" for row in rows))
    job = OfflineJob(folder / "job", base, stage, validation_data={"path": str(validation)})
    with pytest.MonkeyPatch.context() as patch:
        trainer = job.trainer(patch)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.02)
    found = trainer.evaluate()
    kept = {name: found[name] for name in found if name in MEANS[stage]}
    assert len(kept) == len(MEANS[stage])
    return {f"{stage.value} {name}": value for name, value in kept.items()}


def main() -> None:
    base, folder = map(Path, sys.argv[1:3])
    stages = (Stage.DPO, Stage.KTO, Stage.RM)
    losses = {stage.value: loss_of(stage, base, folder / stage.value) for stage in stages}
    for stage in MEANS:
        losses |= evaluation_of(stage, base, folder / f"{stage.value} evaluated")
    if os.environ["RANK"] == "0":
        (folder / "losses.json").write_text(json.dumps(losses))
    torch.distributed.destroy_process_group()
    end_process(0)


if __name__ == "__main__":
    main()
