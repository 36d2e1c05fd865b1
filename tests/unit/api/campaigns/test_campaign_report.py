"""The report of a campaign: its tree, best model, cost and commands, as HTML and Markdown."""

import json
import shlex
import time
from io import StringIO
from typing import Any

import pytest

from services.api.campaigns.report.collect import collect_report
from services.api.campaigns.report.commands import Curl
from services.api.campaigns.report.sections import campaign_document
from services.contracts.campaigns.llms import LlmRole
from services.contracts.campaigns.reports import CampaignReport
from services.core.db.engine import Database
from services.core.db.tables import CampaignEffectRow, CampaignStepRow, JobRow
from services.jobs.job import REMOTE_SLOT, NewJob
from services.jobs.queues import CAMPAIGN, TRAINING
from services.jobs.store import create_job, get_job
from services.metrics.reports.html_page import write_html
from services.metrics.reports.markdown import write_markdown

ID = "campaign-1"
CURL = Curl("http://127.0.0.1:8080/", needs_key=False)
HOUR = 3600.0
REQUEST: dict[str, Any] = {
    "base_model": "base",
    "scenario": "Add two numbers.",
    "file": "file-1",
    "datasets": [{"name": "sums", "file": "file-2"}],
    "llm": {"base_url": "http://127.0.0.1:4000/v1", "model": "strong", "temperature": None},
}
HOSTILE = "<script>alert(1)</script> | `x` [a](javascript:b)\n# Title"


def render_html(report: CampaignReport) -> str:
    page = StringIO()
    write_html(page, campaign_document(report))
    return page.getvalue()


def render_markdown(report: CampaignReport) -> str:
    page = StringIO()
    write_markdown(page, campaign_document(report))
    return page.getvalue()


def scores(right: int, of: int = 20) -> dict[str, float]:
    return {str(item): float(item < right) for item in range(of)}


def measured(model: str, search: int, final: int) -> dict[str, Any]:
    return {"model": model, "search": scores(search), "final": scores(final), "wrong": []}


def comparison(difference: float, half: float) -> dict[str, Any]:
    interval = (difference - half, difference + half)
    return {
        "samples": 20,
        "difference": difference,
        "ci95": interval,
        "improves": interval[0] > 0,
    }


class Records:
    """Writes the records of a campaign as its worker would."""

    gpus: int | None = 2

    def __init__(self, database: Database, **request: Any) -> None:
        self.database = database
        new = NewJob(ID, "campaign", CAMPAIGN.work, CAMPAIGN.validation, {**REQUEST, **request})
        with database.write() as session:
            create_job(session, new)
        self.step(0, "base", measured("base", 2, 3))

    def step(self, loop: int, name: str, output: dict[str, Any] | None) -> None:
        with self.database.write() as session:
            row = CampaignStepRow(campaign_id=ID, loop=loop, name=name, started_at=1.0)
            row.output = output
            session.add(row)

    def attempt(self, loop: int, parent: int, right: int, *, accepted: bool) -> None:
        self.step(loop, "direct_exp_gen", {"parent": parent, "hypothesis": f"idea {loop}"})
        measurement = measured(f"ft:{loop}", right, right)
        running = {"rows": 90, "contaminated": 3, "measurement": measurement}
        self.step(loop, "running", running)
        gain = comparison(right / 20 - 0.1, 0.05)
        verdict = {"accepted": accepted, "comparison": gain, "reason": f"lesson {loop}"}
        self.step(loop, "feedback", verdict)
        self._training(loop)

    def _training(self, loop: int) -> None:
        job_id = f"ftjob-{loop}"
        request = {"model": "base", "training_file": f"file-{loop}", "suffix": None}
        new = NewJob(
            job_id, "fine_tuning", TRAINING.work, TRAINING.validation, request, gpus=self.gpus
        )
        with self.database.write() as session:
            create_job(session, new)
            row = session.query(JobRow).filter_by(id=job_id).one()
            row.started_at = time.time() - HOUR
            row.finished_at = row.started_at + HOUR / 2
            place = {"campaign_id": ID, "loop": loop, "created_at": 1.0}
            tokens = {"prompt_tokens": 100, "completion_tokens": 10}
            none = {"prompt_tokens": 0, "completion_tokens": 0}
            job = {"step": "running", "key": "train", "seq": 0, "response": {}, "job_id": job_id}
            call = {"step": "coding", "key": "coding.1", "seq": 0, "response": {"answer": "x"}}
            session.add(CampaignEffectRow(**place, **job, **none))
            session.add(CampaignEffectRow(**place, **call, **tokens))

    def report(self) -> CampaignReport:
        with self.database.read() as session:
            return collect_report(session, get_job(session, ID), CURL)


