"""Speedup from overlapping rollouts with updates (max_staleness 1 against 0).

    python -m benchmarks.rl.overlap [--steps 12] [--model FOLDER] [--engine-bound] [--load 0.33]

Trains a tiny model (a real learner; FOLDER is a model from examples/demo_1_addition/model.py) on
conversations with tools of log-normal latency. The engine is simulated: the model's output is
scripted and arrives at a fixed rate, so that only waiting differs; and for ``--load`` seconds after
each update, what loading SmolLM2-135M takes, it is paused. Turns in flight and new ones wait for
the end of a pause, as those of vLLM do. Scheduler, loop, gate, learner and the files of its weights
are those of a training. Latencies are scaled until rolling out a batch takes as
long as an update; then it trains strictly on-policy, with ``max_staleness`` 1, and on-policy again,
in one run, and prints steps per hour, their ratio, and the shares of the time in which engine and
learner were idle. With ``--engine-bound`` tools take no time, and the engine is slowed down until
sampling a batch takes twice as long as an update, as where generation is the bound.
"""

import argparse
import asyncio
import json
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import psutil
from tokenizers import Tokenizer

from benchmarks.rollouts.conversations import MEDIAN_SECONDS, Conversation, drawn
from benchmarks.rollouts.engines import END_OF_TURN
from benchmarks.rollouts.tools import DrawnLatency
from services.contracts.training.fine_tuning import Method
from services.contracts.training.online import ReinforcementMethod
from services.core.process.reporter import METRICS, Reporter
from services.core.process.runtimes import REPOSITORY, find_runtime
from services.inference.token_engine.base import SampledTokens, TurnSampling
from services.rollouts.activity import Activity
from services.rollouts.chat import open_chat_tokens
from services.rollouts.log.log import IndexedLog
from services.rollouts.log.updates import UpdateLog
from services.rollouts.loop import Rollouts
from services.rollouts.models.tokens import TokenModel
from services.trainer.rl.checkpoints import Checkpoints, TrainingPosition
from services.trainer.rl.groups import BatchBuilder, group_config
from services.trainer.rl.learner.client import LearnerClient
from services.trainer.rl.learner.protocol import LearnerSpec
from services.trainer.rl.loop import Training
from services.trainer.rl.policy_server.gate import Gate
from services.trainer.rl.policy_server.sampling_time import SamplingTime
from services.trainer.rl.prompts import PromptSampler, TrainingPrompt
from services.trainer.rl.scheduler import RolloutScheduler, staleness_scheduler
from services.trainer.rl.sources import RolloutSource
from services.trainer.rl.spec import online_method
from services.trainer.rl.weight_sync import LogprobReference, SyncReport, WeightChanges, WeightSync
from tests.support.rl.training import JudgingScorer, by_sample
from tests.support.runtimes import FOLDER

GOAL = 1.5
TOKENS_PER_SECOND = 4000.0
PROMPTS, SAMPLES = 4, 4
BUDGET = 4096
MOST_CALLS = 2
TICK = 0.05
"""Seconds of sampling between looks at the gate."""
CALIBRATIONS = 3
ENGINE_BOUND = 2.0
"""How much longer than an update a batch is sampled where generation is the bound: it takes 60 to
80 % of a step there, and updates of one run vary."""
METHOD = {
    "type": "reinforcement",
    "reinforcement": {
        "rewards": [{"name": "sample", "reward": {"type": "search_em"}}],
        "hyperparameters": {
            "prompts_per_step": PROMPTS,
            "samples_per_prompt": SAMPLES,
            "max_prompt_length": BUDGET,
            "checkpoint_steps": 1000,
            "multi_turn": {
                "multi_turn_enable": True,
                "max_total_response_length": BUDGET,
                "max_tool_response_length": 256,
            },
            "optimizer": {"learning_rate": 1e-5},
        },
    },
}


