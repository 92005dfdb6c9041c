"""The compiled extension, or the reason why it did not load.

Everything in the package reaches the extension through :data:`C`. On a broken install the package
still imports (``npu-doctor`` runs, ``import torch`` survives), and the first use of a device raises.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NoReturn

import torch

__all__ = ["C", "load_error"]

load_error: Exception | None = None


class _Missing:
    """Stands in for the extension: whatever is asked of it raises the reason for its absence."""

    def __init__(self, reason: Exception) -> None:
        self._reason = reason

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(
            f"npu devices cannot be used: the extension of torch_npu did not load ({self._reason}). "
            "Reinstall torch_npu for this torch, or build it again (make build)."
        ) from self._reason


def _release(version: str) -> str:
    """``2.13`` of ``2.13.0+cpu``: builds of one minor release have one binary interface."""
    return ".".join(version.split("+")[0].split(".")[:2])


def _load() -> object:
    global load_error
    try:
        extension = importlib.import_module("torch_npu._C")
        built = extension.built_for_torch
        if _release(built) != _release(torch.__version__):
            raise ImportError(f"it was built for torch {built}, and this is torch {torch.__version__}")
    except ImportError as error:
        load_error = error
        return _Missing(error)
    return extension


if TYPE_CHECKING:
    from torch_npu import _C as C
else:
    C = _load()
