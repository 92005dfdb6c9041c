"""The folder in which torch's elastic agent keeps worker logs and error files, gone when the job is."""

import os
import subprocess
import tempfile
from types import TracebackType
from typing import Self


class ScratchFolder:
    """A temporary folder that is removed when this process ends, however it ends.

    A shell waits on a pipe that only this process holds open; ``kill -9`` closes it too, and then the shell removes
    the folder. (torchrun leaves its folder behind after every run.)

    Attributes:
        path: the folder.
    """

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="npurun_")
        theirs, self._alive = os.pipe()
        try:
            self._remover = subprocess.Popen(
                ["/bin/sh", "-c", 'read -r _; rm -rf -- "$1"', "npurun-remover", self.path], stdin=theirs,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True,  # so that a ctrl-C at the terminal does not end it early
            )  # fmt: skip
        finally:
            os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._alive)
        self._remover.wait()
