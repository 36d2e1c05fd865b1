"""``temper audit``: whether the reward of a training was earned."""

from temper.cli.gateway import connect
from temper.cli.jobs.jobs import JobId
from temper.cli.output import JsonOption, Output


def audit(job_id: JobId, as_json: JsonOption = False) -> None:
    """Look for signs that a training's reward rose without the policy doing better."""
    out = Output(as_json)
    with connect() as client:
        report = client.trajectories.audit(job_id)
    if as_json:
        out.document(report)
        return
    rows = [
        (
            check.name.value,
            "found" if check.flagged else "",
            *(_shown(value) for value in (check.first, check.last, check.p_value)),
            check.message,
        )
        for check in report.checks
    ]
    out.table(("SIGN", "FOUND", "FIRST", "LAST", "P", "MESSAGE"), rows)
    verdict = "the reward may be gamed" if report.flagged else "no sign of a gamed reward"
    out.note(f"{verdict}; {report.first_samples} samples against {report.last_samples}")


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
