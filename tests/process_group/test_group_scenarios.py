"""Programs from users' reports that must work (scenarios S09, S10)."""

from collections.abc import Callable

import pytest
from rank_programs import Outcome

pytestmark = pytest.mark.ranks

RunProgram = Callable[..., list[Outcome]]

PROGRAMS = {
    "S09 cpu tensor on hccl": """
        import torch, torch.distributed as dist
        dist.init_process_group("hccl")
        x = torch.ones(1)
        dist.all_reduce(x)
        print("GOT", x.item())
        dist.destroy_process_group()
    """,
    "S10 mesh without a process group": """
        import torch, torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        mesh = init_device_mesh("npu", (2,))
        group = mesh.get_group()
        x = torch.ones(1, device="npu")
        dist.all_reduce(x, group=group)
        assert type(group._get_backend(torch.device("npu"))).__name__ == "ProcessGroupHCCL"
        assert torch.npu.current_device() == dist.get_rank()
        print("GOT", x.item())
        dist.destroy_process_group()
    """,
}


@pytest.mark.parametrize("scenario", PROGRAMS)
def test_program_of_a_users_report_works(run_program: RunProgram, scenario: str) -> None:
    for outcome in run_program(PROGRAMS[scenario], 2):
        assert outcome.code == 0, outcome.output
        assert "GOT 2.0" in outcome.output
