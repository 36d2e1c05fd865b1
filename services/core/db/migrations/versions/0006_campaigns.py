"""Campaigns: what they wait for, their steps, and what the steps did."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "campaigns",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("awaits", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(["id"], ["jobs.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "campaign_steps",
        sa.Column("campaign_id", sa.String(length=64), nullable=False),
        sa.Column("loop", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("output", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("finished_at", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["campaign_id"], ["jobs.id"]),
        sa.PrimaryKeyConstraint("campaign_id", "loop", "name"),
    )
    op.create_table(
        "campaign_effects",
        sa.Column("campaign_id", sa.String(length=64), nullable=False),
        sa.Column("loop", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("step", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=80), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("response", sa.JSON(), nullable=False),
        sa.Column("job_id", sa.String(length=64), nullable=True),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], ["jobs.id"]),
        sa.PrimaryKeyConstraint("campaign_id", "loop", "step", "key"),
    )
    with op.batch_alter_table("campaign_effects", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_campaign_effects_job_id"), ["job_id"], unique=False)
