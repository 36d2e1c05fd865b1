"""Webhooks with what is to be sent to them, and alerts."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

SEQUENCE = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "webhooks",
        sa.Column("seq", SEQUENCE, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(64), nullable=False, unique=True),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("events", sa.JSON(), nullable=False),
        sa.Column("format", sa.String(16), nullable=False),
        sa.Column("secret", sa.String(100), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("seq", SEQUENCE, primary_key=True, autoincrement=True),
        sa.Column("webhook_id", sa.String(64), nullable=False),
        sa.Column("event_id", sa.String(64), nullable=False),
        sa.Column("event", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("next_attempt_at", sa.Float(), nullable=True),
    )
    op.create_index("webhook_deliveries_due", "webhook_deliveries", ["next_attempt_at"])
    op.create_index("webhook_deliveries_by_webhook", "webhook_deliveries", ["webhook_id", "seq"])
    op.create_table(
        "alerts",
        sa.Column("seq", SEQUENCE, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(64), nullable=False, unique=True),
        sa.Column("rule", sa.String(32), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("raised_at", sa.Float(), nullable=False),
        sa.Column("resolved_at", sa.Float(), nullable=True),
    )
    op.create_index("alerts_by_job", "alerts", ["job_id"])
    op.create_index("alerts_open", "alerts", ["resolved_at"])
