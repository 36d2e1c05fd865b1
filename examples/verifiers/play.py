"""Plays one rollout in an environment of verifiers: a command for TEMPER_AGENT_COMMANDS.

Run by the Python of an environment that has `verifiers` (0.4). The job's ``arguments`` are the
configuration of the taskset, such as {"taskset": {"id": "gsm8k_v1"}}, and a row's field ``task``
is the number of its task there.
"""

import asyncio
import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx
import verifiers.v1 as vf


async def play(session: dict[str, Any]) -> float:
    """Let the session's model play its task; return the reward."""
    config = vf.SingleAgentEnvConfig.model_validate(session["arguments"])
    environment = vf.SingleAgentEnv(config)
    number = int(session["extra"].get("task", 0))
    task = next(itertools.islice(iter(environment.taskset), number, None))
    client = vf.EvalClientConfig(base_url=session["base_url"], api_key_var="OPENAI_API_KEY")
    model = vf.ModelContext(model=session["model"], client=client)
    async with environment.serving():
        episode = await environment.run_episode(task, model)
    if not episode.ok:
        found = [episode.last_error, *(trace.last_error for trace in episode.traces)]
        sys.exit(f"the episode failed: {'; '.join(error.message for error in found if error)}")
    return float(sum(trace.reward for trace in episode.traces))


def main() -> None:
    """Play the session that Temper describes, and tell its reward."""
    session = json.loads(Path(os.environ["TEMPER_SESSION"]).read_text())
    reward = asyncio.run(play(session))
    headers = {"Authorization": f"Bearer {session['api_key']}"}
    url = f"{session['base_url']}/reward"
    httpx.post(url, json={"reward": reward}, headers=headers).raise_for_status()


if __name__ == "__main__":
    main()
