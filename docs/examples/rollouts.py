"""Two hundred shells on a fleet, each with a task of its own: what a training loop does with terminals.

    tmuxmcp fleet up n1 && TMUXMCP_FLEET=auto python rollouts.py [SESSIONS]

Each rollout has a session, takes some steps in its live shell, and is told exit codes and output. What becomes of a
rollout is a result or an error of its own; one that fails costs the others nothing. All sessions are ended afterwards.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

import anyio

import tmuxmcp
from tmuxmcp.nodes.fleet import Fleet

STEPS = ("cd $(mktemp -d) && git init -q 2>/dev/null; echo $((RANDOM % 7)) >dice", "test $(cat dice) -gt 0", "rm dice")
AT_ONCE = 64


async def rollout(fleet: Fleet, session_id: str) -> float:
    """The reward: how many steps went well."""
    good = 0
    for step in STEPS:
        done = await fleet.run(step, session_id, timeout_ms=20_000)
        good += done.exit_code == 0
    return good / len(STEPS)


async def main(sessions: int) -> None:
    """Make the sessions, roll out in all of them at once, and end them."""
    async with tmuxmcp.open_fleet() as fleet:
        began = time.monotonic()
        made = await fleet.create_many(sessions, "bash", at_once=AT_ONCE)
        ids = [each.session_id for each in made if not isinstance(each, tmuxmcp.TmuxMcpError)]
        failed = Counter(each.code for each in made if isinstance(each, tmuxmcp.TmuxMcpError))
        created = time.monotonic()
        rewards: dict[str, float] = {}
        room = anyio.Semaphore(AT_ONCE)

        async def one(session_id: str) -> None:
            async with room:
                try:
                    rewards[session_id] = await rollout(fleet, session_id)
                except tmuxmcp.TmuxMcpError as error:
                    failed[error.code] += 1

        async with anyio.create_task_group() as tasks:
            for each in ids:
                tasks.start_soon(one, each)
        rolled = time.monotonic()

        async def end(session_id: str) -> None:
            async with room:
                await fleet.destroy_session(session_id, True)

        async with anyio.create_task_group() as tasks:
            for each in ids:
                tasks.start_soon(end, each)
        ended = time.monotonic()
    where = Counter(each.rpartition("@")[2] for each in ids)
    print(f"{len(ids)} sessions on {len(where)} machines ({dict(sorted(where.items()))}), failed: {dict(failed)}")
    print(
        f"made in {created - began:.1f} s, {len(rewards) * len(STEPS)} commands in {rolled - created:.1f} s, ", end=""
    )
    print(f"ended in {ended - rolled:.1f} s; mean reward {sum(rewards.values()) / max(len(rewards), 1):.2f}")


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 200)
