"""The database: engine, tables, migrations. It is the source of truth about every job."""
