"""How often a campaign was rewound."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    rewinds = sa.Column("rewinds", sa.BigInteger(), server_default="0", nullable=False)
    op.add_column("campaigns", rewinds)