@pytest.fixture
def records(database: Database) -> Records:
    records = Records(database)
    records.attempt(1, 0, 10, accepted=True)
    records.attempt(2, 1, 4, accepted=False)
    records.attempt(3, 0, 9, accepted=False)
    records.attempt(4, 1, 18, accepted=True)
    return records


def test_attempts_are_nested_under_their_parent(records: Records) -> None:
    report = records.report()

    placed = [(attempt.loop, attempt.depth) for attempt in report.attempts]
    assert placed == [(0, 0), (1, 1), (2, 2), (4, 2), (3, 1)]
    assert (report.lineage, report.best_model) == ([0, 1, 4], "ft:4")


def test_an_attempt_whose_parent_is_not_chosen_yet_is_shown(records: Records) -> None:
    records.step(5, "direct_exp_gen", None)

    assert (5, 1) in [(each.loop, each.depth) for each in records.report().attempts]


def test_a_chain_of_a_thousand_attempts_has_a_report(database: Database) -> None:
    records = Records(database)
    for loop in range(1, 1001):
        records.step(loop, "direct_exp_gen", {"parent": loop - 1, "hypothesis": "again"})

    report = records.report()

    assert report.attempts[-1].depth == 1000
    assert "Loop 1000" in render_html(report)
    assert "Loop 1000" in render_markdown(report)


def test_the_best_model_is_compared_with_the_base_on_the_final_part(records: Records) -> None:
    final = records.report().final

    assert final is not None
    assert (final.samples, final.base_score, final.best_score) == (20, 0.15, 0.9)
    assert final.difference == pytest.approx(0.75)
    assert 0 < final.ci95[0] < final.ci95[1] <= 1
    assert final.p_value < 0.001


def test_lower_scores_are_gains_where_lower_is_better(database: Database) -> None:
    records = Records(database, higher_is_better=False)
    records.attempt(1, 0, 1, accepted=True)

    final = records.report().final

    assert final is not None
    assert (final.base_score, final.best_score) == (0.15, 0.05)
    assert final.difference == pytest.approx(0.1)


def test_items_without_a_score_never_make_a_model_look_better(database: Database) -> None:
    records = Records(database, higher_is_better=False)
    silent = measured("ft:1", 1, 1)
    silent["search"], silent["final"] = dict.fromkeys(scores(1)), dict.fromkeys(scores(1))
    records.step(1, "running", {"measurement": silent})
    records.step(1, "feedback", {"accepted": True})

    report = records.report()

    assert report.attempts[-1].search_score is None
    assert report.final is not None
    assert (report.final.base_score, report.final.best_score) == (0.15, 1.0)
    assert report.final.ci95[1] < 0


def test_the_final_part_is_compared_over_what_is_known_of_its_samples(database: Database) -> None:
    """A sample of sixteen without a score; one item of which an earlier version stored less."""
    records = Records(database, samples_per_item=16, sampling={"temperature": 0.7})
    ungraded = {"given": 15 / 16, "missing": 1 / 16}
    with database.write() as session:
        base = {
            **measured("base", 0, 0),
            "final": {**dict.fromkeys(scores(1), ungraded), "3": None},
        }
        session.get_one(CampaignStepRow, (ID, 0, "base")).output = base
    wrong = {**measured("ft:1", 0, 0), "final": dict.fromkeys(scores(1), 15 / 16)}
    records.step(1, "running", {"measurement": wrong})
    records.step(1, "feedback", {"accepted": True})

    report = records.report()

    assert report.final is not None
    assert (report.final.samples, report.final.left_out, report.final.difference) == (19, 1, 0.0)
    assert report.attempts[0].final_score == pytest.approx(19 / 20 * 15 / 16)


def test_items_that_the_infrastructure_lost_are_compared_of_no_model(database: Database) -> None:
    """Equal answers, of which some were lost of the base model."""
    records = Records(database)
    records.attempt(1, 0, 20, accepted=True)
    with database.write() as session:
        base = measured("base", 20, 20)
        lost = {"search": ("0", "1"), "final": ("2", "3", "4")}
        for part, items in lost.items():
            base[part] = {item: score for item, score in base[part].items() if item not in items}
            base[f"{part}_left_out"] = len(items)
        session.query(CampaignStepRow).filter_by(loop=0).one().output = base

    report = records.report()
    page = render_markdown(report)

    assert report.final is not None
    assert (report.final.samples, report.final.left_out) == (17, 3)
    assert (report.final.base_score, report.final.difference) == (1.0, 0.0)
    first = report.attempts[0]
    assert (first.search_score, first.search_left_out, first.final_left_out) == (1.0, 2, 3)
    assert "over 17 items (3 left out)" in page
    assert "Base: 2 items of the search part and 3 items of the final part" in page


