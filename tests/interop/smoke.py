"""The vendor's unmodified torch_npu wheel on our emulator: import, one MLP training step, a 2-rank all_reduce.

An independent client of the same C ABI: where the emulator drifts from it, this fails at once. Runs in an
environment of its own (build/interop), because both packages are named torch_npu. ``make interop-smoke``.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "build" / "interop"
REQUIREMENTS = ["torch==2.13.0", "torch-npu==2.13.0", "numpy", "pyyaml", "packaging"]

MLP = """
import torch, torch_npu
assert torch_npu.__version__.startswith("2.13.0"), torch_npu.__version__
assert "site-packages" in torch_npu.__file__, torch_npu.__file__
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
x, y = torch.randn(8, 16), torch.randint(4, (8,))
def step(device):
    import copy
    net = copy.deepcopy(model).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loss = torch.nn.functional.cross_entropy(net(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    return loss.item(), [p.detach().cpu() for p in net.parameters()]
(cpu_loss, cpu_weights), (npu_loss, npu_weights) = step("cpu"), step("npu")
assert abs(cpu_loss - npu_loss) < 1e-5, (cpu_loss, npu_loss)
for cpu, npu in zip(cpu_weights, npu_weights):
    torch.testing.assert_close(npu, cpu)
print("MLP step: loss", npu_loss, "as on the CPU")
"""

ALL_REDUCE = """
import os, torch, torch_npu, torch.distributed as dist
rank = int(os.environ["RANK"])
torch.npu.set_device(rank)
dist.init_process_group("hccl")
t = torch.arange(1000, dtype=torch.float32, device="npu") + rank
dist.all_reduce(t)
expected = 2 * torch.arange(1000, dtype=torch.float32) + 1
assert torch.equal(t.cpu(), expected), t
dist.destroy_process_group()
if rank == 0:
    print("all_reduce over 2 ranks: exact")
"""


def environment() -> Path:
    """Python of the environment with the vendor's wheel, made at first use."""
    python = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / "installed"
    if not stamp.exists() or stamp.read_text() != "\n".join(REQUIREMENTS):
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
        stamp.write_text("\n".join(REQUIREMENTS))
    return python


def client_environment() -> dict[str, str]:
    """This environment without anything of ours but the emulator's libraries."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TORCH_NPU", "ASCEND"))}
    # The failing operator ends the process under the wheel's launch queue; without it there is a message.
    return kept | {
        "LD_LIBRARY_PATH": str(ROOT / "torch_npu" / "emulator"), "OMP_NUM_THREADS": "1", "TASK_QUEUE_ENABLE": "0",
        "TORCH_NPU_EMULATOR_DEVICES": "2",
    }  # fmt: skip


def run(what: str, command: list[str]) -> None:
    result = subprocess.run(
        command, env=client_environment(), cwd=ENVIRONMENT, timeout=300, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    print(result.stdout, end="", flush=True)
    if result.returncode != 0:
        sys.exit(f"{what}: exit code {result.returncode}")


def main() -> None:
    python = environment()
    scripts = {"mlp.py": MLP, "all_reduce.py": ALL_REDUCE}
    for name, text in scripts.items():
        (ENVIRONMENT / name).write_text(text)
    run("MLP step", [str(python), "mlp.py"])
    run("all_reduce", [str(python), "-m", "torch.distributed.run", "--nproc-per-node", "2", "all_reduce.py"])


if __name__ == "__main__":
    main()
