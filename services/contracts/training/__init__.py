"""Fine-tuning jobs: requests, methods, rows and checks."""
