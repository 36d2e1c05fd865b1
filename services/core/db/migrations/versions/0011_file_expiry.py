"""Files that are deleted after a time."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("files", sa.Column("expires_at", sa.Float(), nullable=True))
