"""The catalog: where each file lies, and which GPUs there are."""
