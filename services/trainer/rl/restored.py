"""Groups that a checkpoint holds because they were drawn but not used."""

from services.trainer.rl.checkpoints import Checkpoint
from services.trainer.rl.draws import Draws
from services.trainer.rl.groups import Group
from services.trainer.rl.player import GroupRules


def restored_groups(checkpoint: Checkpoint | None, draws: Draws, rules: GroupRules) -> list[Group]:
    """The groups, with the samples that they had."""
    if checkpoint is None:
        return []
    groups = {
        pending.number: Group(
            number=pending.number,
            prompt=draws.at(pending.number).prompt,
            size=rules.samples,
            started=pending.started,
            rewarded=rules.rewarded,
        )
        for pending in checkpoint.position().groups
    }
    for sample in checkpoint.samples():
        groups[sample.group].samples[sample.trajectory.sample_index] = sample.trajectory
    return list(groups.values())
