"""Lengths that the LLM is shown: tokens of the base model, or estimates that say why."""

from pathlib import Path

import pytest

from services.campaigns.data.benchmark import KnownItems
from services.campaigns.data.rows import Row, Rows, lengths_of_rows, made_text, read_rows, rows_made
from services.campaigns.llm.prompts import datasets_text
from services.campaigns.run.records import Attempt, Code, Feedback, Proposal
from services.campaigns.run.run import CampaignRun
from services.campaigns.steps.feedback import judge
from services.campaigns.steps.measurement import parts_of
from services.contracts.campaigns.loops import StepName
from services.contracts.data.datasets import TokenStatistics
from services.core.db.tables import ModelRow
from tests.support.campaigns.run import StoredCampaign, measured
from tests.support.campaigns.scripted_llm import Messages, ScriptedLlm
from tests.support.models.word_tokenizer import write_word_tokenizer

ROWS = [Row(instruction="Add 1 and 1", output="2"), Row(instruction="Add", output="x" * 400)]


@pytest.fixture
def run(campaign: StoredCampaign) -> CampaignRun:
    """A campaign whose base model is registered, without a tokenizer."""
    with campaign.database.write() as session:
        session.add(ModelRow(id="base", kind="full", folder="base", created_at=1.0))
    folder = campaign.settings.models_folder / "base"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "stub"}')
    campaign.create()
    return campaign.run()


def counted(run: CampaignRun, rows: list[Row]) -> TokenStatistics | None:
    found: list[TokenStatistics | None] = []

    def do() -> Attempt:
        found.append(lengths_of_rows(run, "lengths", rows))
        return Attempt()

    run.step(1, StepName.RUNNING, Attempt, do)
    return found[0]


def test_lengths_are_tokens_of_the_base_model(run: CampaignRun) -> None:
    write_word_tokenizer(run.settings.models_folder / "base")

    found = counted(run, ROWS)

    assert found is not None
    assert (found.total, found.longest, found.model) == (5 + 2, 5, "base")
    assert list(run.folder.glob("lengths*")) == [], "what was counted is not left behind"


def test_a_model_without_a_tokenizer_has_estimates_that_say_so(run: CampaignRun) -> None:
    found = counted(run, ROWS)

    assert found is not None
    assert (found.total, found.longest, found.model) == (3 + 101, 101, None)
    assert found.not_counted == "'base' has no tokenizer.json"


def test_a_model_on_a_hub_has_estimates_that_say_so(campaign: StoredCampaign) -> None:
    with campaign.database.write() as session:
        row = ModelRow(id="base", kind="full", hub_id="owner/base", created_at=1.0)
        session.add(row)
    campaign.create()

    found = counted(campaign.run(), ROWS)

    assert found is not None
    assert found.not_counted == "'base' is on a hub: its tokenizer is not here"


def test_no_rows_have_no_lengths(run: CampaignRun) -> None:
    assert counted(run, []) is None


def test_the_llm_is_shown_the_lengths_of_data_sets(run: CampaignRun) -> None:
    write_word_tokenizer(run.settings.models_folder / "base")
    shown: list[str] = []

    def do() -> Code:
        shown.append(datasets_text(run))
        return Code()

    run.step(1, StepName.CODING, Code, do)

    assert "tokens of a row: 6 on average, 6 median, 6 at 95 %, 6 at most" in shown[0]


def test_rows_that_were_removed_do_not_show_in_what_the_llm_is_told(
    run: CampaignRun, tmp_path: Path
) -> None:
    parts = parts_of(run)
    rows = [row.model_dump_json() for row in ROWS]
    rows += [Row(instruction=item.question, output="?").model_dump_json() for item in parts.final]
    data = tmp_path / "data.json"
    data.write_text(f"[{', '.join([*rows, rows[0]])}]")
    read = read_rows(data, KnownItems(parts))
    told: list[str] = []

    def do() -> Attempt:
        told.append(made_text(rows_made(run, "lengths", read)))
        return Attempt()

    run.step(1, StepName.RUNNING, Attempt, do)

    assert read.contaminated == len(parts.final)
    assert told[0].startswith(f"{3 + len(parts.final)} rows, 1 of them duplicates; tokens, estim")


def test_the_llm_that_explains_a_verdict_knows_the_data(campaign: StoredCampaign) -> None:
    def answer(_: Messages) -> str:
        return '{"Code Summary": "adds", "Reason": "data"}'

    with ScriptedLlm(answer) as llm:
        campaign.create(llm={"base_url": f"{llm.origin}/v1", "model": "scripted"})
        campaign.step(0, StepName.BASE, measured("base", 0))
        run = campaign.run()
        tokens = TokenStatistics(total=9, mean=3, median=3, p95=5, longest=5, model="base")
        attempt = Attempt.model_validate(
            {
                "measurement": measured("ft:1", 9),
                "made": {"rows": 3, "duplicates": 1, "tokens": tokens.model_dump()},
            }
        )
        run.step(
            1,
            StepName.FEEDBACK,
            Feedback,
            lambda: judge(run, Proposal(parent=0), Code(), attempt, parts_of(run)),
        )

    shown = str(llm.requests[0][-1]["content"])
    assert "Its data: 3 rows, 1 of them duplicates; tokens of a row: 3 on average" in shown


def test_rows_made_count_duplicates() -> None:
    assert Rows([], 0, [*ROWS, ROWS[0], ROWS[0]]).duplicates() == 2
