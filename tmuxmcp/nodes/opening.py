"""Opens the way to many machines that the setting `fleet` names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.nodes import secret
from tmuxmcp.nodes.transport import Transport


@asynccontextmanager
async def open_transport(
    where: str, token_of: Callable[[Path], str], fleet_secret: Path, state_dir: Path | None = None
) -> AsyncIterator[Transport]:
    """The way to the machines, while this is open.

    Args:
        where: `auto`, `ray://HOST:PORT`, or a file of brokers.
        token_of: reads the token of a file.
        fleet_secret: the file of the fleet's secret; on Ray there has to be one.
        state_dir: where is kept which machines a Ray cluster has had; None: nowhere.

    Raises:
        InvalidArgument: it names no fleet, or its file is not understood.
        Unsupported: what it needs is not installed.
        IoError, PermissionDenied: its file cannot be read.
    """
    if where in ("", "off"):
        raise InvalidArgument(
            "No fleet is named.", hint="Give --fleet, or the setting fleet: a file of brokers, ray://HOST:PORT or auto."
        )
    if where == "auto" or where.startswith("ray://"):
        from tmuxmcp.nodes.ray.transport import RayTransport

        async with RayTransport.open(where, secret.read(fleet_secret), fleet_secret, state_dir) as ray:
            yield ray
        return
    from tmuxmcp.nodes.remote import HttpTransport

    async with HttpTransport.open(Path(where), token_of, secret.read_secret(fleet_secret)) as remote:
        yield remote
