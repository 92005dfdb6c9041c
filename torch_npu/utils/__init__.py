"""Small helpers that belong to no device module."""

from torch_npu.npu.utils import get_cann_version

__all__ = ["get_cann_version"]
