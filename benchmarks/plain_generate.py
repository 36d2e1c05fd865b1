"""Offline generation as in a short vLLM script; run in vLLM's environment.

    python benchmarks/plain_generate.py PROMPTS OUTPUT MAX_TOKENS <arguments of vllm serve>

PROMPTS is a JSON list of texts, sent as conversations of one message; answers go to OUTPUT.
"""

import json
import sys
from pathlib import Path

from vllm import LLM, SamplingParams
from vllm.engine.arg_utils import EngineArgs
from vllm.utils.argparse_utils import FlexibleArgumentParser


def main(prompts: Path, output: Path, most: int, arguments: list[str]) -> None:
    """Answer all prompts in one call."""
    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    llm = LLM.from_engine_args(EngineArgs.from_cli_args(parser.parse_args(arguments)))
    params = SamplingParams(temperature=0.8, max_tokens=most, ignore_eos=True)
    texts = json.loads(prompts.read_text())
    conversations = [[{"role": "user", "content": text}] for text in texts]
    answers = llm.chat(conversations, params)
    output.write_text(json.dumps([answer.outputs[0].text for answer in answers]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