class SpokenConversations:
    """A fixed-rate engine: the n-th sample of the n-th draw returns one of the conversations. It is
    paused for ``load`` seconds to load weights."""

    def __init__(
        self, conversations: Sequence[Conversation], model: Path, rate: float, load: float
    ) -> None:
        self._rate = rate
        self._load = load
        self._gate = Gate()
        self._sampling = SamplingTime()
        self._server = self._sampling.add_server()
        encode = Tokenizer.from_file(str(model / "tokenizer.json")).encode
        self._turns = [
            [encode(turn + END_OF_TURN, add_special_tokens=False).ids for turn in each.turns]
            for each in conversations
        ]
        self._said: defaultdict[str, int] = defaultdict(int)
        self._version = 0

    @property
    def sampling_seconds(self) -> float:
        return self._sampling.seconds

    async def generate(self, _: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        session = sampling.session or ""
        draw, sample = session.split("-")[1:]
        turns = self._turns[(int(draw) * SAMPLES + int(sample)) % len(self._turns)]
        turn = turns[self._said[session]]
        self._said[session] += 1
        await self._speak(len(turn) / self._rate)
        count = len(turn)
        return SampledTokens(tuple(turn), (-5.5,) * count, (self._version,) * count, "stop")

    async def load(
        self,
        version: int,
        _folder: Path,
        _expect: LogprobReference,
        _changes: WeightChanges | None = None,
    ) -> SyncReport:
        async with self._gate.exclusive():
            with self._server.pause():
                await asyncio.sleep(self._load)
            self._version = version
        return SyncReport(version, self._load, self._load, 0.0, None)

    async def _speak(self, seconds: float) -> None:
        """Sample for so long, not counting pauses."""
        left = seconds
        while left > 0.0:
            await self._gate.wait()
            with self._server.request():
                begun = self._sampling.seconds
                await asyncio.sleep(min(left, TICK))
                left -= self._sampling.seconds - begun

    async def sleep(self) -> None:
        """Do nothing: there is no memory to release."""

    async def wake(self) -> None:
        """Do nothing: it never slept."""

    async def watch(self) -> None:
        await asyncio.Event().wait()


@dataclass(frozen=True)
class Measured:
    """Mean seconds of a step and of its parts, and mean idle shares."""

    step: float
    rollout: float
    update: float
    paused: float
    engine_idle: float
    learner_idle: float

    @classmethod
    def of(cls, metrics: Path) -> "Measured":
        """Return the means over the steps between the first and the last."""
        steps = [json.loads(line) for line in metrics.read_text().splitlines()][1:-1]
        return cls(
            step=fmean(each["step_seconds"] for each in steps),
            rollout=fmean(each["rollout_seconds"] for each in steps),
            update=fmean(each["update_seconds"] + each["sync_seconds"] for each in steps),
            paused=fmean(each["paused_seconds"] for each in steps),
            engine_idle=fmean(each["engine_idle_share"] for each in steps),
            learner_idle=fmean(each["learner_idle_share"] for each in steps),
        )

    @property
    def steps_an_hour(self) -> float:
        return 3600 / self.step


@dataclass(frozen=True)
class Pace:
    """How slow rollouts are: a factor of the tools' latencies, and tokens per second of a turn; and
    how many seconds weights take to load."""

    load: float
    latency: float = 1.0
    rate: float = TOKENS_PER_SECOND

    def calibrated(self, measured: Measured) -> "Pace":
        """The pace at which rolling out takes as long as an update, by the tools' latencies; by the
        engine, if they have none, twice as long."""
        factor = measured.update / measured.rollout
        if self.latency:
            return replace(self, latency=self.latency * factor)
        return replace(self, rate=self.rate / (factor * ENGINE_BOUND))


async def train(
    learner: LearnerClient, model: Path, pace: Pace, staleness: int, steps: int
) -> Measured:
    """Train ``steps`` steps between a first and a last one, which have nothing to overlap: no
    update runs before the first, and no rollouts are left for after the last."""
    method = Method.model_validate(METHOD)
    online = online_method(method)
    assert isinstance(online, ReinforcementMethod)
    settings = online.hyperparameters.model_copy(
        update={"max_staleness": staleness, "steps": steps + 2}
    )
    online = online.model_copy(update={"hyperparameters": settings})
    conversations = [
        replace(each, latencies=tuple(pace.latency * seconds for seconds in each.latencies))
        for each in drawn(512, seed=1)
        if len(each.latencies) <= MOST_CALLS
    ]
    chat, toolbox = open_chat_tokens(model), DrawnLatency(conversations)
    engine = SpokenConversations(conversations, model, pace.rate, pace.load)
    policy = TokenModel(engine, chat, settings.multi_turn, settings.sampling)
    activity = Activity()
    rollouts = Rollouts(policy, toolbox, settings.multi_turn, activity)
    rows = [TrainingPrompt(each.prompt) for each in conversations]
    prompts = PromptSampler(rows, 0, lambda prompt: len(prompt.messages), BUDGET)
    with (
        tempfile.TemporaryDirectory(prefix="temper-overlap-") as name,
        IndexedLog(Path(name)) as log,
        UpdateLog(Path(name), keep=0) as updates,
    ):
        folder = Path(name)
        source = RolloutSource(rollouts, JudgingScorer(by_sample), 0, activity)
        schedule = staleness_scheduler(online, 0, 0)
        scheduler = RolloutScheduler(
            prompts, source, schedule, group_config(online), 256, log.append
        )
        training = Training(
            settings=settings,
            prompts=prompts,
            scheduler=scheduler,
            batches=BatchBuilder(BUDGET),
            learner=learner,
            engine=engine,
            sync=WeightSync(learner, folder / "weights"),
            log=log,
            updates=updates,
            checkpoints=Checkpoints(folder, 1),
            reporter=Reporter(folder),
            job_dir=folder,
            first_probes=[[1, 2, 3]],
            activity=activity,
            pass_threshold=None,
        )
        await training.begin(0)
        rolling = asyncio.create_task(scheduler.run())
        await training.run(TrainingPosition())
        rolling.cancel()
        with suppress(asyncio.CancelledError):
            await rolling
        return Measured.of(folder / METRICS)


async def measure(model: Path, steps: int, pace: Pace) -> float:
    """Calibrate, measure and print; return the ratio."""
    spec = LearnerSpec(
        model=model,
        socket=Path(),
        seed=0,
        method=Method.model_validate(METHOD),
        max_response_length=BUDGET,
    )
    python = find_runtime(FOLDER, "training").python
    with tempfile.TemporaryDirectory(prefix="temper-learner-") as job_dir:
        async with LearnerClient(python, spec, Path(job_dir)) as learner:
            for _ in range(CALIBRATIONS):
                measured = await train(learner, model, pace, 0, steps)
                pace = pace.calibrated(measured)
                print(f"calibrating: {measured}", flush=True)
            runs = []
            for staleness in (0, 1, 0, 1):
                runs.append(await train(learner, model, pace, staleness, steps))
                print(f"max_staleness {staleness}: {runs[-1]}", flush=True)
    strict, overlapped = runs[0::2], runs[1::2]
    for name, each in (("strictly on-policy", strict), ("max_staleness 1", overlapped)):
        shown = ", ".join(f"{run.steps_an_hour:,.0f}" for run in each)
        waited = fmean(run.rollout for run in each)
        updated = fmean(run.update for run in each)
        print(f"{name}: {shown} steps per hour; {waited:.2f} s waiting, {updated:.2f} s updating")
        engine, learning = (
            fmean(getattr(run, side) for run in each) for side in ("engine_idle", "learner_idle")
        )
        paused = fmean(run.paused / run.step for run in each)
        print(f"  engine idle {engine:.1%} of the time, paused for {paused:.1%}")
        print(f"  learner idle {learning:.1%}")
    ratio = fmean(r.steps_an_hour for r in overlapped) / fmean(r.steps_an_hour for r in strict)
    call = pace.latency * MEDIAN_SECONDS
    print(f"overlapped / strictly on-policy: {ratio:.2f} (goal {GOAL}; median call {call:.2f} s)")
    return ratio


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rl.overlap", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--model", type=Path, help="default: a new one")
    parser.add_argument("--engine-bound", action="store_true", help="generation is the bound")
    parser.add_argument("--load", type=float, default=0.33, help="seconds of loading weights")
    given = parser.parse_args()
    cores, load = psutil.cpu_count(), psutil.getloadavg()[0]
    print(f"{cores} processors, load {load:.1f}", flush=True)
    with tempfile.TemporaryDirectory(prefix="temper-model-") as scratch:
        model = given.model or made_model(Path(scratch) / "tiny")
        asyncio.run(
            measure(model, given.steps, Pace(given.load, 0.0 if given.engine_bound else 1.0))
        )


def made_model(folder: Path) -> Path:
    """Create a tiny model with random weights."""
    script = REPOSITORY / "examples/demo_1_addition/model.py"
    python = find_runtime(FOLDER, "training").python
    subprocess.run([python, script, folder], check=True, capture_output=True, timeout=300)
    return folder


if __name__ == "__main__":
    main()
