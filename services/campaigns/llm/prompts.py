"""Prompts for the LLM that proposes recipes."""

import json
from collections.abc import Sequence

from services.campaigns.data.rows import DATA, MAX_DATA_BYTES, lengths_of_file, lengths_text
from services.campaigns.run.records import Code, Measurement, Proposal
from services.campaigns.run.run import CampaignRun
from services.campaigns.scripts.script import SCRIPT
from services.contracts.campaigns.campaigns import CreateCampaign
from services.datasets.reader import open_records
from services.datasets.record import Problem

ROW_CHARACTERS = 1000
LESSONS = 20
"""Number of past loops in a prompt, newest last."""


def system_prompt(request: CreateCampaign) -> str:
    """The role and the target."""
    direction = "higher" if request.higher_is_better else "lower"
    return (
        "You improve a language model by supervised fine-tuning, one experiment at a time. "
        "Experiments are judged by measured scores alone.\n\n"
        f"Base model: {request.base_model}\nTarget: {request.scenario}\n"
        f"Measure: grader {request.grader.type}; a {direction} mean score is better."
    )


def datasets_text(run: CampaignRun) -> str:
    """The data sets with their first rows."""
    return "\n\n".join(
        f"datasets/{each.name}.jsonl: {each.description}\n"
        f"{lengths_text(lengths_of_file(run, each.name, each.file))}\n{_first_rows(run, each.file)}"
        for each in run.request.datasets
    )


def _first_rows(run: CampaignRun, file: str) -> str:
    lines: list[str] = []
    for record in open_records(run.artifacts.file(file)):
        if len(lines) == run.request.sample_rows:
            break
        if not isinstance(record, Problem):
            lines.append(json.dumps(record.value, ensure_ascii=False)[:ROW_CHARACTERS])
    return "\n".join(lines)


def state_text(
    parent: int, best: int, score: float | None, measured: Measurement, lessons: Sequence[str]
) -> str:
    """The model to start from, its wrong samples, and the lessons of all loops."""
    wrong = "\n".join(sample.model_dump_json() for sample in measured.wrong)
    said = "\n".join(lessons)
    scored = "no score for any sample" if score is None else f"score {score:.4f}"
    place = "The best model so far" if parent == best else "The model that you start from"
    other = "" if parent == best else f" The best model so far is that of loop {best}."
    return (
        f"{place} is that of loop {parent} with {scored}.{other}\n"
        f"Samples it answers wrongly:\n{wrong or 'none'}\n\nEarlier loops:\n{said or 'none'}"
    )


def under_way_text(loop: int, proposal: Proposal) -> str:
    """One line on a loop without a verdict, so that another loop tries something else."""
    begin = f"Loop {loop} (from loop {proposal.parent}): under way."
    return f"{begin} Hypothesis: {proposal.hypothesis}"


def code_text(code: Code | None) -> str:
    """Script and settings to start from."""
    if code is None:
        return "There is no script yet."
    return (
        f"The parent's {SCRIPT}:\n```python\n{code.script}\n```\n"
        f"The parent's train.yaml:\n```yaml\n{code.settings}\n```{notes_text(code.notes)}"
    )


def notes_text(notes: Sequence[str]) -> str:
    """The arguments dropped from a train.yaml."""
    return "".join(f"\ntrain.yaml: {note}" for note in notes)


def network_text(request: CreateCampaign) -> str:
    """What a data script can reach."""
    llms = request.script_llms
    if llms is None:
        return NO_NETWORK
    return SCRIPT_LLMS.format(calls=llms.calls, at_once=llms.calls_at_once)


REASON = 'Say what limits the best model. Answer with JSON: {"reason": "..."}'
HYPOTHESIS = 'What would improve it? Answer with JSON: {"hypothesis": "..."}'
TASK = (
    "Describe one experiment that tests this: which data to make, and which training settings. "
    "skip_data_processing keeps the parent's script. "
    'Answer with JSON: {"task": "...", "skip_data_processing": false}'
)
CODING = (
    f"Write {SCRIPT} in a ```python block and train.yaml in a ```yaml block.\n"
    f"{SCRIPT} reads the data sets and writes {DATA}, of {MAX_DATA_BYTES >> 20} MiB at most: a "
    "JSON list of objects with the texts instruction, input (may be empty) and output. With the "
    "argument --debug it writes about 100 rows. It has Python's standard library and numpy, "
    "{network}, and {seconds:g} seconds.\n"
    "train.yaml holds LLaMA-Factory's arguments for stage sft, such as finetuning_type (lora or "
    "full), learning_rate, num_train_epochs, per_device_train_batch_size, cutoff_len. Model, data "
    "and folders are set for you."
)
NO_NETWORK = "no network"
SCRIPT_LLMS = (
    "the package openai and no network but LLMs (OpenAI() finds OPENAI_BASE_URL and OPENAI_API_KEY "
    "in the environment, which names the models in STRONG_MODEL_POOL and WEAK_MODEL_POOL, JSON "
    "lists; chat completions alone, not streamed; at most {calls} calls in all, {at_once} at once)"
)
CODING_SETTINGS_ONLY = (
    "Keep the parent's script. Write train.yaml in a ```yaml block: LLaMA-Factory's arguments for "
    "stage sft. Model, data and folders are set for you."
)
REPAIR = "This did not pass its checks: {problem}\nWrite both blocks again in full."
VERDICT = (
    "The experiment is judged: {verdict}\nSummarize the code and say what is to be learned. "
    'Answer with JSON: {{"Code Summary": "...", "Reason": "..."}}'
)
