"""The database: engine, tables, migrations. It is the truth about every job."""
