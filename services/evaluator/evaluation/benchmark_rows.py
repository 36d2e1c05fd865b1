"""Converts rows of a benchmark's dataset to rows of an evaluation file."""

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from string import ascii_uppercase

from services.contracts.base import JsonObject
from services.contracts.evaluation.benchmarks import QUESTION, Benchmark
from services.contracts.rewards.graders import ToolCallsGrader
from services.datasets.record import JsonValue, RowError, shown
from services.metrics.contamination import said_by_users
from services.metrics.extraction import at_path
from services.rewards.families import family_of


def evaluation_row(row: JsonValue, benchmark: Benchmark) -> JsonObject:
    """The row as ``{prompt, gold}``, followed by its own fields except those two names.

    Raises RowError that names the path at fault.
    """
    if not isinstance(row, dict):
        raise RowError(f"is {shown(row)}, not an object with {benchmark.question}")
    question = _question(row, benchmark)
    # Questions and golds use the keys of evaluation files, which a row may not repeat.
    taken = {"messages", "prompt", "question", "problem", "gold", "answer"}
    extra = {key: value for key, value in row.items() if key not in taken}
    gold = _at(row, benchmark.answer) if benchmark.answer is not None else None
    options = _options(row, benchmark, question)
    if benchmark.labels is not None:
        gold = _letter(gold, _at(row, benchmark.labels), benchmark.labels)
    if benchmark.incorrect:
        gold = ascii_uppercase[options.index(str(gold))]
    if gold is not None and not isinstance(gold, str) and _is_json(benchmark):
        # A list of golds means any of them; a list of calls is a single gold, which is JSON text.
        gold = json.dumps(gold, ensure_ascii=False)
    lines = _lettered(options)
    texts = {name: _text(row, path) for name, path in benchmark.fields.items()}
    prompt = {"prompt": _filled(benchmark.prompt, {**texts, QUESTION[1:-1]: question + lines})}
    if benchmark.tests is not None:
        extra["tests"] = [_filled(benchmark.tests, texts)]
    if benchmark.setup is not None:
        extra["setup"] = _filled(benchmark.setup, texts)
    return {**extra, **prompt} if gold is None else {**extra, **prompt, "gold": gold}


def question_and_options(row: JsonObject, benchmark: Benchmark) -> tuple[str, str]:
    """What a row asks, without the prompt around it, and its options as lines with letters.

    Of messages, the question is what users say. Raises RowError that names the path at fault.
    """
    question, value = _question(row, benchmark), _at(row, benchmark.question)
    said = said_by_users(value) if isinstance(value, list) else ""
    return said or question, _lettered(_options(row, benchmark, question))


def _question(row: JsonObject, benchmark: Benchmark) -> str:
    question = _said(_at(row, benchmark.question))
    if not isinstance(question, str):
        raise RowError(f"{benchmark.question} is {shown(question)}, not a text")
    if not question.strip():
        raise RowError(f"{benchmark.question} is empty")
    return question


def _options(row: JsonObject, benchmark: Benchmark, question: str) -> list[str]:
    """The options in the order in which they are shown; none without any."""
    if benchmark.choices is not None:
        return _texts(_at(row, benchmark.choices), benchmark.choices)
    if not benchmark.incorrect:
        return []
    paths = [str(benchmark.answer), *benchmark.incorrect]
    options = _mixed(question, [_at(row, path) for path in paths])
    return _texts(options, " and ".join(benchmark.incorrect))


def _lettered(options: Sequence[str]) -> str:
    pairs = zip(ascii_uppercase, options, strict=False)
    return "".join(f"\n{letter}. {text}" for letter, text in pairs)


def _is_json(benchmark: Benchmark) -> bool:
    """Whether the grader takes a gold as JSON."""
    if isinstance(benchmark.grader, ToolCallsGrader):
        return True
    found = family_of(benchmark.grader, "benchmark.grader")
    return found is not None and found[0].json_golds


def _said(question: JsonValue) -> JsonValue:
    """The texts of a list of messages, separated by a line; an object as JSON."""
    if isinstance(question, dict):
        return json.dumps(question, ensure_ascii=False)
    if not isinstance(question, list) or not question:
        return question
    texts = [each.get("content") for each in question if isinstance(each, dict)]
    given = [text for text in texts if isinstance(text, str)]
    return "\n\n".join(given) if len(given) == len(question) else question


def _letter(gold: JsonValue, labels: JsonValue, path: str) -> str:
    """The letter of the option with this name."""
    if not isinstance(labels, list) or len(labels) > len(ascii_uppercase):
        raise RowError(f"{path} is {shown(labels)}, not a list of at most 26 names")
    if gold not in labels:
        raise RowError(f"{path} has no {shown(gold)}, which is the answer")
    return ascii_uppercase[labels.index(gold)]


def _mixed(question: str, options: list[JsonValue]) -> list[JsonValue]:
    """Options in an order that is the same in every run and does not reveal the right one."""
    if any(each in options[:index] for index, each in enumerate(options)):
        raise RowError("two of its options are the same")
    return sorted(options, key=lambda each: sha256(f"{question}\n{each}".encode()).digest())


def _texts(values: JsonValue, path: str) -> list[str]:
    if not isinstance(values, list) or not 2 <= len(values) <= len(ascii_uppercase):
        raise RowError(f"{path} is {shown(values)}, not a list of 2 to 26 texts")
    texts: list[str] = []
    for text in values:
        if not isinstance(text, str):
            raise RowError(f"{path} has {shown(text)}, not a text")
        texts.append(text)
    return texts


def _text(row: JsonObject, path: str) -> str:
    """A text, a number or objects as JSON writes them, or the lines of a list of texts."""
    value = _at(row, path)
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(value)
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    raise RowError(f"{path} is {shown(value)}, not a text, a number, a list or an object")


def _filled(template: str, texts: Mapping[str, str]) -> str:
    """Fill the placeholders in one pass: a value that looks like one is not replaced again."""
    if not texts:
        return template
    places = "|".join(map(re.escape, texts))
    return re.sub(rf"\{{({places})\}}", lambda place: texts[place[1]], template)


def _at(row: JsonObject, path: str) -> JsonValue:
    try:
        found: JsonValue = at_path(row, path)
    except LookupError:
        found = None
    if found is None:
        raise RowError(f"{path} is missing")
    return found
