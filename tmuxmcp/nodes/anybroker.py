"""What faces serve: the sessions of this machine, or those of many."""

from __future__ import annotations

from tmuxmcp.broker.broker import Broker
from tmuxmcp.nodes.gateway import Gateway

AnyBroker = Broker | Gateway
