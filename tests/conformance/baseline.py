"""What fails in the official conformance suite, and why that is no fault: these have to fail, and all else to pass."""

from __future__ import annotations

PRODUCT = {
    "it has no tool, resource or prompt of this name (the fixtures have)": """
        tools-call-image tools-call-audio tools-call-embedded-resource tools-call-mixed-content tools-call-with-progress
        resources-read-text resources-read-binary resources-templates-read
        prompts-get-simple prompts-get-with-args prompts-get-embedded-resource prompts-get-with-image
        json-schema-2020-12
        input-required-result-basic-elicitation input-required-result-request-state
        input-required-result-multi-round input-required-result-non-tool-request
        input-required-result-result-type input-required-result-tampered-state
        input-required-result-capability-check
        server-stateless tools-call-elicitation elicitation-sep1034-defaults elicitation-sep1330-enums""",
    "it sends no log messages: MCP deprecates them with 2026-07-28": "logging-set-level tools-call-with-logging",
    "it asks no client for its model or its directories": """
        tools-call-sampling input-required-result-basic-sampling input-required-result-basic-list-roots
        input-required-result-multiple-input-requests""",
}
"""Scenarios that cannot apply to the product as it is, by reason."""

UNSCORED = {
    "a stream is not replayed: the session keeps what was printed, and `read` has it": "server-sse-polling",
    "no argument is repeated in a header": "http-custom-header-server-validation",
    "the Tasks extension is not offered: a session outlives calls by itself": """
        tasks-lifecycle tasks-capability-negotiation tasks-wire-fields tasks-request-state-removal tasks-mrtr-input
        tasks-request-headers tasks-dispatch-and-envelope tasks-required-task-error tasks-mrtr-composition""",
}
"""Scenarios that no revision requires and that we do not serve, fixtures or not, by reason."""


def names(*tables: dict[str, str]) -> set[str]:
    """The scenarios in some tables."""
    return {name for table in tables for text in table.values() for name in text.split()}
