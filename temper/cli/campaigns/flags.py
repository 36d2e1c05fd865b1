"""The options of ``temper campaign start``: those that RD-Agent publishes, and ours, by field."""

from typing import Any

from services.contracts.campaigns.llms import LlmRole
from temper.cli.requests.flags import Flag
from temper.formats.campaign_tasks import read_cards, read_duration

HOUR_SECONDS = 3600.0
SCENARIO = "--user-target-scenario"
POOLS = ("strong", "weak")


def _dataset(text: str) -> dict[str, str]:
    name, equals, file = text.partition("=")
    if not name or bool(equals) != bool(file):
        raise ValueError(f"{text!r} is not NAME or NAME=FILE")
    return {"name": name, "file": file}


def _llm(text: str, names: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """The LLM of one name, of ``NAME=MODEL`` or ``NAME=MODEL@URL``."""
    name, _, llm = text.partition("=")
    model, at, url = llm.partition("@http")
    if name not in names or not model:
        raise ValueError(f"{text!r} is not {'|'.join(names)}=MODEL[@URL]")
    return name, {"model": model} | ({"base_url": f"http{url}"} if at else {})


def _pools(llms: list[tuple[str, dict[str, str]]]) -> dict[str, Any]:
    pools = {pool: [llm for name, llm in llms if name == pool] for pool in POOLS}
    if not pools["strong"]:
        raise ValueError("one of them must be strong=MODEL")
    return pools


FLAGS: dict[str, Flag | str] = {
    "--base-model": Flag(
        "base_model", "Model to fine-tune: a registered one, or a repository of the hub."
    ),
    f"--scenario {SCENARIO}": "scenario",
    "--benchmark": Flag("benchmark", "Name of a benchmark, which sets prompts and grader."),
    "--file": Flag(
        "file",
        "Benchmark rows, or rows of {prompt, gold}: a path or the id of an uploaded file; "
        "default: the benchmark's published rows, from the hub.",
    ),
    "--dataset": Flag(
        "datasets",
        "Registered data set, or a file, that data scripts may use; repeatable; default: all "
        "registered ones.",
        _dataset,
        "NAME[=FILE]",
        list,
    ),
    "--grader": Flag("grader.type", "Grader of the answers, without a benchmark.", None, "TYPE"),
    "--llm-url": "llm.base_url",
    "--llm-model": Flag("llm.model", "Name of the LLM that proposes, codes and explains."),
    "--llm-for": Flag(
        "llm_by_role",
        "Another LLM for proposal, coding or feedback; repeatable; default URL: --llm-url.",
        lambda text: _llm(text, tuple(LlmRole)),
        "ROLE=MODEL[@URL]",
        dict,
    ),
    "--script-llm": Flag(
        "script_llms",
        "LLM that data scripts may query; repeatable; default: none.",
        lambda text: _llm(text, POOLS),
        "strong|weak=MODEL[@URL]",
        _pools,
    ),
    "--strip-reasoning": "llm.strip_reasoning",
    "--prompt-price": Flag("llm.price.prompt", "Price of a million prompt tokens."),
    "--completion-price": Flag("llm.price.completion", "Price of a million completion tokens."),
    "--read-cache": "answer_cache.read",
    "--write-cache": "answer_cache.write",
    "--loops --loop-n": Flag(
        "budget.loops", "Maximum attempts (default 3; 1000 where another limit is given)."
    ),
    "--steps --step-n": "budget.steps",
    "--hours": "budget.hours",
    "--timeout": Flag(
        "budget.hours",
        "Maximum duration since the first step, such as 90s, 30m, 12h or 2d.",
        lambda text: read_duration(text) / HOUR_SECONDS,
        "DURATION",
    ),
    "--llm-tokens": "budget.llm_tokens",
    "--gpu-hours": "budget.gpu_hours",
    "--cost": "budget.cost",
    "--training-rows --upper-data-size-limit": "training_rows",
    "--devices": Flag("devices", read=read_cards, metavar="GPU,..."),
    "--branches": "branches",
    "--parents": "parents",
    "--seeds": "seeds.most",
    "--accept-by": "acceptance.by",
    "--accept-above": "acceptance.above",
}
