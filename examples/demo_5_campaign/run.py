"""A campaign from data to its tree of attempts, small enough for two CPU cores.

Without an endpoint, a script stands in for the LLM. Training, evaluation and verdicts are real.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from examples.demo_5_campaign.data import CampaignData, write_data
from examples.demo_5_campaign.scripted_llm import MODEL, scripted_llm
from examples.demo_common.printer import Printer
from examples.demo_common.setup import local_stack, make_model
from examples.demo_common.steps import Demo
from temper.types import (
    CampaignBudget,
    CampaignDataset,
    CampaignLlm,
    CampaignReport,
    CreateCampaign,
    FilePurpose,
    NumericGrader,
    ReportedAttempt,
    Sampling,
)

BASE = "tiny-base"
LOOPS = 3


def run(home: Path, out: Printer, llm: CampaignLlm | None) -> bool:
    """Run the campaign; return whether its best model beats the base on the final part.

    Without ``llm``, a script stands in for it.
    """
    out.line("(a) a tiny base model, its data and the local stack")
    model = make_model(home, BASE, "demo_1_addition/model.py", [], out)
    data = write_data(home / "demo" / "campaign")
    with (
        _llm(llm, out) as endpoint,
        local_stack(home, out, endpoint.origin) as client,
    ):
        report = search(Demo(client, out, home), model, data, endpoint)
    show(report, out)
    return report.final is not None and report.final.ci95[0] > 0


@contextmanager
def _llm(given: CampaignLlm | None, out: Printer) -> Iterator[CampaignLlm]:
    if given is not None:
        out.note(f"  the LLM is {given.model} at {given.origin}")
        yield given
        return
    with scripted_llm() as origin:
        out.note("  SCRIPTED: no LLM is used; a script with fixed answers stands in for it")
        out.note(
            "  (--llm-url and --llm-model select a real one); scores and verdicts are measured"
        )
        yield CampaignLlm.model_validate({"base_url": f"{origin}/v1", "model": MODEL})


def search(demo: Demo, model: Path, data: CampaignData, llm: CampaignLlm) -> CampaignReport:
    """Run a campaign to its end; cancel it if interrupted."""
    demo.out.line("(b) base model, benchmark and datasets")
    base = demo.register(model)
    items = demo.upload(data.benchmark, FilePurpose.EVALS)
    files = {
        name: demo.upload(path, FilePurpose.USER_DATA).id for name, path in data.datasets.items()
    }
    demo.out.line(f"(c) the campaign: {LOOPS} loops of proposal, code, training and evaluation")
    campaign = demo.client.campaigns.create(request(base, items.id, files, llm))
    demo.out.note(f"  submitted {campaign.id}")
    try:
        demo.finish(campaign.id)
    finally:
        if not demo.client.jobs.get(campaign.id).status.is_final:
            demo.client.jobs.cancel(campaign.id)
    return demo.client.campaigns.report(campaign.id)


def request(base: str, items: str, files: Mapping[str, str], llm: CampaignLlm) -> CreateCampaign:
    """Sample greedily; an answer is correct if its last number is the sum."""
    return CreateCampaign(
        base_model=base,
        scenario="Add two numbers of two digits. The last number of the answer is the sum.",
        file=items,
        grader=NumericGrader(),
        sampling=Sampling(max_tokens=48),
        datasets=[CampaignDataset(name=name, file=file) for name, file in files.items()],
        llm=llm,
        budget=CampaignBudget(loops=LOOPS),
    )


def show(report: CampaignReport, out: Printer) -> None:
    """Print the tree of attempts, and the best model against the base model."""
    out.line("(d) the attempts, each below the one it started from")
    for attempt in report.attempts:
        out.line(line_of(attempt))
    if report.final is None:
        out.note("no attempt was accepted", "red")
        return
    low, high = report.final.ci95
    out.line(
        f"\nbest model {report.best_model}: {report.final.best_score:.1%} of "
        f"{report.final.samples} held-out final sums; the base model "
        f"{report.final.base_score:.1%} (difference {low:+.3f} to {high:+.3f})"
    )
    out.line(f"\n  temper campaign report {report.campaign.id} -o report.html")


def line_of(attempt: ReportedAttempt) -> str:
    """Describe an attempt: verdict, scores on both parts, and the interval that decided."""
    scores = [
        f"{part} {score:.1%}"
        for part, score in (("search", attempt.search_score), ("final", attempt.final_score))
        if score is not None
    ]
    if attempt.comparison is not None:
        low, high = attempt.comparison.ci95
        scores.append(f"{attempt.comparison.difference:+.3f} ({low:+.3f} to {high:+.3f})")
    if attempt.loop == 0:
        verdict = "base model"
    elif attempt.failure is not None:
        verdict = f"failed: {attempt.failure.value}"
    else:
        verdict = "accepted" if attempt.accepted else "rejected"
    hypothesis = f"  {attempt.hypothesis}" if attempt.hypothesis else ""
    return (
        f"{'    ' * attempt.depth}loop {attempt.loop}: {verdict}, {', '.join(scores)}{hypothesis}"
    )
