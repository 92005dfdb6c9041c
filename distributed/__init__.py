"""Distributed training on npu: the process group backend ``hccl``.

Installed as ``torch_npu.distributed``.
"""

if __name__ != "torch_npu.distributed":
    raise ImportError(
        f"this package is torch_npu.distributed, not {__name__!r}: use `import torch_npu.distributed` "
        "(a checkout's root on sys.path makes the wrong name visible; run python -P, or from elsewhere)"
    )
