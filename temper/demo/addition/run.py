"""The whole way of a fine-tune on this machine, on a task small enough for two CPU cores.

Makes a tiny base model with random weights, teaches it two-digit addition through the gateway's
REST interface, and compares its answers to held-out sums before and after. What a former run
made is used again.
"""

from temper.cli.gateway import client_of
from temper.cli.output import Output
from temper.client import DEFAULT_URL
from temper.demo.addition.data import write_data
from temper.demo.addition.outcome import AFTER_ABOVE, BEFORE_AT_MOST, Outcome, table_of, where_next
from temper.demo.addition.steps import teach
from temper.demo.models import make_model
from temper.demo.stack import local_stack
from temper.demo.steps import Demo
from temper.settings import ClientSettings
from temper.stack.state import StackFile

BASE = "tiny-base"


def run(settings: ClientSettings, out: Output) -> bool:
    """Run all steps; return whether the model has learned it."""
    out.line("(a) a tiny base model, its data and the local stack")
    model = make_model(settings, BASE, "addition/model.py", [], out)
    data = settings.home / "demo"
    write_data(data)
    with local_stack(settings, out) as url, client_of(url, settings) as client:
        outcome = teach(Demo(client, out, settings.home), model, data)
    _show(outcome, StackFile(settings.home), out)
    return outcome.has_learned


def _show(outcome: Outcome, stack: StackFile, out: Output) -> None:
    out.line("(e) what came of it")
    out.results.print(table_of(outcome))
    if not outcome.has_learned:
        limits = f"less than {BEFORE_AT_MOST} before and more than {AFTER_ABOVE} after"
        out.note(f"that is not what it should be: {limits}", "red")
    running = stack.running()
    out.line(
        "\nWhere to look next"
        + ("" if running else " (temper up starts the stack again, KEEP=1 leaves it up):")
    )
    out.line(where_next(outcome, running.url if running else DEFAULT_URL))
