"""A tiny model and its base on a generated benchmark, from data to reports.

Fine-tunes a tiny base model, evaluates both on the same items with several samples each, compares
them by a paired test and writes the reports, all through the gateway's REST API. Results of earlier
runs are reused.
"""

from pathlib import Path

from examples.demo_1_addition.run import BASE, training_request
from examples.demo_2_evaluation.data import BENCHMARK, ITEMS, EvaluationData, write_data
from examples.demo_common.printer import Printer
from examples.demo_common.setup import command, local_stack, make_model
from examples.demo_common.steps import Demo
from temper.types import (
    CompareEvaluations,
    CreateEvaluation,
    Evaluation,
    EvaluationComparison,
    File,
    FilePurpose,
    Sampling,
)

SAMPLES = 4
REPORTS = (".html", ".xlsx", ".md", ".json")


def run(home: Path, out: Printer) -> bool:
    """Run all steps; return whether the fine-tuned model is better than its base."""
    out.line("(a) a tiny base model, its data and the local stack")
    model = make_model(home, BASE, "demo_1_addition/model.py", [], out)
    folder = home / "demo" / "evaluation"
    data = write_data(folder)
    with local_stack(home, out) as client:
        base, tuned = measure(Demo(client, out, home), model, data)
        out.line("(e) the fine-tuned model compared with its base on the same items")
        out.line(command(home, "compare", base.id, tuned.id, url=client.base_url))
        out.line("(f) table and reports")
        board = ("evals", "table", f"--file={base.file}", "--markdown")
        table = command(home, *board, url=client.base_url)
        out.line(table)
        (folder / "table.md").write_text(table, encoding="utf-8")
        for suffix in REPORTS:
            path = folder / f"report{suffix}"
            names = (base.id, tuned.id)
            command(home, "evals", "report", *names, "-o", str(path), url=client.base_url)
        return is_better(
            client.evaluations.compare(base.id, CompareEvaluations(candidates=[tuned.id]))
        )


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


def is_better(found: EvaluationComparison) -> bool:
    """Whether the interval of the candidate's difference lies above 0."""
    return found.comparisons[0].ci95[0] > 0
