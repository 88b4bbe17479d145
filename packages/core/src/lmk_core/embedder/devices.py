"""Encoding on one device here, or on several with a process for each."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lmk_core.embedder.batches import BatchOptions, BatchRunner, evaluating
from lmk_core.encoders import PooledEncoder
from lmk_core.layouts import Layouts

Result = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Indices of layouts, and their vectors (or all their pooled positions')."""

_DIED = (
    "a process of encode(devices=...) died; killed by the system for its memory, or the script that calls it "
    'lacks `if __name__ == "__main__":`'
)


class OneDevice:
    """Runs in this process, where the model is."""

    def __init__(self, runners: Sequence[BatchRunner]) -> None:
        self.runners = runners

    def run(self, reading: int, layouts: Layouts) -> Iterator[Result]:
        runner = self.runners[reading]
        for indices in runner.batches(layouts.lengths):
            yield indices, runner.run(layouts.select(indices))


class DeviceProcesses:
    """Runs in processes, one for each device; a batch goes to whichever is free.

    A process ends with its pipe: none stays behind when this one is killed.
    """

    def __init__(self, connections: Sequence[Connection], planners: Sequence[BatchRunner]) -> None:
        self.connections = connections
        self.planners = planners

    def run(self, reading: int, layouts: Layouts) -> Iterator[Result]:
        batches = self.planners[reading].batches(layouts.lengths)
        working: dict[Any, NDArray[np.int64]] = {}
        free = list(self.connections)
        while True:
            while free and (indices := next(batches, None)) is not None:
                connection = free.pop()
                _send(connection, (reading, layouts.select(indices)))
                working[connection] = indices
            if not working:
                return
            for connection in wait(list(working)):
                yield working.pop(connection), _received(connection)  # ty: ignore[invalid-argument-type]
                free.append(connection)  # ty: ignore[invalid-argument-type]


Running = OneDevice | DeviceProcesses
"""What runs layouts through one of several readings of a model: all vectors, batch by batch, in any order."""


@contextmanager
def running(
    modules: Sequence[PooledEncoder], pad_id: int, options: BatchOptions, devices: Sequence[str | torch.device] | None
) -> Generator[Running]:
    """A way to run these readings of one model.

    Args:
        modules: the readings; they share their encoder.
        pad_id: of the tokenizer.
        options: of the batches.
        devices: one process each; None is the model's own device, in this process.
    """
    if devices is None:
        with ExitStack() as stack:
            for module in modules:
                stack.enter_context(evaluating(module))
            device = next(modules[0].parameters()).device
            yield OneDevice([BatchRunner(module, device, pad_id, options) for module in modules])
        return
    chosen = [torch.device(device) for device in devices]
    if not chosen:
        raise ValueError("devices: an empty list; name at least one, for example ['cuda:0', 'cuda:1']")
    processes, connections = _started(modules, pad_id, options, chosen)
    try:
        yield DeviceProcesses(connections, [BatchRunner(module, chosen[0], pad_id, options) for module in modules])
    finally:
        for connection in connections:
            connection.close()
        for process in processes:
            process.join(10)
            if process.is_alive():
                process.terminate()


def _started(
    modules: Sequence[PooledEncoder], pad_id: int, options: BatchOptions, devices: Sequence[torch.device]
) -> tuple[list[Any], list[Connection]]:
    context = torch.multiprocessing.get_context("spawn")
    # The weights go over in shared memory, which a GPU's do not share.
    shared = list(modules)
    if next(modules[0].parameters()).device.type != "cpu":
        shared = copy.deepcopy(shared)
        shared = [module.to("cpu") for module in shared]
    threads = max(torch.get_num_threads() // len(devices), 1)
    processes, connections = [], []
    for device in devices:
        mine, its = context.Pipe()
        process = context.Process(target=_work, args=(its, shared, pad_id, options, str(device), threads), daemon=True)
        process.start()
        its.close()
        processes.append(process)
        connections.append(mine)
    return processes, connections


def _work(
    connection: Connection,
    modules: Sequence[PooledEncoder],
    pad_id: int,
    options: BatchOptions,
    device: str,
    threads: int,
) -> None:
    """One process: answers each batch with its vectors or the error, until the pipe is closed."""
    torch.set_num_threads(threads)
    with ExitStack() as stack:
        runners = []
        for module in modules:
            stack.enter_context(evaluating(module))
            runners.append(BatchRunner(module.to(device), torch.device(device), pad_id, options))
        while True:
            try:
                reading, layouts = connection.recv()
            except (EOFError, OSError):
                return
            try:
                answer: Any = runners[reading].run(layouts)
            except Exception as error:  # noqa: BLE001 - it is raised again in the process that asked
                answer = _portable(error)
            try:
                connection.send(answer)
            except (BrokenPipeError, OSError):
                return


def _portable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - an exception of any class may refuse
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _send(connection: Connection, batch: tuple[int, Layouts]) -> None:
    try:
        connection.send(batch)
    except (BrokenPipeError, ConnectionResetError):
        raise RuntimeError(_DIED) from None


def _received(connection: Connection) -> NDArray[np.float32]:
    try:
        answer = connection.recv()
    except (EOFError, ConnectionResetError):
        raise RuntimeError(_DIED) from None
    if isinstance(answer, Exception):
        raise answer
    return answer
