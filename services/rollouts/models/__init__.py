"""The model's side of conversations: as token ids, or as messages of a chat endpoint."""
