"""Every operation as a method, typed as its request and its result are: `await broker.run("true")`.

No argument is spelled here: a method takes what its request takes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property
from inspect import Parameter, Signature, signature
from typing import Any, Generic, ParamSpec, cast, overload

from pydantic import ValidationError
from pydantic.dataclasses import rebuild_dataclass

from tmuxmcp.contract import requests as q
from tmuxmcp.contract.call import Call, new_call_id
from tmuxmcp.contract.request import REGISTERED, Operation, R, Request
from tmuxmcp.contract.value import replace

P = ParamSpec("P")

OPERATIONS: Mapping[str, Operation] = REGISTERED
"""All operations by name, in the order of `requests`."""


class Method(Generic[P, R]):
    """A method that makes a request of its arguments and has it done."""

    def __init__(self, request: Callable[P, Request[R]]) -> None:
        self._request = cast("type[Request[R]]", request)
        self.__doc__ = request.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        assert name == self._request.operation.name
        self.__name__ = name

    @cached_property
    def _signature(self) -> Signature:
        """pydantic tells the arguments of a class that it builds when it is first needed as if a *args stood before."""
        self._request.operation.complete()
        rebuild_dataclass(self._request)  # type: ignore[arg-type]  # made by pydantic
        told = [
            each for each in signature(self._request).parameters.values() if each.kind is not Parameter.VAR_POSITIONAL
        ]
        return Signature([each.replace(kind=Parameter.POSITIONAL_OR_KEYWORD) for each in told])

    @overload
    def __get__(self, broker: None, owner: type) -> Method[P, R]: ...
    @overload
    def __get__(self, broker: Operations, owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, broker: Operations | None, owner: type) -> Method[P, R] | Callable[P, Coroutine[Any, Any, R]]:
        if broker is None:
            return self

        async def method(*args: Any, **named: Any) -> R:
            self._request.operation.complete()
            try:
                request = self._request(*args, **named)
            except ValidationError as error:
                raise self._request.operation.invalid(error) from None
            return await broker.do(request)

        method.__doc__, method.__name__ = self.__doc__, self.__name__
        method.__signature__ = self._signature  # type: ignore[attr-defined]  # for `help` and editors
        return method


class Operations(ABC):
    """Has operations done, in the name of one caller."""

    @abstractmethod
    async def do(self, request: Request[R], call: Call | None = None) -> R:
        """Do one operation.

        Args:
            call: who wants it; left out: the caller whose operations these are.

        Raises:
            TmuxMcpError: what the operation raises.
        """

    def by(self, caller: Call | str) -> Operations:
        """The same operations in the name of another caller: of a person's, if it is given by its name alone."""
        return _By(self, Call(caller, person=True) if isinstance(caller, str) else caller)

    create_session = Method(q.CreateSession)
    destroy_session = Method(q.DestroySession)
    list_sessions = Method(q.ListSessions)
    get_session = Method(q.GetSession)
    run = Method(q.Run)
    send = Method(q.Send)
    read = Method(q.Read)
    wait = Method(q.Wait)
    list_commands = Method(q.ListCommands)
    search = Method(q.Search)
    resize = Method(q.Resize)
    signal = Method(q.Signal)
    screenshot = Method(q.Screenshot)
    mouse = Method(q.Mouse)
    request_user_input = Method(q.RequestUserInput)
    run_process = Method(q.RunProcess)
    read_file = Method(q.ReadFile)
    write_file = Method(q.WriteFile)
    list_directory = Method(q.ListDirectory)
    git_status = Method(q.GitStatus)
    git_log = Method(q.GitLog)
    git_diff = Method(q.GitDiff)
    editor_action = Method(q.EditorAction)
    pager_action = Method(q.PagerAction)
    r2_open = Method(q.R2Open)
    r2_cmd = Method(q.R2Cmd)
    r2_cmdj = Method(q.R2Cmdj)
    r2_close = Method(q.R2Close)
    gdb_open = Method(q.GdbOpen)
    gdb_cmd = Method(q.GdbCmd)
    gdb_close = Method(q.GdbClose)
    start_recording = Method(q.StartRecording)
    stop_recording = Method(q.StopRecording)
    export_recording = Method(q.ExportRecording)
    health = Method(q.Health)


class _By(Operations):
    def __init__(self, whose: Operations, call: Call) -> None:
        self._whose, self._call = whose, call

    async def do(self, request: Request[R], call: Call | None = None) -> R:
        # Each call has an id of its own.
        return await self._whose.do(request, call or replace(self._call, call_id=new_call_id()))
