"""Where the rows of named benchmarks are published, and a description of each."""

from collections.abc import Mapping
from types import MappingProxyType

from services.contracts.evaluation.named_benchmarks import BENCHMARKS

BENCHMARK_ROWS: Mapping[str, str] = MappingProxyType(
    {
        "aime24": "hf://datasets/HuggingFaceH4/aime_2024/data/train-00000-of-00001.parquet",
        "aime25": "hf://datasets/math-ai/aime25/test.jsonl",
        "gsm8k": "hf://datasets/openai/gsm8k/main/test-00000-of-00001.parquet",
        "math500": "hf://datasets/HuggingFaceH4/MATH-500/test.jsonl",
        "mmlu": "hf://datasets/cais/mmlu/all/test-00000-of-00001.parquet",
        "mmlu_pro": "hf://datasets/TIGER-Lab/MMLU-Pro/data/test-00000-of-00001.parquet",
        "hellaswag": "hf://datasets/Rowan/hellaswag/data/validation-00000-of-00001.parquet",
        "arc_challenge": "hf://datasets/allenai/ai2_arc/ARC-Challenge/test-00000-of-00001.parquet",
        "arc_easy": "hf://datasets/allenai/ai2_arc/ARC-Easy/test-00000-of-00001.parquet",
        "hotpotqa": "hf://datasets/hotpotqa/hotpot_qa/distractor/validation-00000-of-00001.parquet",
        "triviaqa": "hf://datasets/mandarjoshi/trivia_qa/rc.nocontext/"
        "validation-00000-of-00001.parquet",
        "humaneval": "hf://datasets/openai/openai_humaneval/openai_humaneval/"
        "test-00000-of-00001.parquet",
        "mbpp": "hf://datasets/google-research-datasets/mbpp/full/test-00000-of-00001.parquet",
    }
)
"""The test split of each, on the hub; the others have to be given as files."""

_SUBJECTS: Mapping[str, str] = MappingProxyType(
    {
        "aime24": "problems of the mathematics competition AIME of 2024, whose answers are "
        "integers from 0 to 999",
        "aime25": "problems of the mathematics competition AIME of 2025, whose answers are "
        "integers from 0 to 999",
        "gsm8k": "word problems of grade-school mathematics, whose answers are numbers",
        "math": "competition problems in mathematics, whose answers are mathematical expressions",
        "math500": "500 competition problems in mathematics, whose answers are mathematical "
        "expressions",
        "mmlu": "questions on 57 subjects with four options",
        "mmlu_pro": "hard questions on 14 subjects with up to ten options",
        "hellaswag": "everyday texts with four continuations, of which one makes sense",
        "arc_challenge": "hard grade-school science questions with three to five options",
        "arc_easy": "easy grade-school science questions with three to five options",
        "gpqa": "graduate-level questions in biology, physics and chemistry with four options",
        "chemcotbench_mol_und": "questions about molecules given as SMILES: functional groups and "
        "rings to count, scaffolds, and whether two molecules are the same",
        "chemcotbench_mol_edit": "molecules given as SMILES, in which a functional group is to be "
        "added, deleted or substituted",
        "chemcotbench_mol_opt": "molecules given as SMILES, of which a property is to be raised: "
        "penalized logP, solubility or drug-likeness",
        "chemcotbench_reaction": "chemical reactions given as SMILES: products, reactants, "
        "conditions, the next elementary step, and the mechanism",
        "chemcotbench": "molecules and reactions given as SMILES: to understand, to edit and to "
        "improve molecules, and to predict reactions",
        "bfcl_simple": "requests that need one call of the only function given",
        "bfcl_multiple": "requests that need one call of one of several functions",
        "bfcl_parallel": "requests that need several calls of the only function given",
        "bfcl_parallel_multiple": "requests that need several calls of several functions",
        "bfcl_irrelevance": "requests that none of the functions given can serve, so that none is "
        "to be called",
        "panorama_par4pc": "patent claims, and documents of which some disclose what they claim",
        "panorama_pi4pc": "patent claims, and paragraphs of which one is the most relevant",
        "panorama_noc4pc": "patent claims to allow or to reject in view of the prior art",
        "panorama_par4pc_cot": "patent claims, and documents of which some disclose what they "
        "claim, to reason about first",
        "panorama_pi4pc_cot": "patent claims, and paragraphs of which one is the most relevant, to "
        "reason about first",
        "panorama_noc4pc_cot": "patent claims to allow or to reject in view of the prior art, to "
        "reason about first",
        "hotpotqa": "questions that need two articles of an encyclopedia, with short answers",
        "triviaqa": "trivia questions with short answers",
        "tool_calls": "requests to a model with tools, answered by the calls to make, as JSON",
        "humaneval": "Python functions to complete from their docstrings, judged by running tests",
        "mbpp": "short Python programs to write from a description, judged by running tests",
    }
)


def describe_benchmark(name: str) -> str:
    """The description of a named benchmark, from its own prompt, so that both agree."""
    benchmark = BENCHMARKS[name]
    return (
        f"{_SUBJECTS[name]}. Each item is asked as follows, and answers are graded by "
        f"{benchmark.grader.type}:\n{benchmark.prompt}"
    )
