"""Indexes of passages: their format on disk, searching them and changing them."""
