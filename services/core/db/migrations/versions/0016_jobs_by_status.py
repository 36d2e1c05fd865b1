"""Lists of jobs of one status, newest first, by an index."""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_index("jobs_by_status", "jobs", ["status", "seq"])
