"""How often a campaign had been rewound when each of its steps began."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply. A step that is under way keeps the number that its requests were made with."""
    op.add_column(
        "campaign_steps",
        sa.Column("rewinds", sa.BigInteger(), nullable=False, server_default="0"),
    )
    op.execute(
        "UPDATE campaign_steps SET rewinds = (SELECT campaigns.rewinds FROM campaigns "
        "WHERE campaigns.id = campaign_steps.campaign_id) "
        "WHERE campaign_id IN (SELECT id FROM campaigns)"
    )
