"""Makes the process group backend ``hccl`` known to :mod:`torch.distributed`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

if TYPE_CHECKING:
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL

_NAME = "hccl"


def register() -> None:
    """Register ``hccl`` for npu, where it is the default, and for CPU tensors, where gloo stays the default.

    An ``hccl`` group thus accepts CPU tensors too; they go to a gloo group that is made at the first
    one. Loads neither the extension nor CANN. Repeating it does nothing.
    """
    if _NAME.upper() in dist.Backend._plugins:
        return
    # A list: a plain string would be taken apart into its letters.
    dist.Backend.register_backend(_NAME, _create, extended_api=True, devices=["npu", "cpu"])


def _create(options: Any, pg_options: Any) -> ProcessGroupHCCL:
    """Called by ``init_process_group`` and ``new_group``, with c10d's ``_DistributedBackendOptions``."""
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL

    if pg_options is None:
        pg_options = ProcessGroupHCCL.Options()
    elif not isinstance(pg_options, ProcessGroupHCCL.Options):
        raise TypeError(
            "pg_options of an hccl group: expected torch_npu._C._distributed_c10d.ProcessGroupHCCL.Options, "
            f"got {type(pg_options).__name__}"
        )
    pg_options._timeout = options.timeout
    pg_options.group_name = options.group_id
    pg_options.global_ranks_in_group = options.global_ranks_in_group
    return ProcessGroupHCCL(options.store, options.group_rank, options.group_size, pg_options, _gloo)


def _gloo(store: dist.Store, rank: int, size: int, timeout: timedelta) -> dist.Backend:
    if not dist.is_gloo_available():
        raise RuntimeError(
            "an hccl group got a CPU tensor, and this PyTorch has no gloo to move it; move the tensor to npu"
        )
    backend = dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
    backend._set_sequence_number_for_group()
    return backend
