"""/v1/batches."""
