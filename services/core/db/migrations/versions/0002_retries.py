"""Retries: when a requeued job may start, and how far it had come at its last loss."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("not_before", sa.Float(), nullable=True))
        batch_op.add_column(
            sa.Column("progress", sa.BigInteger(), nullable=False, server_default="0")
        )
