"""Limits of sessions, and what tries to get out of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tmuxmcp.machine import cgroup

GROUPS = cgroup.places()

CONTROLLERS = {name for place in GROUPS for name in place.controllers}

DAEMON = """import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
open(sys.argv[1], "w").write(str(os.getpid()))
for fd in range(3):
    os.close(fd)
time.sleep(600)"""


def needs(controller: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(controller not in CONTROLLERS, reason=f"no cgroup with {controller} can be made here")


def daemon(tmp_path: Path) -> tuple[str, Path]:
    """A command that leaves a process behind which has no terminal, no environment and no parent of ours."""
    code, file = tmp_path / "daemon.py", tmp_path / "pid"
    code.write_text(DAEMON)
    return f"env -i /usr/bin/env python3 {code} {file} &", file


def kept(facts) -> dict[str, str]:
    return {limit.name: limit.kept_by for limit in facts.limits}


def numbers(file: Path) -> list[int]:
    return [int(word) for word in file.read_text().split()] if file.exists() else []
