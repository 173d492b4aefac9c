"""A stand-in for the broker in tests of the faces, which are about forms and not about terminals.

`python -m tests.kit.double` serves it on stdio. It understands a few commands as a shell would.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any, cast

import anyio

from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import SessionNotFound
from tmuxmcp.contract.operations import Operations
from tmuxmcp.contract.request import Operation, R, Request
from tmuxmcp.contract.requests import Run
from tmuxmcp.contract.value import replace
from tmuxmcp.faces.mcp import McpFace, only_waits
from tmuxmcp.faces.stdio import serve

RUN = r.RunResult(
    session_id="sess_ab",
    exit_code=0,
    completed=True,
    outcome="ready",
    evidence="marks",
    duration_ms=12,
    cwd="/x",
    mode="shell_prompt",
    truncated=False,
    output_bytes=3,
    omitted_bytes=0,
    start_offset=100,
    end_offset=103,
    output="hi\n",
)
READ = r.ReadResult(
    session_id="sess_ab",
    view="new",
    outcome="ready",
    evidence="kernel",
    mode="line_input",
    exited=False,
    exit_code=None,
    rows=24,
    cols=80,
    cursor=r.CursorPosition(row=3, col=7, visible=True),
    matched=None,
    waited_ms=0,
    has_new_content=True,
    truncated=False,
    omitted_bytes=0,
    next_offset=103,
    content="Name: ",
)
PROCESS = r.RunProcessResult(
    rc=0,
    signal=None,
    cwd="/x",
    timed_out=False,
    truncated=False,
    encoding="utf-8",
    duration_ms=3,
    usage=r.ProcessUsage(cpu_ms=1, max_rss_kb=9000),
    stdout_bytes=3,
    stderr_bytes=5,
    stderr="oops\n",
    stdout="hi\n",
)
SUMMARY = r.SessionSummary(
    session_id="sess_ab",
    program="/bin/bash",
    args=[],
    mode="shell_prompt",
    ready=True,
    exited=False,
    exit_code=None,
    exit_signal=None,
    ended=None,
    pid=12,
    cwd="/x y",
    title="",
    rows=24,
    cols=80,
    created_at="2026-11-20T10:00:00Z",
    last_activity_at=None,
    output_bytes=0,
    healthy=True,
)
FACTS = r.SessionFacts(
    session_id="sess_ab",
    generation=1,
    program="/bin/bash",
    args=["-l"],
    pid=12,
    created_at="2026-11-20T10:00:00Z",
    cwd="/x",
    rows=24,
    cols=80,
    cursor=r.CursorPosition(row=0, col=2, visible=True),
    title="a\nb",
    mode="shell_prompt",
    foreground=r.Foreground(pid=12, command="bash"),
    ready=True,
    exited=False,
    exit_code=None,
    exit_signal=None,
    ended=None,
    healthy=True,
    last_activity_at=None,
    output_bytes=0,
    alternate_screen=False,
    recording=False,
    taken_over=None,
    usage=None,
    attach_command="tmux -S /s attach -r -t '=sess_ab'",
    watch_url=None,
)
EXAMPLES: dict[str, r.Result] = {
    "create_session": r.CreateSessionResult(
        session_id="sess_ab",
        program="/bin/bash",
        args=[],
        pid=12,
        created_at="2026-01-02T03:04:05.678Z",
        cwd="/x",
        rows=24,
        cols=80,
        mode="shell_prompt",
        ready=True,
        attach_command="tmux -S /s attach -r -t '=sess_ab'",
    ),
    "destroy_session": r.DestroySessionResult(
        session_id="sess_ab", destroyed=True, exit_code=None, exit_signal="TERM", duration_ms=5, survivors=[]
    ),
    "list_sessions": r.ListSessionsResult(count=1, sessions=[SUMMARY]),
    "get_session": FACTS,
    "run": RUN,
    "send": r.SendResult(session_id="sess_ab", sent_bytes=4, result=READ),
    "read": READ,
    "wait": r.WaitResult(
        session_id="sess_ab",
        outcome="ready",
        evidence="marks",
        matched=None,
        pattern=None,
        waited_ms=5,
        sessions=[r.WaitedSession(session_id="sess_ab", mode="shell_prompt", outcome="ready")],
    ),
    "list_commands": r.ListCommandsResult(
        session_id="sess_ab",
        count=2,
        commands=[
            r.ListedCommand(
                number=1,
                text="echo 'a\nb'",
                exit_code=0,
                started_at="2026-11-20T10:00:00.000Z",
                duration_ms=3,
                cwd="/x y",
                start_offset=100,
                end_offset=103,
                by="agent",
                level=0,
            ),
            r.ListedCommand(
                number=4,
                text=None,
                exit_code=None,
                started_at=None,
                duration_ms=None,
                cwd=None,
                start_offset=250,
                end_offset=None,
                by="other",
                level=0,
            ),
        ],
    ),
    "search": r.SearchResult(
        session_id="sess_ab",
        total=2,
        context=1,
        truncated=True,
        note="The first 1 of 2 are shown: narrow the pattern or raise limit.",
        matches=[r.Match(line=3, offset=40, text="before\nerror: x\nafter")],
    ),
    "resize": r.ResizeResult(session_id="sess_ab", rows=30, cols=100, scrollback_lines=5000),
    "signal": r.SignalResult(session_id="sess_ab", delivered=True, pids=[12]),
    "screenshot": r.ScreenshotResult(
        session_id="sess_ab",
        format="svg",
        mime_type="image/svg+xml",
        rows=24,
        cols=80,
        width=692,
        height=452,
        bytes=6,
        data="<svg/>",
    ),
    "mouse": r.MouseResult(session_id="sess_ab", sent=True, row=3, col=7),
    "run_process": PROCESS,
    "read_file": r.ReadFileResult(size=9, offset=0, next_offset=3, truncated=True, encoding="utf-8", data="hi\n"),
    "write_file": r.WriteFileResult(bytes=3),
    "list_directory": r.ListDirectoryResult(
        count=1,
        truncated=False,
        entries=[
            r.DirectoryEntry(name="a b", type="file", mode="0644", size=3, mtime="2026-11-20T10:00:00Z"),
        ],
    ),
    "git_status": r.GitStatusResult(
        root="/srv",
        branch="main",
        commit="1234567890abcdef",
        truncated=False,
        files=[r.GitFile(path="a b", staged="renamed", unstaged=None, original_path="a")],
    ),
    "git_log": r.GitLogResult(
        root="/srv",
        truncated=False,
        commits=[
            r.GitCommit(
                commit="1234567890abcdef",
                parents=[],
                author="A. Person",
                email="a@example.org",
                date="2026-11-20T10:00:00+01:00",
                subject="Begin",
                body="Because.\n",
            )
        ],
    ),
    "git_diff": r.GitDiffResult(root="/srv", truncated=True, text="-a\n+b\n"),
    "editor_action": r.EditorActionResult(
        session_id="sess_ab", program="vim.basic", mode="editor", content='one\n~\n"a" written\n'
    ),
    "pager_action": r.PagerActionResult(session_id="sess_ab", program="less", mode="pager", content="one\n:\n"),
    "r2_open": r.R2OpenResult(r2_id="r2_ab", program="radare2", messages=""),
    "r2_cmd": r.R2CmdResult(truncated=False, messages="a warning", text="0x0 nop\n"),
    "r2_cmdj": r.R2CmdjResult(messages="", json={"a": [1, None, "b"]}),
    "r2_close": r.R2CloseResult(closed=True),
    "gdb_open": r.GdbOpenResult(gdb_id="gdb_1", session_id="sess_ab", text="Reading symbols from ./a...\n"),
    "gdb_cmd": r.GdbCmdResult(
        stopped=r.GdbStopped(
            reason="breakpoint-hit", frame={"func": "main"}, exit_code=None, signal=None, thread_id="1"
        ),
        running=False,
        truncated=False,
        text="Breakpoint 1, main () at a.c:3\n",
        records=[r.GdbRecord(type="result", name="running", results={})],
    ),
    "gdb_close": r.GdbCloseResult(gdb_id="gdb_1", closed=True),
    "start_recording": r.StartRecordingResult(
        session_id="sess_ab", path="/srv/build.cast", format="cast", bytes=0, duration_s=0.0, events=0
    ),
    "stop_recording": r.StopRecordingResult(
        session_id="sess_ab",
        path="/srv/build.cast",
        format="cast",
        bytes=1200,
        duration_s=61.5,
        events=20,
        times_known=True,
        approximate=False,
        truncated=False,
    ),
    "export_recording": r.ExportRecordingResult(
        session_id="sess_ab",
        path="/srv/build.cast",
        format="cast",
        bytes=1200,
        duration_s=61.5,
        times_known=True,
        merged=False,
        approximate=False,
    ),
    "request_user_input": r.RequestUserInputResult(
        session_id="sess_ab",
        request_id="ask_0123456789ab",
        outcome="waiting",
        duration_s=50.0,
        mode="password",
        attach_command="tmux -S /x attach -r -t '=sess_ab'",
        effective_timeout_ms=50_000,
        note="Nobody has answered yet.",
    ),
    "health": r.HealthResult(
        version="0.1.0",
        tmux_version="3.3a",
        python_version="3.11.7",
        uptime_s=1.5,
        sessions=1,
        limits={"max_sessions": 32},
        checks=[r.Check(name="tmux", ok=True, message="works"), r.Check(name="disk", ok=False, message="is full")],
    ),
}


REQUIRED = {
    "run": {"command": "true"},
    "destroy_session": {"session_id": "a"},
    "search": {"pattern": "x"},
    "resize": {"rows": 1, "cols": 1},
    "signal": {"signal": "INT"},
    "mouse": {"action": "click"},
    "run_process": {"argv": ["true"]},
    "read_file": {"path": "a"},
    "write_file": {"path": "a", "data": "b"},
    "list_directory": {"path": "."},
    "git_status": {"path": "."},
    "editor_action": {"action": "save"},
    "pager_action": {"action": "quit"},
    "gdb_cmd": {"gdb_id": "gdb_1", "command": "bt"},
    "gdb_close": {"gdb_id": "gdb_1"},
    "git_log": {"path": "."},
    "git_diff": {"path": "."},
    "r2_open": {"path": "a"},
    "r2_cmd": {"r2_id": "r2_ab", "command": "pd 1"},
    "r2_cmdj": {"r2_id": "r2_ab", "command": "pdj 1"},
    "r2_close": {"r2_id": "r2_ab"},
}
"""Arguments with which each operation can be called; what is not here needs none."""


class Double(Operations):
    """Records calls, and answers with the example of each operation."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any], Call]] = []
        self.started, self.cancelled = anyio.Event(), anyio.Event()

    async def perform(self, operation: Operation, arguments: Mapping[str, Any], call: Call) -> r.Result:
        return await self.do(operation.parse(arguments), call)

    async def do(self, request: Request[R], call: Call | None = None) -> R:
        call, name = call or Call(), request.operation.name
        self.calls.append((name, request.arguments(), call))
        return cast("R", await self._ran(request.command, call) if isinstance(request, Run) else EXAMPLES[name])

    async def _ran(self, command: str, call: Call) -> r.RunResult:
        print("printed by the double")  # must not land in the protocol
        self.started.set()
        match command.split():
            case ["sleep", _]:
                await self._forever()
            case ["pause", seconds]:
                await anyio.sleep(float(seconds))
            case ["stubborn"]:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep_forever()
            case ["progress"]:
                for second in (1, 2, 3):
                    await call.progress(second, f"line {second}")
            case ["crash"]:
                raise RuntimeError("secret detail")
            case ["missing"]:
                raise SessionNotFound("No session x.", hint="list_sessions lists them.", session_id="x", at=b"\xff")
            case ["seq", last]:
                output = "".join(f"{number}\n" for number in range(1, int(last) + 1))
                return replace(RUN, output=output, output_bytes=len(output))
        return RUN

    async def _forever(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self.cancelled.set()


async def source(double: Double | None = None) -> Any:
    """What `McpFace` takes."""
    return double or Double()


async def main() -> None:
    logging.basicConfig(level=logging.INFO)
    await serve(McpFace(source).server(), only_waits)
    if "--linger" in sys.argv:
        await anyio.sleep(0.2)


if __name__ == "__main__":
    anyio.run(main)