def test_a_final_part_of_which_all_was_lost_is_not_compared(database: Database) -> None:
    records = Records(database)
    silent = {**measured("ft:1", 9, 9), "final": {}, "final_left_out": 20}
    records.step(1, "running", {"measurement": silent})
    records.step(1, "feedback", {"accepted": True})

    report = records.report()

    assert report.final is None
    assert report.attempts[-1].final_score is None
    assert "Lost to the infrastructure" in render_html(report)


def test_costs_are_those_of_calls_and_jobs(records: Records) -> None:
    cost = records.report().cost

    assert (cost.llm_calls, cost.prompt_tokens, cost.completion_tokens) == (4, 400, 40)
    assert cost.jobs == {"fine_tuning": 4}
    assert cost.job_hours["fine_tuning"] == pytest.approx(2.0)
    assert cost.gpu_hours == pytest.approx(4.0)


@pytest.mark.parametrize(("gpus", "hours"), [(None, 0.5), (0, 0.0), (REMOTE_SLOT, 0.0)])
def test_gpu_hours_are_counted_as_in_the_budget(
    database: Database, gpus: int | None, hours: float
) -> None:
    records = Records(database)
    records.gpus = gpus
    records.attempt(1, 0, 10, accepted=True)

    assert records.report().cost.gpu_hours == pytest.approx(hours)


def test_tokens_have_a_cost_where_the_llm_has_a_price(database: Database) -> None:
    price = {"prompt": 10_000.0, "completion": 50_000.0}
    records = Records(database, llm={**REQUEST["llm"], "price": price})
    records.attempt(1, 0, 10, accepted=True)

    report = records.report()

    assert report.cost.llm_cost == pytest.approx(1.5)
    assert "cost 1.5000" in render_markdown(report)
    assert "cost 1.5000" in render_html(report)


def test_every_role_has_the_cost_of_its_own_llm(database: Database) -> None:
    price = {"prompt": 10_000.0, "completion": 50_000.0}
    weak = {**REQUEST["llm"], "model": "weak"}
    records = Records(
        database, llm={**REQUEST["llm"], "price": price}, llm_by_role={"coding": weak}
    )
    records.attempt(1, 0, 10, accepted=True)
    with database.write() as session:
        session.add(
            CampaignEffectRow(
                campaign_id=ID,
                loop=1,
                step="coding",
                key="coding.99",
                seq=99,
                response={"answer": "x"},
                prompt_tokens=7,
                completion_tokens=2,
                created_at=1.0,
            )
        )

    report = records.report()

    coding = report.cost.llm_by_role[LlmRole.CODING]
    assert (coding.model, coding.cost) == ("weak", None)
    assert coding.prompt_tokens >= 7
    assert report.cost.llm_cost is None, "one of the LLMs has no price"
    assert "coding by weak" in render_markdown(report)
    assert "coding by weak" in render_html(report)


def test_cached_answers_are_counted_apart_from_paid_ones(database: Database) -> None:
    records = Records(database, answer_cache={"read": True})
    records.attempt(1, 0, 10, accepted=True)
    with database.write() as session:
        for number in (1, 2):
            session.add(
                CampaignEffectRow(
                    campaign_id=ID,
                    loop=1,
                    step="direct_exp_gen",
                    key=f"proposal.{number}",
                    seq=number,
                    response={"answer": "x", "saved_tokens": 60},
                    prompt_tokens=0,
                    completion_tokens=0,
                    created_at=1.0,
                )
            )

    report = records.report()

    assert (report.cost.llm_calls, report.cost.prompt_tokens) == (1, 100)
    proposal = report.cost.llm_by_role[LlmRole.PROPOSAL]
    assert (proposal.calls, proposal.cached_answers, proposal.saved_tokens) == (0, 2, 120)
    for page in (render_markdown(report), render_html(report)):
        assert page.count("2 answers from the cache, 120 tokens saved") == 1


def test_the_commands_repeat_the_best_training_and_the_campaign(records: Records) -> None:
    report = records.report()

    assert report.reproduce_model is not None
    words = shlex.split(report.reproduce_model)
    assert words[:4] == ["curl", "-X", "POST", "http://127.0.0.1:8080/v1/fine_tuning/jobs"]
    asked = {"model": "base", "training_file": "file-4", "suffix": None}
    assert json.loads(words[-1]) == asked
    campaign = json.loads(shlex.split(report.reproduce_campaign)[-1])
    assert campaign["scenario"] == "Add two numbers."
    assert campaign["llm"] == {
        "base_url": "http://127.0.0.1:4000/v1",
        "model": "strong",
        "temperature": None,
    }


def test_a_command_for_a_gateway_with_keys_takes_the_key_from_the_shell() -> None:
    command = Curl("http://h:1", needs_key=True).post("/v1/x", {"text": "it's $HOME", "seed": None})

    assert '-H "Authorization: Bearer $TEMPER_API_KEY"' in command
    assert json.loads(shlex.split(command)[-1]) == {"text": "it's $HOME", "seed": None}


