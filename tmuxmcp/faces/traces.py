"""Where spans of OpenTelemetry go: to a collector over OTLP, as the `OTEL_*` variables of the server say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tmuxmcp.contract.errors import Unsupported
from tmuxmcp.machine import ourselves

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
    names = [name for name in ourselves.environment() if name.startswith("OTEL_") and name not in os.environ]
    os.environ.update({name: ourselves.environment()[name] for name in names})
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]
