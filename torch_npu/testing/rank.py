"""One rank of a :class:`~torch_npu.testing.World`: a forked process that runs what it is sent.

The fork server imports this module once, so that a rank starts with torch and the backend loaded.
"""

import faulthandler
import os
import signal
import traceback
from datetime import timedelta
from multiprocessing.connection import Connection
from multiprocessing.reduction import DupFd

import torch
import torch.distributed as dist

import torch_npu  # noqa: F401  (loaded before the fork, once for all ranks)


def serve(
    rank: int, size: int, port: int, backend: str, timeout: timedelta, environment: dict[str, str],
    requests: Connection, output: DupFd,
) -> None:  # fmt: skip
    """Joins the process group and runs requests until the connection closes.

    A request is ``(function, args)``; the answer ``("result", value)`` or ``("error", traceback)``.
    """
    # A session of its own: whatever this rank starts can be found and ended with it.
    os.setsid()
    descriptor = output.detach()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
    os.environ.update(environment)
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size),
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
    )  # fmt: skip
    torch.set_num_threads(1)
    try:
        if "npu" in backend or "hccl" in backend:
            torch.accelerator.set_device_index(rank)
        store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timeout)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
        requests.send(("result", None))
    except BaseException:
        requests.send(("error", traceback.format_exc()))
        return
    while True:
        try:
            function, args = requests.recv()
        except EOFError:
            break
        try:
            answer = ("result", function(*args))
        except BaseException:
            answer = ("error", traceback.format_exc())
        requests.send(answer)
    dist.destroy_process_group()