def test_a_new_campaign_has_a_report(database: Database) -> None:
    report = Records(database).report()

    assert report.lineage == [0]
    assert (report.final, report.reproduce_model) == (None, None)
    assert "Nothing yet." in render_markdown(report)
    assert "Nothing yet." in render_html(report)


def test_pages_show_scores_with_intervals_and_lessons(records: Records) -> None:
    for page in (render_html(records.report()), render_markdown(records.report())):
        assert "0.9000" in page
        assert "+0.8000 (+0.7500 to +0.8500)" in page
        assert "lesson 3" in page
        assert "base model → loop 1 → loop 4" in page


def test_texts_of_the_llm_are_escaped(records: Records) -> None:
    records.step(5, "direct_exp_gen", {"parent": 4, "hypothesis": HOSTILE})
    verdict = {"accepted": False, "reason": HOSTILE, "failed": {"failure": "DATA", "message": "x"}}
    records.step(5, "feedback", verdict)

    html, markdown = render_html(records.report()), render_markdown(records.report())

    assert "<script" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "\n# Title" not in markdown
    assert (
        r"&lt;script&gt;alert(1)&lt;/script&gt; \| \`x\` \[a\](javascript:b) \# Title" in markdown
    )
    assert "failed: DATA" in html


def test_the_policies_are_shown(database: Database) -> None:
    policies = {"acceptance": {"by": "mean", "above": 0.25}, "seeds": {"most": 4}}
    report = Records(database, **policies).report()

    for page in (render_html(report), render_markdown(report)):
        assert "the mean of the gain above 0.25" in page
        assert "4 where the search part has fewer than 100 items" in page


def test_long_texts_are_truncated(records: Records) -> None:
    records.step(5, "direct_exp_gen", {"parent": 4, "hypothesis": "x" * 100_000})

    assert len(render_html(records.report())) < 50_000


def test_the_best_model_is_that_of_the_last_accepted_verdict(records: Records) -> None:
    with records.database.write() as session:
        row = session.get_one(CampaignStepRow, (ID, 1, "feedback"))
        row.output = {**(row.output or {}), "order": 5}

    assert records.report().best_model == "ft:1"


def test_a_trial_is_not_the_training_of_its_loop(records: Records) -> None:
    new = NewJob("ftjob-trial", "fine_tuning", TRAINING.work, TRAINING.validation, {})
    with records.database.write() as session:
        create_job(session, new)
        session.add(
            CampaignEffectRow(
                campaign_id=ID,
                loop=1,
                step="coding",
                key="trial-1",
                seq=9,
                response={"id": "ftjob-trial"},
                job_id="ftjob-trial",
                prompt_tokens=0,
                completion_tokens=0,
                created_at=1.0,
            )
        )

    assert {each.loop: each.training_job for each in records.report().attempts}[1] == "ftjob-1"


def test_seeds_are_shown_with_their_scores(records: Records) -> None:
    seeds = [{"seed": seed, **measured(f"ft:5-{seed}", 10 + seed, 3)} for seed in range(3)]
    note = "3 of 4 seeds: more would take over 50% of what the limit of hours leaves"
    found = {**measured("ft:5-0", 11, 3), "seeds": seeds, "seeds_note": note}
    records.step(5, "direct_exp_gen", {"parent": 4, "hypothesis": "again"})
    records.step(5, "running", {"measurement": found})
    records.step(5, "feedback", {"accepted": True, "order": 9})

    report = records.report()

    (shown,) = (each.seeds for each in report.attempts if each.loop == 5)
    assert [each.search_score for each in shown] == [0.5, 0.55, 0.6]
    assert report.final is not None
    assert (report.final.base_seeds, report.final.best_seeds) == (1, 3)
    for page in (render_html(report), render_markdown(report)):
        assert "3 seeds" in page
        assert "ft:5-2" in page
        assert note in page
        assert "1 of the base model, 3 of the best" in page


def test_the_training_of_the_first_seed_is_the_one_to_repeat(records: Records) -> None:
    job_id = "ftjob-seed-1"
    new = NewJob(job_id, "fine_tuning", TRAINING.work, TRAINING.validation, {})
    with records.database.write() as session:
        create_job(session, new)
        place = {"campaign_id": ID, "loop": 4, "step": "running", "created_at": 1.0}
        none = {"prompt_tokens": 0, "completion_tokens": 0}
        job = {"key": "train.seed-1", "seq": 9, "response": {}, "job_id": job_id}
        session.add(CampaignEffectRow(**place, **none, **job))

    attempts = {each.loop: each.training_job for each in records.report().attempts}

    assert attempts[4] == "ftjob-4"
