"""What a process does when it finds that ``npurun`` started it."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1  # prctl(2)


def join_launch() -> None:
    """Called when ``torch_npu`` is imported: does nothing unless this process is a worker of ``npurun``."""
    if "TORCH_NPU_LAUNCHER_PID" not in os.environ:
        return
    if os.environ.get("TORCH_NPU_DEVICE_PER_LOCAL_RANK") == "1" and "LOCAL_RANK" in os.environ:
        # The device that every thread starts on. Without it whoever forgets set_device() lands on npu:0.
        os.environ.setdefault("TORCH_NPU_DEFAULT_DEVICE", os.environ["LOCAL_RANK"])
    _follow_launcher()


def _follow_launcher() -> None:
    """Makes the kernel end this worker when its launcher dies, so that ``kill -9`` of ``npurun`` leaves nothing.

    Only a direct child of the launcher follows it: its own children (data loader workers) have their parent's
    life in hand.
    """
    launcher = os.environ["TORCH_NPU_LAUNCHER_PID"]
    if str(os.getppid()) != launcher:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if str(os.getppid()) != launcher:  # it died before the call above
        os.kill(os.getpid(), signal.SIGKILL)
