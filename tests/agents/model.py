"""A language model that says what a script tells it, over the interfaces that Claude Code and Codex speak.

Each step of the script is one call of a tool; after the last one it says "done". What it was shown is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

SERVER = "tmuxmcp"
PREFIX = f"mcp__{SERVER}"

Step = tuple[str, dict[str, Any]] | Callable[[], tuple[str, dict[str, Any]]]
"""A tool and its arguments, or what gives them when it is their turn."""


@dataclass
class Model:
    """The script, and all that was asked."""

    steps: Sequence[Step]
    requests: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0
    any_tools: bool = False
    """Also where the tools do not have our server's name in theirs."""
    _next: int = 0
    _lock: Lock = field(default_factory=Lock)

    def take(self, request: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """The step that answers a request; None when the script is over, or the request is about something else."""
        with self._lock:
            if SERVER not in json.dumps(request.get("tools") or []) and not self.any_tools:
                return None
            self.requests.append(request)
            if self._next == len(self.steps):
                return None
            step = self.steps[self._next]
            self._next += 1
        return step() if callable(step) else step

    @property
    def shown(self) -> list[tuple[bool, str]]:
        """The results of the calls as the model got them: whether it was told of an error, and the text."""
        last = self.requests[-1]
        if "contents" in last:
            return list(_shown_by_gemini(last))
        if "input" in last:
            return list(_shown_to_codex(last))
        return list(
            _shown_in_chat(last) if any(item["role"] == "tool" for item in last["messages"]) else _shown_to_claude(last)
        )

    @property
    def tools(self) -> dict[str, dict[str, Any]]:
        """Our tools as the model was told of them: description and schema of the arguments, by our name."""
        return {name.removeprefix(SERVER).strip("_"): tool for name, tool in _tools(self.requests[-1]).items()}

    def name_of(self, request: dict[str, Any], tool: str) -> str:
        """What a client calls one of our tools."""
        names = list(_tools(request, whole=True))
        return next((name for name in names if name == tool or (SERVER in name and name.endswith(f"_{tool}"))), tool)


SCHEMAS = ("input_schema", "parameters", "parametersJsonSchema")
"""Where the schema of a tool's arguments stands, in one model's form or another's."""


def _tools(request: dict[str, Any], *, whole: bool = False) -> dict[str, dict[str, Any]]:
    """The tools of a request, by the name that follows the server's."""
    found: dict[str, dict[str, Any]] = {}
    for tool in request.get("tools") or []:
        for each in tool.get("tools") or tool.get("functionDeclarations") or [tool]:
            each = each.get("function") if isinstance(each.get("function"), dict) else each
            schema = next(
                (each[key] for key in ("input_schema", "parameters", "parametersJsonSchema") if key in each), {}
            )
            name = str(each.get("name", ""))
            of_ours = SERVER in name or SERVER in str(tool.get("name", ""))
            if whole or of_ours:
                short = name if whole else name.rpartition(SERVER)[2]
                found[short] = {"description": each.get("description", ""), "schema": schema}
    return found


def _shown_in_chat(request: dict[str, Any]) -> Iterator[tuple[bool, str]]:
    for message in request["messages"]:
        if message["role"] == "tool":
            yield False, _joined(message["content"])


def _shown_by_gemini(request: dict[str, Any]) -> Iterator[tuple[bool, str]]:
    for message in request["contents"]:
        for part in message["parts"]:
            if "functionResponse" in part:
                told = part["functionResponse"]["response"]
                yield "error" in told, str(told.get("output", told.get("error", told)))


def _shown_to_claude(request: dict[str, Any]) -> Iterator[tuple[bool, str]]:
    for message in request["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_result":
                text = _joined(block["content"])
                yield bool(block.get("is_error")), text.partition("\n\n<system-reminder>")[0]


def _shown_to_codex(request: dict[str, Any]) -> Iterator[tuple[bool, str]]:
    for item in request["input"]:
        if item.get("type") == "function_call_output":
            yield False, _joined(item["output"])


def _joined(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


@contextmanager
def served(*steps: Step) -> Iterator[Model]:
    """A model on a port of its own, on loopback."""
    model = Model(steps)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
            path = self.path.partition("?")[0]
            if path.endswith("/messages"):
                self._events(messages(model, body))
            elif path.endswith("/responses") and body.get("stream"):
                self._events(responses(model, body))
            elif path.endswith("/responses"):
                self._json(responses(model, body)[-1]["response"])
            elif path.endswith("/chat/completions"):
                self._events(chat(model, body))
            elif path.endswith("GenerateContent"):
                self._events(gemini(model, body))
            else:
                self._json({"input_tokens": 1})

        def do_GET(self) -> None:
            self._json({"data": [], "models": []})

        def _events(self, events: Sequence[dict[str, Any]]) -> None:
            text = "".join(
                (f"event: {event['type']}\n" if "type" in event else "") + f"data: {json.dumps(event)}\n\n"
                for event in events
            )
            self._answer("text/event-stream", text.encode())

        def _json(self, data: Any) -> None:
            self._answer("application/json", json.dumps(data).encode())

        def _answer(self, kind: str, data: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    model.port = server.server_address[1]
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def messages(model: Model, request: dict[str, Any]) -> list[dict[str, Any]]:
    """An answer of Anthropic's Messages, as the events of a stream."""
    step = model.take(request)
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta: dict[str, Any] = {"type": "text_delta", "text": "done"}
    if step:
        block = {
            "type": "tool_use",
            "id": f"toolu_{len(model.requests)}",
            "name": f"mcp__{SERVER}__{step[0]}",
            "input": {},
        }
        delta = {"type": "input_json_delta", "partial_json": json.dumps(step[1])}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": request.get("model"), "content": [],
               "stop_reason": None, "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip
    stop = {"stop_reason": "tool_use" if step else "end_turn", "stop_sequence": None}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]


def responses(model: Model, request: dict[str, Any]) -> list[dict[str, Any]]:
    """An answer of OpenAI's Responses, as the events of a stream."""
    step = model.take(request)
    item: dict[str, Any] = {"type": "message", "id": "m_1", "role": "assistant",
                            "status": "completed",
                            "content": [{"type": "output_text", "text": "done", "annotations": []}]}  # fmt: skip
    if step:
        number = len(model.requests)
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": step[0],
                "status": "completed", "arguments": json.dumps(step[1])}  # fmt: skip
        if PREFIX in json.dumps(request["tools"]):
            item["namespace"] = PREFIX
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_tokens_details": None,
             "output_tokens_details": None}  # fmt: skip
    whole = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "mock",
             "output": [item], "usage": usage}  # fmt: skip
    return [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]


def chat(model: Model, request: dict[str, Any]) -> list[dict[str, Any]]:
    """An answer of OpenAI's Chat Completions, as the events of a stream."""
    step = model.take(request)
    delta: dict[str, Any] = {"role": "assistant", "content": "done"}
    if step:
        function = {"name": model.name_of(request, step[0]), "arguments": json.dumps(step[1])}
        call = {"index": 0, "id": f"call_{len(model.requests)}", "type": "function", "function": function}
        delta = {"role": "assistant", "content": None, "tool_calls": [call]}
    base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": request.get("model")}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if step else "stop"}
    return [
        base | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        base | {"choices": [end], "usage": usage},
    ]


def gemini(model: Model, request: dict[str, Any]) -> list[dict[str, Any]]:
    """An answer of Gemini's `streamGenerateContent`, as the events of a stream."""
    step = model.take(request)
    part: dict[str, Any] = {"text": "done"}
    if step:
        part = {"functionCall": {"name": model.name_of(request, step[0]), "args": step[1]}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return [{"candidates": [candidate], "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1}}]
