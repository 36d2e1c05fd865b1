"""Reading files of rows: JSONL, JSON and Parquet, in bounded memory."""
