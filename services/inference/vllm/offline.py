"""vLLM without a server: conversations in on stdin, answers out on stdout, in the vllm runtime.

``python -m services.inference.vllm.offline <arguments of vllm serve>`` speaks the JSON lines of
`services.contracts.batches.offline_engine`. All other output goes to stderr. It exits after the
last prompt, and immediately if stdin closes before that.
"""

import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

from jinja2 import TemplateError
from vllm import LLM, RequestOutput, SamplingParams
from vllm.engine.arg_utils import EngineArgs
from vllm.inputs import tokens_input
from vllm.platforms import current_platform
from vllm.sampling_params import BeamSearchParams, RequestOutputKind
from vllm.utils.argparse_utils import FlexibleArgumentParser

from services.contracts.batches.offline_engine import OfflineAnswer, OfflinePrompt, OfflineSampling
from services.inference.vllm.cpu_kernels import mend_kernels

HELD = 1024
"""Prompts queued in the engine, several times as many as it generates for concurrently."""
BEAM_PROMPTS = 32
"""Prompts per beam search; their answers arrive together."""


class Prompts:
    """The prompts on stdin, prefetched by a thread."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._queue: queue.Queue[OfflinePrompt | None] = queue.Queue(HELD)
        self._ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def take(self, most: int, *, wait: bool) -> list[OfflinePrompt]:
        """Up to ``most`` available prompts; with ``wait``, wait for at least one: none means the
        end."""
        taken: list[OfflinePrompt] = []
        while len(taken) < most and not self._ended:
            try:
                prompt = self._queue.get(block=wait and not taken)
            except queue.Empty:
                break
            if prompt is None:
                self._ended = True
            else:
                taken.append(prompt)
        return taken

    def _read(self) -> None:
        for line in self._stream:
            if not line.strip():
                self._queue.put(None)
                return
            self._queue.put(OfflinePrompt.model_validate_json(line))
        os._exit(1)  # nobody reads the answers any more


class OfflineEngine:
    """Answers conversations by continuous batching."""

    def __init__(self, llm: LLM, sampling: OfflineSampling) -> None:
        self._llm = llm
        self._tokenizer = llm.get_tokenizer()
        self._sampling = sampling
        self._begun: dict[int, float] = {}

    def answers(self, prompts: Prompts) -> Iterator[OfflineAnswer]:
        """The answers, in order of completion."""
        sampling = self._sampling
        return self._searched(prompts) if sampling.use_beam_search else self._sampled(prompts)

    def _sampled(self, prompts: Prompts) -> Iterator[OfflineAnswer]:
        fields = self._sampling.model_dump(exclude=_NOT_OF_VLLM)
        params = SamplingParams(**fields, output_kind=RequestOutputKind.FINAL_ONLY)
        engine = self._llm.llm_engine
        while True:
            taken = prompts.take(HELD - len(self._begun), wait=not self._begun)
            if not taken and not self._begun:
                return
            for prompt in taken:
                try:
                    tokens = tokens_input(self._tokens(prompt))
                    engine.add_request(str(prompt.index), tokens, params.clone())
                except _REFUSALS as error:
                    yield OfflineAnswer(index=prompt.index, error=str(error))
                else:
                    self._begun[prompt.index] = time.monotonic()
            for output in engine.step() if self._begun else ():
                if output.finished:
                    yield self._answer(output)

    def _answer(self, output: RequestOutput) -> OfflineAnswer:
        index = int(output.request_id)
        choices = sorted(output.outputs, key=lambda choice: choice.index)
        return OfflineAnswer(
            index=index,
            texts=[choice.text for choice in choices],
            finish_reasons=[choice.finish_reason for choice in choices],
            prompt_tokens=len(output.prompt_token_ids),
            completion_tokens=sum(len(choice.token_ids) for choice in choices),
            seconds=round(time.monotonic() - self._begun.pop(index), 3),
        )

    def _searched(self, prompts: Prompts) -> Iterator[OfflineAnswer]:
        sampling = self._sampling
        params = BeamSearchParams(
            beam_width=sampling.n,
            max_tokens=sampling.max_tokens,
            ignore_eos=sampling.ignore_eos,
            temperature=sampling.temperature,
            length_penalty=sampling.length_penalty,
            skip_special_tokens=sampling.skip_special_tokens,
        )
        while taken := prompts.take(BEAM_PROMPTS, wait=True):
            begun = time.monotonic()
            readable = []
            for prompt in taken:
                try:
                    readable.append((prompt.index, self._tokens(prompt)))
                except _REFUSALS as error:
                    yield OfflineAnswer(index=prompt.index, error=str(error))
            inputs = [{"prompt_token_ids": tokens} for _, tokens in readable]
            outputs = self._llm.beam_search(inputs, params) if inputs else []
            seconds = round(time.monotonic() - begun, 3)
            for (index, tokens), output in zip(readable, outputs, strict=True):
                answers = [beam.tokens[len(tokens) :] for beam in output.sequences]
                yield OfflineAnswer(
                    index=index,
                    texts=[self._text(answer) for answer in answers],
                    finish_reasons=[beam.finish_reason or "length" for beam in output.sequences],
                    prompt_tokens=len(tokens),
                    completion_tokens=sum(map(len, answers)),
                    seconds=seconds,
                )

    def _text(self, tokens: list[int]) -> str:
        skips = self._sampling.skip_special_tokens
        return str(self._tokenizer.decode(tokens, skip_special_tokens=skips))

    def _tokens(self, prompt: OfflinePrompt) -> list[int]:
        """The ids of a prompt; raises one of `_REFUSALS`."""
        tokens = self._tokenizer.apply_chat_template(
            prompt.messages,
            tokenize=True,
            add_generation_prompt=True,
            return_dict=False,
            **self._sampling.chat_template_kwargs or {},
        )
        longest = self._llm.model_config.max_model_len
        if len(tokens) >= longest:
            raise ValueError(f"the prompt has {len(tokens)} tokens; the model takes {longest}")
        return list(tokens)


_NOT_OF_VLLM = {"use_beam_search", "length_penalty", "chat_template_kwargs"}
_REFUSALS = (ValueError, TypeError, TemplateError)
"""What chat templates and the engine raise for conversations that they reject."""


def main() -> None:
    """Answer all prompts on stdin."""
    # vLLM and its libraries print: only answers may reach stdout.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1, encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    if current_platform.is_cpu():
        mend_kernels()
    llm = LLM.from_engine_args(EngineArgs.from_cli_args(parser.parse_args()))
    stdin = os.fdopen(os.dup(sys.stdin.fileno()), encoding="utf-8")
    engine = OfflineEngine(llm, OfflineSampling.model_validate_json(stdin.readline()))
    answers.write("{}\n")
    for answer in engine.answers(Prompts(stdin)):
        answers.write(f"{answer.model_dump_json()}\n")


if __name__ == "__main__":
    main()
