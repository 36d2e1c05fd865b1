"""The containers of rows: JSONL, plain or compressed, JSON, CSV and Parquet."""
