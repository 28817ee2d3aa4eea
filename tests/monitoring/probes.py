"""A worker's probes and metrics, asked as a kubelet and a Prometheus ask for them."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from urllib3 import PoolManager

from tests.support.waiting import until
from tests.support.worker import Worker

PROBE_SECONDS = 1.0
"""A kubelet's `timeoutSeconds`, unless it is told otherwise."""


class Probes:
    """Asks one worker, whose log says where it listens."""

    def __init__(self, worker: Worker) -> None:
        (started,) = until(lambda: worker.lines("probes-started"), "the probes are served")
        self.port: int = started["port"]
        self._pool = PoolManager(retries=False, timeout=PROBE_SECONDS)

    def get(self, path: str) -> tuple[int, str]:
        """Status and body. Raises TimeoutError of urllib3 after PROBE_SECONDS."""
        with self._pool.request("GET", f"http://127.0.0.1:{self.port}{path}", preload_content=False) as answer:
            return answer.status, answer.read().decode()

    def live(self) -> bool:
        """Whether `/healthz` is content."""
        return self.get("/healthz") == (200, "ok\n")

    def ready(self) -> bool:
        """Whether `/readyz` is content."""
        return self.get("/readyz") == (200, "ok\n")

    def sample(self, name: str, **labels: str) -> float | None:
        """The sum of the samples of `/metrics` with this name and these labels, None where there is none."""
        status, text = self.get("/metrics")
        assert status == 200
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        found = [each.value for each in samples if each.name == name and labels.items() <= each.labels.items()]
        return sum(found) if found else None
