"""What the HTTP service counts, in Prometheus' form. Names of operations and modes only: no ids, no text, no tokens."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from tmuxmcp.contract.errors import TmuxMcpError, Unsupported
from tmuxmcp.contract.words import EVERY_SESSION
from tmuxmcp.machine import ownprocess

if TYPE_CHECKING:
    from tmuxmcp.nodes.fleet import AnyBroker

DURATION_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50)
"""Upper bounds of the durations: from a call that waits for nothing to the longest wait."""


class Metric(NamedTuple):
    """A row of the table of metrics."""

    kind: Any
    name: str
    labels: tuple[str, ...]
    counts: str


METRICS = (
    Metric(Counter, "tmuxmcp_calls_total", ("operation",), "Calls of operations"),
    Metric(Counter, "tmuxmcp_errors_total", ("operation", "code"), "Calls that ended with an error"),
    Metric(Histogram, "tmuxmcp_call_seconds", ("operation",), "How long calls took"),
    Metric(Gauge, "tmuxmcp_calls_running", (), "Calls going on now: waits, mostly"),
    Metric(Counter, "tmuxmcp_http_requests_total", ("status",), "HTTP requests"),
    Metric(Counter, "tmuxmcp_http_bytes_total", ("direction",), "Bytes of their bodies, in and out"),
    Metric(Gauge, "tmuxmcp_viewers", (), "Those who listen for changes now"),
    Metric(Counter, "tmuxmcp_viewers_dropped_total", (), "Clients that took nothing and were let go"),
    Metric(Gauge, "tmuxmcp_sessions", ("mode",), "Sessions"),
)


class Metrics:
    """The counters of one service."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._of = {row.name: self._make_metric(row) for row in METRICS}
        for direction in ("in", "out"):
            self._of["tmuxmcp_http_bytes_total"].labels(direction)

    def _make_metric(self, row: Metric) -> Any:
        more: dict[str, Any] = {"buckets": DURATION_BUCKETS_S} if row.kind is Histogram else {}
        return row.kind(row.name, row.counts, row.labels, registry=self._registry, **more)

    @contextmanager
    def call(self, operation: str) -> Iterator[None]:
        """Count one call of an operation, with how it ended."""
        begun, code = time.perf_counter(), ""
        self._of["tmuxmcp_calls_total"].labels(operation).inc()
        self._of["tmuxmcp_calls_running"].inc()
        try:
            yield
        except TmuxMcpError as error:
            code = error.code
            raise
        except anyio.get_cancelled_exc_class():
            code = "CANCELLED"
            raise
        except Exception:
            code = "INTERNAL"
            raise
        finally:
            self._of["tmuxmcp_calls_running"].dec()
            self._of["tmuxmcp_call_seconds"].labels(operation).observe(time.perf_counter() - begun)
            if code:
                self._of["tmuxmcp_errors_total"].labels(operation, code).inc()

    def request(self, status: int, received: int, sent: int) -> None:
        """Count one HTTP request, with the bytes of both bodies."""
        self._of["tmuxmcp_http_requests_total"].labels(str(status)).inc()
        self._of["tmuxmcp_http_bytes_total"].labels("in").inc(received)
        self._of["tmuxmcp_http_bytes_total"].labels("out").inc(sent)

    def dropped(self) -> None:
        """Count a client that took nothing and was let go."""
        self._of["tmuxmcp_viewers_dropped_total"].inc()

    async def page(self, broker: AnyBroker) -> bytes:
        """All of it as text, with the sessions as they are now."""
        modes: dict[str, int] = {}
        for session in (await broker.list_sessions(limit=EVERY_SESSION)).sessions:
            modes[session.mode] = modes.get(session.mode, 0) + 1
        self._of["tmuxmcp_sessions"].clear()
        for mode, count in modes.items():
            self._of["tmuxmcp_sessions"].labels(mode).set(count)
        self._of["tmuxmcp_viewers"].set(broker.listeners)
        return generate_latest(self._registry)


# ---- Where spans of OpenTelemetry go: to a collector over OTLP, as the `OTEL_*` variables of the server say ----------

FLUSH_MS = 2000
"""Longest time that a server which ends waits until the last spans are sent."""


@contextmanager
def sent() -> Iterator[None]:
    """While this is open, the spans of this process are sent; the last ones when it is left.

    Raises:
        Unsupported: OpenTelemetry's SDK is not installed.
    """
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise Unsupported(
            f"Traces need OpenTelemetry's SDK, which is not installed: {error}.",
            hint="Install tmuxmcp[otel], or set traces to false.",
        ) from None
    with _with_otel_variables():
        provider = TracerProvider(resource=Resource.create({"service.name": "tmuxmcp"}), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.force_flush(FLUSH_MS)
        provider.shutdown()


@contextmanager
def _with_otel_variables() -> Iterator[None]:
    """The variables of OpenTelemetry, which a server withholds from its environment, while it is set up."""
    names = [name for name in ownprocess.environment() if name.startswith("OTEL_") and name not in os.environ]
    os.environ.update({name: ownprocess.environment()[name] for name in names})
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]
