"""How ``hccl`` is known to torch.distributed."""

import subprocess
import sys
from pathlib import Path

import torch.distributed as dist

from torch_npu.distributed import backend

ROOT = Path(__file__).resolve().parents[2]


def test_hccl_is_the_default_of_npu_and_gloo_stays_the_default_of_cpu() -> None:
    assert dist.Backend.default_device_backend_map["npu"] == "hccl"
    assert dist.Backend.default_device_backend_map["cpu"] == "gloo"
    assert dist.Backend.backend_capability["hccl"] == ["npu", "cpu"]
    assert dist.is_backend_available("hccl")


def test_registering_again_changes_nothing() -> None:
    before = dict(dist.Backend._plugins)
    backend.register()
    assert dist.Backend._plugins == before


def test_package_under_its_bare_name_refuses_to_be_imported() -> None:
    result = subprocess.run(
        [sys.executable, "-c", "import distributed"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert result.returncode != 0
    assert "import torch_npu.distributed" in result.stderr
