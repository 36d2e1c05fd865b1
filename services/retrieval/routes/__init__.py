"""HTTP routes: /retrieve, /v1/search, indexes and their documents."""
