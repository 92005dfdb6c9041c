"""One-file checkpoints that a crash cannot spoil."""

import os
from pathlib import Path
from typing import Any

import torch


class CheckpointError(RuntimeError):
    """The checkpoint cannot be used; the file is left as it is."""


def save(path: Path, state: dict[str, Any]) -> None:
    """Writes ``state`` beside ``path`` and renames it: readers see the old file or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + f".{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def load(path: Path) -> dict[str, Any]:
    """Reads a checkpoint to the CPU.

    Raises:
        CheckpointError: the file is missing, cut short or not a checkpoint of this recipe.
    """
    if not path.is_file():
        raise CheckpointError(f"no checkpoint {path}: run without --resume first, or give the --out of that run")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises a dozen types for damaged files
        raise CheckpointError(
            f"checkpoint {path} cannot be read ({type(error).__name__}: {str(error).splitlines()[0]}); "
            "it is left untouched, move it away to start afresh"
        ) from error
    missing = {"step", "steps", "model", "optimizer", "config"} - (state.keys() if isinstance(state, dict) else set())
    if missing:
        raise CheckpointError(f"checkpoint {path} lacks {sorted(missing)}: it was not written by this recipe")
    return state
