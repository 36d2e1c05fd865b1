"""``temper campaign fork``, ``rewind`` and ``start --path``: going back to a step of a campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from services.contracts.campaigns.loops import StepName
from temper.cli.gateway import connect
from temper.cli.output import JsonOption, Output

if TYPE_CHECKING:
    from services.contracts.campaigns.campaigns import Campaign

CampaignId = Annotated[str, typer.Argument(metavar="ID")]
LoopOption = Annotated[int, typer.Option(min=1, max=1000, help="Number of the loop to go back to.")]
StepOption = Annotated[StepName, typer.Option(help="First step of the loop to repeat.")]


def fork(
    campaign_id: CampaignId,
    loop: LoopOption,
    step: StepOption = StepName.PROPOSAL,
    loops: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum attempts of the new campaign, shared ones included."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a campaign that shares all but a step and what follows from it; this one stays."""
    from services.contracts.campaigns.campaigns import ForkCampaign

    with connect() as client:
        budget = client.campaigns.get(campaign_id).budget
        if loops is not None:
            budget = budget.model_copy(update={"loops": loops})
        request = ForkCampaign(loop=loop, step=step, budget=budget)
        _show(client.campaigns.fork(campaign_id, request), as_json)


def rewind(
    campaign_id: CampaignId,
    loop: LoopOption,
    step: StepOption = StepName.PROPOSAL,
    as_json: JsonOption = False,
) -> None:
    """Clear a step of a waiting or paused campaign, and what follows from it, to take it again."""
    from services.contracts.campaigns.campaigns import RewindCampaign

    with connect() as client:
        request = RewindCampaign(loop=loop, step=step)
        _show(client.campaigns.rewind(campaign_id, request), as_json)


def go_back(
    place: str, checkout: bool, base_model: str | None, budget: dict[str, Any], as_json: bool
) -> None:
    """Rewind a campaign to a step, ``ID/LOOP[/STEP]``, or fork it there without ``checkout``.

    ``base_model``, if given, must be the campaign's.
    """
    from services.contracts.campaigns.campaigns import ForkCampaign, RewindCampaign
    from temper.submission.draft import Draft

    campaign, loop, step = _place(place)
    draft = Draft({"loop": loop, "step": step})
    with connect() as client:
        found = client.campaigns.get(campaign)
        if base_model not in {None, found.base_model}:
            raise typer.BadParameter(
                f"the base model of {campaign} is {found.base_model}", param_hint="--base-model"
            )
        if checkout:
            _show(client.campaigns.rewind(campaign, draft.request(RewindCampaign)), as_json)
            return
        draft.body["budget"] = budget
        _show(client.campaigns.fork(campaign, draft.request(ForkCampaign)), as_json)


def _place(text: str) -> tuple[str, int, str]:
    campaign, _, rest = text.partition("/")
    loop, _, step = rest.partition("/")
    if not campaign or not loop.isascii() or not loop.isdigit():
        raise typer.BadParameter(
            f"{text!r} is not ID/LOOP[/STEP], such as campaign-1/2/coding", param_hint="--path"
        )
    return campaign, int(loop), step or StepName.PROPOSAL.value


def _show(campaign: Campaign, as_json: bool) -> None:
    out = Output(as_json)
    if as_json:
        out.document(campaign)
    else:
        out.line(campaign.id)
        out.note(f"follow it:  temper campaign logs -f {campaign.id}", "dim")
