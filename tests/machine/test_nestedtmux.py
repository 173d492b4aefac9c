"""Whether a process is confined more than we are, with real ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.kit.agent import eventually
from tmuxmcp.machine.witness import nestedtmux

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ([], False),
        (["setpriv", "--no-new-privs"], True),
        (["setpriv", "--bounding-set=-sys_ptrace"], True),
        (["unshare", "--mount"], True),
        (["unshare", "--user", "--map-root-user"], True),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_of_a_process_with_fewer_means(words: list[str], more: bool):
    if words and (shutil.which(words[0]) is None or subprocess.run([*words, "true"], check=False).returncode):
        pytest.skip(f"{words[0]} does not do that here")
    process = subprocess.Popen([*words, "sleep", "60"])
    try:
        eventually(lambda: os.readlink(f"/proc/{process.pid}/exe").endswith(("sleep", "busybox", "coreutils")))
        assert nestedtmux.more_than_we(process.pid) is more
    finally:
        process.kill()
        process.wait()


def test_of_a_process_that_is_gone_it_is_not_known():
    process = subprocess.Popen(["true"])
    process.wait()
    assert nestedtmux.more_than_we(process.pid)
