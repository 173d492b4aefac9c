"""Spans of calls, as a collector of OpenTelemetry on this machine receives them from a real server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.kit.agent import Agent, ToolFailed

SECRET = "what-is-typed-is-nobodys-business"


@contextmanager
def a_collector() -> Iterator[tuple[str, list[Span]]]:
    """Where spans are sent to, and those that came."""
    spans: list[Span] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told = ExportTraceServiceRequest()
            told.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
            spans.extend(span for each in told.resource_spans for scope in each.scope_spans for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", spans
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def said(span: Span) -> dict[str, str]:
    return {each.key: each.value.string_value for each in span.attributes}


def test_each_call_is_a_span_with_its_id_and_without_its_content(state_dir: Path) -> None:
    with (
        a_collector() as (url, spans),
        Agent(state_dir, TMUXMCP_TRACES="true", TMUXMCP_PROGRAM="bash", OTEL_EXPORTER_OTLP_ENDPOINT=url) as agent,
    ):
        ran = agent.raw("run", command=f"echo {SECRET} $OTEL_EXPORTER_OTLP_ENDPOINT")
        assert ran.structured_content["output"] == f"{SECRET}\n"
        with pytest.raises(ToolFailed, match="SESSION_NOT_FOUND"):
            agent.call("read", session_id="nowhere")
    ours = {span.name: span for span in spans if span.name.startswith("tmuxmcp ")}
    assert set(ours) == {"tmuxmcp run", "tmuxmcp read"}
    assert said(ours["tmuxmcp run"]) == {"tmuxmcp.call_id": ran.meta["tmuxmcp/call"], "tmuxmcp.operation": "run"}
    assert said(ours["tmuxmcp read"])["error.type"] == "SESSION_NOT_FOUND"
    assert said(ours["tmuxmcp read"])["tmuxmcp.session_id"] == "nowhere"
    assert ours["tmuxmcp read"].status.code == Status.STATUS_CODE_ERROR
    requests = {span.span_id: span for span in spans if span.name.startswith("tools/call")}
    assert {requests[span.parent_span_id].name for span in ours.values()} == {"tools/call run", "tools/call read"}
    assert SECRET.encode() not in b"".join(span.SerializeToString() for span in spans)
