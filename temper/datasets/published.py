"""The datasets of RD-Agent's fine-tuning loop, under its names, and their loaders."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from services.contracts.base import JsonObject

_FENCED = re.compile(r"\A\s*```[a-zA-Z]*\n(.*?)\n?```\s*\Z", re.DOTALL)
_RCR = re.compile(r"rxn/rcr\b")

ConvertRow = Callable[[str, JsonObject], JsonObject]
"""Converts a row, given the path of its file in the repository."""

ChooseRows = Callable[[Iterator[JsonObject]], Iterator[JsonObject]]
"""Selects the rows of a file to train on."""

FINANCEIQ_TEST_ROWS = 100


def _unchanged(path: str, row: JsonObject) -> JsonObject:  # noqa: ARG001 - a `ConvertRow`
    return row


@dataclass(frozen=True)
class PublishedDataset:
    """A hub repository; ``part`` is a regex that matches the paths of the dataset.

    Validation and test files are skipped, unless ``choose`` splits the rows of each file.
    """

    repository: str
    description: str
    part: str = ""
    convert: ConvertRow = _unchanged
    choose: ChooseRows | None = None


def _without_test_rows(rows: Iterator[JsonObject]) -> Iterator[JsonObject]:
    """Return a category's rows without its last 100, or its last half if that is fewer.

    FinanceIQ has only test files and files of a few examples; RD-Agent tests on the last rows.
    """
    found = list(rows)
    tested = min(math.ceil(len(found) / 2), FINANCEIQ_TEST_ROWS)
    return iter(found[: len(found) - tested])


def _chemcot_row(path: str, row: JsonObject) -> JsonObject:
    """Convert rxn/rcr rows to the schema of the others: ``gt`` moves into ``meta``, and
    ``cot_result`` becomes ``struct_cot`` without its code fence."""
    if not _RCR.search(path):
        return row
    changed = {key: value for key, value in row.items() if key not in {"gt", "cot_result"}}
    if "gt" in row:
        meta = row.get("meta")
        changed["meta"] = {**(meta if isinstance(meta, dict) else {}), "gt": row["gt"]}
    if "cot_result" in row:
        text = row["cot_result"]
        fenced = _FENCED.match(text) if isinstance(text, str) else None
        changed["struct_cot"] = fenced[1] if fenced else text
    return changed


def _panorama(part: str, description: str) -> PublishedDataset:
    return PublishedDataset(
        "LG-AI-Research/PANORAMA", f"Patent examination: {description}.", part=part
    )


def _chemcot(part: str, description: str) -> PublishedDataset:
    return PublishedDataset(
        "OpenMol/ChemCoTDataset",
        f"Chemical reasoning in steps: {description}. Fields: id, query, task, subtask, "
        "struct_cot, raw_cot, meta.",
        part=part,
        convert=_chemcot_row,
    )


PUBLISHED_DATASETS: Mapping[str, PublishedDataset] = MappingProxyType(
    {
        "deepscaler": PublishedDataset(
            "agentica-org/DeepScaleR-Preview-Dataset",
            "Competition problems in mathematics. Fields: problem, answer, and solution, which is "
            "empty in four of five rows.",
        ),
        "panorama": _panorama("", "all its tasks"),
        "panorama-par4pc": _panorama(r"(?i)par4pc", "retrieval of prior art for a claim"),
        "panorama-pi4pc": _panorama(r"(?i)pi4pc", "identifying relevant paragraphs for a claim"),
        "panorama-noc4pc": _panorama(r"(?i)noc4pc", "novelty and obviousness of a claim"),
        "chemcot": _chemcot("", "all its tasks"),
        "chemcot-mol_und": _chemcot(r"\bmol_und\b", "understanding of molecules"),
        "chemcot-mol_edit": _chemcot(r"\bmol_edit\b", "editing of molecules"),
        "chemcot-mol_opt": _chemcot(r"\bmol_opt\b", "optimization of molecules"),
        "chemcot-rxn": _chemcot(r"\brxn\b", "prediction of reactions"),
        "financeiq": PublishedDataset(
            "Duxiaoman-DI/FinanceIQ",
            "Chinese multiple-choice questions on finance. Fields: Question, A, B, C, D, Answer.",
            part=r"(?i)(?<![a-z])test(?![a-z])",
            choose=_without_test_rows,
        ),
        "tableinstruct": PublishedDataset(
            "Multilingual-Multimodal-NLP/TableInstruct",
            "Questions on tables, each with instructions to answer in words or by a program.",
        ),
        "bioprobench": PublishedDataset(
            "bowenxian/BioProBench",
            "Questions on biological protocols (PQA), the order of their steps (ORD), errors in "
            "them (ERR), and writing them (GEN), each with its own fields.",
        ),
    }
)
