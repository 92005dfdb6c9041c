"""Real text as bytes. Which bytes a step sees depends on the seed and the step alone, never on the ranks."""

import glob
import sysconfig
from pathlib import Path

import torch
from torch import Tensor


class ByteText:
    """A text of bytes and random windows of it.

    Args:
        pattern: glob of text files, ``None`` for the source files of Python's standard library.
        limit: bytes to read at most.

    Raises:
        ValueError: no file matches, or the files hold too little text.
    """

    def __init__(self, pattern: str | None = None, *, limit: int = 16 << 20) -> None:
        if pattern is None:
            pattern = str(Path(sysconfig.get_path("stdlib")) / "*.py")
        files = sorted(path for path in glob.glob(pattern, recursive=True) if Path(path).is_file())
        if not files:
            raise ValueError(f"no file matches {pattern!r}")
        pieces, size = [], 0
        for path in files:
            if size >= limit:
                break
            pieces.append(Path(path).read_bytes()[: limit - size])
            size += len(pieces[-1])
        self.files = len(pieces)
        self.bytes = torch.frombuffer(bytearray(b"".join(pieces) or b"\0"), dtype=torch.uint8)

    def batch(self, *, step: int, seed: int, first: int, count: int, length: int) -> Tensor:
        """Windows ``first`` to ``first + count`` of the global batch of ``step``.

        Returns:
            (count, length + 1) int64 on the CPU; inputs are ``[:, :-1]``, targets ``[:, 1:]``.

        Raises:
            ValueError: the text is shorter than one window.
        """
        windows = len(self.bytes) - length
        if windows < 1:
            raise ValueError(f"{len(self.bytes)} bytes of text are too few for windows of {length + 1}")
        rows = []
        for index in range(first, first + count):
            # One generator a window: any split of the batch over ranks draws the same windows.
            generator = torch.Generator().manual_seed((seed << 40) ^ (step << 20) ^ index)
            start = int(torch.randint(windows, (), generator=generator))
            rows.append(self.bytes[start : start + length + 1])
        return torch.stack(rows).long()
