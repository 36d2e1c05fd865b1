"""POST /v1/search: modes, filters, highlights and reranking."""
