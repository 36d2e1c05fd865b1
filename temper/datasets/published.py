"""The data sets that RD-Agent's fine-tuning loop registers, by its names, and their loaders."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from services.contracts.base import JsonObject

_FENCED = re.compile(r"\A\s*```[a-zA-Z]*\n(.*?)\n?```\s*\Z", re.DOTALL)
_RCR = re.compile(r"rxn/rcr\b")

ConvertRow = Callable[[str, JsonObject], JsonObject]
"""From the path of a file in the repository and a row of it."""

ChooseRows = Callable[[Iterator[JsonObject]], Iterator[JsonObject]]
"""From the rows of a file to those to train on."""

FINANCEIQ_TEST_ROWS = 100


def _as_it_is(path: str, row: JsonObject) -> JsonObject:  # noqa: ARG001 - a `ConvertRow`
    return row


@dataclass(frozen=True)
class PublishedDataset:
    """A repository of the hub; ``part`` is a pattern of the paths that belong to the data set.

    Validation and test files are never taken, unless ``choose`` divides the rows of each file.
    """

    repository: str
    description: str
    part: str = ""
    convert: ConvertRow = _as_it_is
    choose: ChooseRows | None = None


def _before_the_test_rows(rows: Iterator[JsonObject]) -> Iterator[JsonObject]:
    """All rows of a category but its last 100, or its last half if that is less.

    FinanceIQ has files to test and of a few examples alone; RD-Agent tests on the last rows.
    """
    found = list(rows)
    tested = min(math.ceil(len(found) / 2), FINANCEIQ_TEST_ROWS)
    return iter(found[: len(found) - tested])


def _chemcot_row(path: str, row: JsonObject) -> JsonObject:
    """Rows of rxn/rcr in the schema of the others: ``gt`` moves into ``meta``, and ``cot_result``
    becomes ``struct_cot`` without its fence."""
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
            choose=_before_the_test_rows,
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
