"""``npurun``: torchrun for NPUs.

Takes torchrun's flags, with the same meaning, and runs ``torch.distributed.run`` in this process. On top:
``--nproc N|npu|auto``, a check of the devices before any worker starts, one device per local rank, and
OMP_NUM_THREADS by the cores that each rank can have.
"""

import argparse
import os
import signal
import sys

import torch.distributed.run as torchrun

from .devices import DeviceError, NodeDevices, find_devices
from .scratch import ScratchFolder


def build_parser() -> argparse.ArgumentParser:
    """torchrun's own parser with ``--nproc`` as one more spelling of ``--nproc-per-node``."""
    parser = torchrun.get_args_parser()
    parser.prog = "npurun"
    parser.description = "Start one worker per NPU. Every flag of torchrun means the same here."
    for action in parser._actions:
        if action.dest == "nproc_per_node":
            # argparse looks flags up in this table only, so that the alias shares default and environment.
            action.option_strings.insert(0, "--nproc")
            parser._option_string_actions["--nproc"] = action
            action.help = "Workers on this node: a number, 'npu' or 'auto' (one per visible NPU), or 'cpu'."
    return parser


def omp_threads(ranks: int) -> int:
    """Cores that each of ``ranks`` workers can have, at least one."""
    return max(1, len(os.sched_getaffinity(0)) // ranks)


def check_script(args: argparse.Namespace) -> None:
    """Refuses a script that is not there before any worker starts (each of them would say so).

    Raises:
        FileNotFoundError: no file of that name.
    """
    if args.module or args.no_python:
        return
    if not os.path.isfile(args.training_script):
        raise FileNotFoundError(
            f"no script {args.training_script!r} in {os.getcwd()}; with -m a module is run, with --no-python a program"
        )


def plan_workers(args: argparse.Namespace) -> NodeDevices | None:
    """Replaces ``npu`` and ``auto`` by a number and checks it against the devices of this node.

    Returns:
        The devices, or ``None`` for a job on the CPU (``--nproc cpu``).

    Raises:
        DeviceError: more workers than devices, or no usable device.
        ValueError: ``--nproc`` is neither a number nor a known word.
    """
    asked = str(args.nproc_per_node)
    if asked == "cpu":
        return None
    if asked in ("npu", "auto"):
        devices = find_devices(None)
        args.nproc_per_node = str(devices.count)
        return devices
    try:
        ranks = int(asked)
    except ValueError:
        raise ValueError(f"--nproc {asked}: expected a number, 'npu', 'auto' or 'cpu'") from None
    if ranks < 1:
        raise ValueError(f"--nproc {ranks}: at least one worker is needed")
    devices = find_devices(ranks)
    if ranks > devices.count:
        remedy = (
            "set TORCH_NPU_EMULATOR_DEVICES to the number wanted" if devices.emulated
            else "use fewer workers, or widen ASCEND_RT_VISIBLE_DEVICES"
        )  # fmt: skip
        raise DeviceError(f"--nproc {ranks}, but this node has {devices.count} visible NPUs: {remedy}")
    return devices


def main(argv: list[str] | None = None) -> int:
    """Entry point of the ``npurun`` command.

    Returns:
        0 when every worker ended well, 2 for a request that cannot be carried out, 1 when a worker failed,
        128 + its number after a signal.
    """
    args = build_parser().parse_args(argv)
    try:
        check_script(args)
        devices = plan_workers(args)
    except (DeviceError, FileNotFoundError, ValueError) as error:
        print(f"npurun: {error}", file=sys.stderr)
        return 2
    if devices is not None:
        ranks = int(args.nproc_per_node)
        threads = os.environ.setdefault("OMP_NUM_THREADS", str(omp_threads(ranks)))
        os.environ["TORCH_NPU_DEVICE_PER_LOCAL_RANK"] = "1"
        print(
            f"npurun: {ranks} {'rank' if ranks == 1 else 'ranks'} on {devices.describe(ranks)}, OMP_NUM_THREADS={threads}",
            file=sys.stderr,
        )
    return _run(args)


def _run(args: argparse.Namespace) -> int:
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    os.environ["TORCH_NPU_LAUNCHER_PID"] = str(os.getpid())
    try:
        if args.log_dir is not None:
            torchrun.run(args)
        else:
            with ScratchFolder() as scratch:
                args.log_dir = scratch.path
                torchrun.run(args)
    except ChildFailedError as error:
        # The worker has shown its own traceback; a second one, of the launcher, would only bury it.
        print(f"npurun: {error}", file=sys.stderr)
        return 1
    except SignalException as stop:
        print(f"npurun: stopped by {stop.sigval.name}, with all workers", file=sys.stderr)
        return 128 + stop.sigval
    except KeyboardInterrupt:
        print("npurun: stopped by SIGINT", file=sys.stderr)  # before there were workers
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    sys.exit(main())
