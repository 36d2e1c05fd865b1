"""The Celery application: messages only wake workers up."""
