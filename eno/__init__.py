"""The rules: pure functions over values. No I/O, no clock, no logging, no Celery, no Kubernetes client."""
