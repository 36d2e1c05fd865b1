"""The commands of ``temper`` with their modules, in the order of its help."""

from temper.cli.lazy import LazyCommand

COMMANDS = {
    "up": LazyCommand(
        "temper.cli.stack.up:up",
        "Start the gateway, workers and tool services on this machine; Ctrl-C stops them all.",
    ),
    "down": LazyCommand(
        "temper.cli.stack.up:down",
        "Stop the local stack, or what is left of a killed one.",
    ),
    "open": LazyCommand(
        "temper.cli.stack.browser:open_dashboard",
        "Open the gateway's dashboard in a browser, and print its URL.",
    ),
    "serve": LazyCommand(
        "temper.cli.stack.serve:serve",
        "Run one service until it is stopped; configure it with TEMPER_* variables.",
    ),
    "submit": LazyCommand(
        "temper.cli.jobs.submit:submit",
        "Submit a job file (YAML or JSON): Temper's own, or a LLaMA-Factory training file.",
    ),
    "chat": LazyCommand(
        "temper.cli.models.chat:chat",
        "Talk to a model: a registered one, a fine-tuned one, or a checkpoint of a running job.",
    ),
    "check": LazyCommand(
        "temper.cli.jobs.check:check",
        "Validate a file as a fine-tune would: name the rows that cannot be used and, "
        "with a model, show what is trained and what of the rows is not in it.",
    ),
    "deploy": LazyCommand(
        "temper.cli.models.deploy:deploy",
        "Start the engine of a model before its first request.",
    ),
    "undeploy": LazyCommand(
        "temper.cli.models.deploy:undeploy",
        "Stop a model's engine, which its adapters share.",
    ),
    "ps": LazyCommand(
        "temper.cli.jobs.jobs:ps",
        "List jobs of all kinds, newest first, and services of the stack that do not run.",
    ),
    "show": LazyCommand(
        "temper.cli.jobs.jobs:show",
        "Show a job: status, progress, results.",
    ),
    "traj": LazyCommand(
        "temper.cli.jobs.traj:traj",
        "List the trajectories of rollouts, online training or an evaluation with "
        "tools, or show some in full.",
    ),
    "attempts": LazyCommand(
        "temper.cli.jobs.attempts:attempts",
        "List the attempts at a job, latest first: worker, devices, times, and how each ended.",
    ),
    "notes": LazyCommand(
        "temper.cli.jobs.notes:notes",
        "List the notes about a job and its trajectories, write one or delete one.",
    ),
    "audit": LazyCommand(
        "temper.cli.jobs.audit:audit",
        "Look for signs that a training's reward rose without the policy doing better.",
    ),
    "alerts": LazyCommand(
        "temper.cli.jobs.alerts:alerts",
        "List what goes wrong now, in jobs and on the gateway's disk.",
    ),
    "logs": LazyCommand(
        "temper.cli.jobs.jobs:logs",
        "Show the events of a job. With --follow, Ctrl-C detaches; the job keeps running.",
    ),
    "tail": LazyCommand(
        "temper.cli.jobs.tail:tail",
        "Print the end of a job's process log. With --follow, Ctrl-C detaches; the job "
        "keeps running.",
    ),
    "cancel": LazyCommand(
        "temper.cli.jobs.jobs:cancel",
        "Cancel a job; temper wait returns once its processes have exited.",
    ),
    "pause": LazyCommand(
        "temper.cli.jobs.jobs:pause",
        "Pause a job: it saves a checkpoint and frees its devices.",
    ),
    "resume": LazyCommand(
        "temper.cli.jobs.jobs:resume",
        "Resume a paused job from the checkpoint of its pause.",
    ),
    "retry": LazyCommand(
        "temper.cli.jobs.jobs:retry",
        "Requeue a failed job; it resumes from its last checkpoint.",
    ),
    "delete": LazyCommand(
        "temper.cli.jobs.jobs:delete",
        "Delete a finished job with its folder, events, checkpoints and models.",
    ),
    "wait": LazyCommand(
        "temper.cli.jobs.jobs:wait",
        "Wait until a job ends and exit with its code.",
    ),
    "eval": LazyCommand(
        "temper.cli.evaluations.evaluate:evaluate",
        "Evaluate a model on benchmarks with one engine, wait, and print one table.",
    ),
    "compare": LazyCommand(
        "temper.cli.evaluations.evals:compare",
        "Test evaluations of the same items against the first: difference, interval, p-value.",
    ),
    "batch": LazyCommand(
        "temper.cli.data.prompt_batch:app",
        "Prompt a model once for every record of a file.",
    ),
    "demo": LazyCommand(
        "temper.cli.stack.demo:app",
        "Teach a tiny model a task, from data to a table of results.",
    ),
    "models": LazyCommand(
        "temper.cli.models.models:app",
        "The model registry.",
    ),
    "campaign": LazyCommand(
        "temper.cli.campaigns.campaign:app",
        "Campaigns: an LLM proposes fine-tunes, measurements decide.",
    ),
    "datasets": LazyCommand(
        "temper.cli.data.datasets:app",
        "Datasets that campaigns may use.",
    ),
    "index": LazyCommand(
        "temper.cli.data.index:app",
        "Search indexes on this machine; needs no running stack.",
    ),
    "files": LazyCommand(
        "temper.cli.data.files:app",
        "Uploaded files.",
    ),
    "metrics": LazyCommand(
        "temper.cli.evaluations.metrics:app",
        "Metrics of files with labels and predictions, computed here.",
    ),
    "evals": LazyCommand(
        "temper.cli.evaluations.evals:app",
        "Results of evaluations, and the sample size they need.",
    ),
    "keys": LazyCommand(
        "temper.cli.stack.keys:app",
        "API keys.",
    ),
    "webhooks": LazyCommand(
        "temper.cli.jobs.alerts:webhooks",
        "Endpoints notified of jobs and alerts.",
    ),
}
