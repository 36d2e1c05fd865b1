"""Alembic's environment: the connection comes from services.core.db.migrate."""

from alembic import context

from services.core.db.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
