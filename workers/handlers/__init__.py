"""One handler per task: read live → decide (pure) → check fresh → guarded write. They know nothing of Celery."""
