"""What a worker started by ``npurun`` does about its launcher."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1  # prctl(2)


def follow_launcher() -> None:
    """Makes the kernel end this worker when its launcher dies, so that ``kill -9`` of ``npurun`` leaves nothing.

    Only a direct child of the launcher follows it: its own children (data loader workers) have their parent's
    life in hand.
    """
    launcher = os.environ.get("TORCH_NPU_LAUNCHER_PID")
    if launcher is None or str(os.getppid()) != launcher:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if str(os.getppid()) != launcher:  # it died before the call above
        os.kill(os.getpid(), signal.SIGKILL)
