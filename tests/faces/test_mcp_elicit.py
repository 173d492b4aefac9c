"""Questions to the person behind a client; `tests/behaviour/test_policy.py` asks them end to end."""

from __future__ import annotations

from typing import Any, cast

import pytest
from mcp import MCPError
from mcp.types import INVALID_PARAMS, CallToolRequestParams

from tmuxmcp.faces.mcp import OpenQuestions


def test_state_of_somebody_else_is_rejected() -> None:
    params = CallToolRequestParams(name="run", request_state="not ours")
    with pytest.raises(MCPError) as caught:
        OpenQuestions().of(cast(Any, None), params)
    assert caught.value.error.code == INVALID_PARAMS
