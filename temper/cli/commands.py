"""The commands of ``temper`` with their modules, in the order of its help."""

from temper.cli.lazy import LazyCommand

COMMANDS = {
    "up": LazyCommand(
        "temper.cli.up:up",
        "Start the gateway, workers and tool services on this machine; Ctrl-C stops them all.",
    ),
    "down": LazyCommand(
        "temper.cli.up:down",
        "Stop the local stack, or what is left of a killed one.",
    ),
    "open": LazyCommand(
        "temper.cli.browser:open_dashboard",
        "Open the gateway's dashboard in a browser, and print its URL.",
    ),
    "serve": LazyCommand(
        "temper.cli.serve:serve",
        "Run one service until it is stopped; configure it with TEMPER_* variables.",
    ),
    "submit": LazyCommand(
        "temper.cli.submit:submit",
        "Submit a job file (YAML or JSON): Temper's own, or a LLaMA-Factory training file.",
    ),
    "chat": LazyCommand(
        "temper.cli.chat:chat",
        "Talk to a model: a registered one, a fine-tuned one, or a checkpoint of a running job.",
    ),
    "check": LazyCommand(
        "temper.cli.check:check",
        "Validate a file as a fine-tune would: name the rows that cannot be used and, "
        "with a model, show what is trained and what of the rows is not in it.",
    ),
    "deploy": LazyCommand(
        "temper.cli.deploy:deploy",
        "Start the engine of a model before its first request.",
    ),
    "undeploy": LazyCommand(
        "temper.cli.deploy:undeploy",
        "Stop a model's engine, which its adapters share.",
    ),
    "ps": LazyCommand(
        "temper.cli.jobs:ps",
        "List jobs of all kinds, newest first, and services of the stack that do not run.",
    ),
    "show": LazyCommand(
        "temper.cli.jobs:show",
        "Show a job: status, progress, results.",
    ),
    "traj": LazyCommand(
        "temper.cli.traj:traj",
        "List the trajectories of rollouts, online training or an evaluation with "
        "tools, or show some in full.",
    ),
    "attempts": LazyCommand(
        "temper.cli.attempts:attempts",
        "List the attempts at a job, latest first: worker, devices, times, and how each ended.",
    ),
    "notes": LazyCommand(
        "temper.cli.notes:notes",
        "List the notes about a job and its trajectories, write one or delete one.",
    ),
    "audit": LazyCommand(
        "temper.cli.audit:audit",
        "Look for signs that a training's reward rose without the policy doing better.",
    ),
    "alerts": LazyCommand(
        "temper.cli.alerts:alerts",
        "List what goes wrong now, in jobs and on the gateway's disk.",
    ),
    "logs": LazyCommand(
        "temper.cli.jobs:logs",
        "Show the events of a job. With --follow, Ctrl-C detaches; the job keeps running.",
    ),
    "tail": LazyCommand(
        "temper.cli.tail:tail",
        "Print the end of a job's process log. With --follow, Ctrl-C detaches; the job "
        "keeps running.",
    ),
    "cancel": LazyCommand(
        "temper.cli.jobs:cancel",
        "Cancel a job; temper wait returns once its processes have exited.",
    ),
    "pause": LazyCommand(
        "temper.cli.jobs:pause",
        "Pause a job: it saves a checkpoint and frees its devices.",
    ),
    "resume": LazyCommand(
        "temper.cli.jobs:resume",
        "Resume a paused job from the checkpoint of its pause.",
    ),
    "retry": LazyCommand(
        "temper.cli.jobs:retry",
        "Requeue a failed job; it resumes from its last checkpoint.",
    ),
    "delete": LazyCommand(
        "temper.cli.jobs:delete",
        "Delete a finished job with its folder, events, checkpoints and models.",
    ),
    "wait": LazyCommand(
        "temper.cli.jobs:wait",
        "Wait until a job ends and exit with its code.",
    ),
    "eval": LazyCommand(
        "temper.cli.evaluate:evaluate",
        "Evaluate a model on benchmarks with one engine, wait, and print one table.",
    ),
    "compare": LazyCommand(
        "temper.cli.evals:compare",
        "Test evaluations of the same items against the first: difference, interval, p-value.",
    ),
    "batch": LazyCommand(
        "temper.cli.batch:app",
        "Prompt a model once for every record of a file.",
    ),
    "demo": LazyCommand(
        "temper.cli.demo:app",
        "Teach a tiny model a task, from data to a table of results.",
    ),
    "models": LazyCommand(
        "temper.cli.models:app",
        "The model registry.",
    ),
    "campaign": LazyCommand(
        "temper.cli.campaign:app",
        "Campaigns: an LLM proposes fine-tunes, measurements decide.",
    ),
    "datasets": LazyCommand(
        "temper.cli.datasets:app",
        "Datasets that campaigns may use.",
    ),
    "index": LazyCommand(
        "temper.cli.index:app",
        "Search indexes on this machine; needs no running stack.",
    ),
    "files": LazyCommand(
        "temper.cli.files:app",
        "Uploaded files.",
    ),
    "metrics": LazyCommand(
        "temper.cli.metrics:app",
        "Metrics of files with labels and predictions, computed here.",
    ),
    "evals": LazyCommand(
        "temper.cli.evals:app",
        "Results of evaluations, and the sample size they need.",
    ),
    "keys": LazyCommand(
        "temper.cli.keys:app",
        "API keys.",
    ),
    "webhooks": LazyCommand(
        "temper.cli.alerts:webhooks",
        "Endpoints that are told of jobs and alerts.",
    ),
}
