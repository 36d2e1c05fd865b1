"""OpenAI's responses for served models: durable, in the background, with tools of the server."""
