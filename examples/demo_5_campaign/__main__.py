"""``python -m examples.demo_5_campaign [--llm-url URL --llm-model NAME]``."""

import argparse

from pydantic import ValidationError

from examples.demo_5_campaign.run import run
from examples.demo_common.program import exit_with
from temper.types import CampaignLlm

parser = argparse.ArgumentParser(prog="demo_5_campaign")
parser.add_argument("--llm-url", help="OpenAI-compatible endpoint, up to and including /v1")
parser.add_argument("--llm-model", help="its model; without both, a script stands in for an LLM")
given = parser.parse_args()
if (given.llm_url is None) != (given.llm_model is None):
    parser.error("--llm-url and --llm-model go together")
llm = None
if given.llm_url is not None:
    fields = {"base_url": given.llm_url, "model": given.llm_model, "strip_reasoning": True}
    try:
        llm = CampaignLlm.model_validate(fields)
    except ValidationError as error:
        parser.error(f"--llm-url: {error.errors(include_url=False)[0]['msg']}")
exit_with(lambda home, out: run(home, out, llm))
