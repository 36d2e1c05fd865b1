"""Vector indexes over faiss: storage, search and additions. Knows nothing of text."""
