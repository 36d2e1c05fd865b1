"""The bound of each alert, as it was when the alert was raised."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("alerts", sa.Column("bound", sa.Float(), nullable=True))
