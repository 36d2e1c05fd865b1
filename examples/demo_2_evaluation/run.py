"""A tiny model and its base on a generated benchmark, from data to reports.

Fine-tunes a tiny base model, evaluates both on the same items with several samples each, compares
them by a paired test and writes the reports, all through the gateway's REST API. Results of earlier
runs are reused.
"""

from pathlib import Path

from examples.demo_1_addition.run import BASE, training_request
from examples.demo_2_evaluation.data import BENCHMARK, ITEMS, EvaluationData, write_data
from examples.demo_common.setup import local_stack, make_model
from examples.demo_common.steps import Demo
from services.metrics.evaluation_report import FORMATS, EvaluationReport
from services.metrics.leaderboard import leaderboard
from services.metrics.reports.writers import write_document
from temper.cli.evaluations.evals import show_comparison
from temper.cli.evaluations.leaderboard import filenames, markdown_table, shown_table
from temper.cli.evaluations.report import load_report
from temper.cli.gateway import client_of
from temper.cli.output import Output
from temper.client import Temper
from temper.settings import ClientSettings
from temper.types import CreateEvaluation, Evaluation, File, FilePurpose, Sampling

SAMPLES = 4


def run(settings: ClientSettings, out: Output) -> bool:
    """Run all steps; return whether the fine-tuned model is better than its base."""
    out.line("(a) a tiny base model, its data and the local stack")
    model = make_model(settings, BASE, "demo_1_addition/model.py", [], out)
    folder = settings.home / "demo" / "evaluation"
    data = write_data(folder)
    with local_stack(settings, out) as url, client_of(url, settings) as client:
        base, tuned = measure(Demo(client, out, settings.home), model, data)
        report = load_report(client, [base.id, tuned.id], ITEMS * SAMPLES)
        out.line("(e) the fine-tuned model compared with its base on the same items")
        if report.comparison is not None:
            show_comparison(report.comparison, out)
        out.line("\n(f) table and reports")
        show_table(client, [tuned, base], folder / "table.md", out)
    write_reports(report, folder, out)
    return is_better(report)


def measure(demo: Demo, model: Path, data: EvaluationData) -> tuple[Evaluation, Evaluation]:
    """Fine-tune; return the evaluations of the base model and of the fine-tuned one."""
    demo.out.line("(b) base model, training data and benchmark")
    base = demo.register(model)
    training = demo.upload(data.training, FilePurpose.FINE_TUNE)
    items = demo.upload(data.benchmark, FilePurpose.EVALS)
    demo.out.line("(c) supervised fine-tune, with the base model's evaluation queued behind it")
    tuning_id = demo.submit(training_request(base, training), training)
    before_id = demo.submit(evaluation_request(base, items), items)
    demo.finish(tuning_id)
    tuned = demo.client.fine_tuning.get(tuning_id).fine_tuned_model or ""
    demo.out.line(f"(d) both models on {ITEMS} items, {SAMPLES} samples each, served by vLLM")
    after_id = demo.submit(evaluation_request(tuned, items), items)
    return demo.evaluated(before_id), demo.evaluated(after_id)


def evaluation_request(model: str, file: File) -> CreateEvaluation:
    """Draw several samples of each item, for maj@n and pass@k."""
    return CreateEvaluation(
        model=model,
        file=file.id,
        benchmark=BENCHMARK,
        samples_per_item=SAMPLES,
        sampling=Sampling(max_tokens=48, temperature=0.7),
    )


def show_table(client: Temper, evaluations: list[Evaluation], path: Path, out: Output) -> None:
    """Print the leaderboard of evaluations, newest first, and write it as Markdown."""
    board = leaderboard(evaluations)
    heading, rows = shown_table(board, filenames(client, board))
    out.table(heading, rows)
    path.write_text(markdown_table(heading, rows), encoding="utf-8")
    out.note(f"  wrote {path}")


def write_reports(report: EvaluationReport, folder: Path, out: Output) -> None:
    """Write the page, the workbook, the Markdown and the JSON."""
    for suffix in FORMATS:
        path = folder / f"report{suffix}"
        write_document(report.document(), path)
        out.note(f"  wrote {path}")


def is_better(report: EvaluationReport) -> bool:
    """Whether the interval of the candidate's difference lies above 0."""
    found = report.comparison.comparisons if report.comparison is not None else []
    return bool(found) and found[0].ci95[0] > 0
