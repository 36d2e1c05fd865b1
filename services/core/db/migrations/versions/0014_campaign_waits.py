"""Several jobs that a campaign waits for, in place of one."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "campaign_waits",
        sa.Column("campaign_id", sa.String(length=64), nullable=False),
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], ["jobs.id"]),
        sa.PrimaryKeyConstraint("campaign_id", "job_id"),
    )
    op.execute(
        "INSERT INTO campaign_waits (campaign_id, job_id) "
        "SELECT id, awaits FROM campaigns WHERE awaits IS NOT NULL"
    )
    op.drop_column("campaigns", "awaits")
