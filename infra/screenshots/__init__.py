"""The pictures of docs/dashboard.md, taken from what the demonstrations left in a running stack."""
