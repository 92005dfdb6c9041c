"""Train a small language model with DistributedDataParallel.

    npurun --nproc 8 recipes/llama/train.py            # 8 NPUs, emulated where there are none
    npurun --nproc 8 recipes/llama/train.py --resume   # go on from the checkpoint in --out
    python recipes/llama/train.py --device cpu         # one process, the reference

The global batch is the same for any number of ranks, so the losses are too (up to the order of float sums).
"""

import argparse
import math
import os
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from checkpoint import CheckpointError, load, save
from data import ByteText
from model import Decoder, ModelConfig
from report import Metrics, draw_loss, progress_bar
from torch.nn.parallel import DistributedDataParallel

DEFAULT_STEPS = 100


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--steps", type=int, help="steps of the whole run, resumed ones included (default 100; resumed: to the end of "
        "that run, 100 more if it had ended)",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("out/llama"), help="where metrics, picture and checkpoint go")
    parser.add_argument("--data", metavar="GLOB", help="text files (default: Python's standard library)")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--global-batch", type=int, default=32, help="sequences a step, over all ranks")
    parser.add_argument("--sequence", type=int, default=128, help="bytes a sequence")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--warmup", type=int, default=10, help="steps until the full learning rate")
    parser.add_argument("--clip", type=float, default=1.0, help="largest gradient norm")
    parser.add_argument("--bf16", action="store_true", help="forward in bfloat16 autocast")
    parser.add_argument("--save-every", type=int, default=50, help="steps between checkpoints")
    parser.add_argument("--device", default="npu", help="npu or cpu")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    arguments = parser.parse_args(argv)
    for name in ("steps", "global_batch", "sequence", "save_every"):
        if getattr(arguments, name) is not None and getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, got {getattr(arguments, name)}")
    return arguments


def learning_rate(step: int, *, steps: int, warmup: int, peak: float) -> float:
    """Linear warm-up to ``peak``, then a cosine down to a tenth of it."""
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    return peak * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, progress))))


def planned_steps(state: dict[str, Any] | None) -> int:
    """Length of a run whose ``--steps`` is not given: 100, or what the checkpoint's run had before it."""
    if state is None:
        return DEFAULT_STEPS
    return state["steps"] if state["step"] < state["steps"] else state["step"] + DEFAULT_STEPS


def join_job(device_type: str) -> tuple[int, int, torch.device]:
    """Rank, world size and device; joins the process group of ``npurun`` where there is one."""
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    device = torch.device(device_type)
    if device_type != "cpu":
        device = torch.device(device_type, int(os.environ.get("LOCAL_RANK", 0)))
        torch.accelerator.set_device_index(device.index)
    if "RANK" in os.environ:
        dist.init_process_group("gloo" if device_type == "cpu" else "hccl")
    return rank, world, device


def train(arguments: argparse.Namespace) -> None:
    rank, world, device = join_job(arguments.device)
    if arguments.global_batch % world:
        raise ValueError(f"--global-batch {arguments.global_batch} is not a multiple of {world} ranks")
    share = arguments.global_batch // world
    checkpoint = arguments.out / "checkpoint.pt"

    torch.manual_seed(arguments.seed)
    config = ModelConfig(width=arguments.width, layers=arguments.layers, max_sequence=arguments.sequence)
    model = Decoder(config)
    text = ByteText(arguments.data)
    state = load(checkpoint) if arguments.resume else None
    if state is not None:
        if state["config"] != asdict(config):
            raise CheckpointError(f"checkpoint {checkpoint} is of another model: {state['config']}, not {asdict(config)}")
        model.load_state_dict(state["model"])
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.1)
    first_step = 0
    if state is not None:
        optimizer.load_state_dict(state["optimizer"])
        first_step = state["step"]
    steps = arguments.steps or planned_steps(state)
    network = DistributedDataParallel(model) if dist.is_initialized() else model
    cast = torch.autocast(device.type, torch.bfloat16) if arguments.bf16 else nullcontext()

    if rank == 0:
        parameters = sum(weight.numel() for weight in model.parameters())
        print(
            f"{world} x {_device_name(device)}: {parameters:,} parameters, {len(text.bytes):,} bytes of text "
            f"from {text.files} files, {arguments.global_batch} x {arguments.sequence} bytes a step",
            flush=True,
        )
        metrics = Metrics(arguments.out / "metrics.jsonl", first_step=first_step)
        bar = progress_bar(first_step, steps)

    for step in range(first_step, steps):
        started = time.perf_counter()
        tokens = text.batch(
            step=step, seed=arguments.seed, first=rank * share, count=share, length=arguments.sequence
        ).to(device)  # fmt: skip
        with cast:
            logits = network(tokens[:, :-1])
            loss = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), arguments.clip)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(
                step, steps=steps, warmup=arguments.warmup, peak=arguments.learning_rate
            )  # fmt: skip
        optimizer.step()
        mean_loss = loss.detach()
        if dist.is_initialized():
            dist.all_reduce(mean_loss, op=dist.ReduceOp.AVG if device.type != "cpu" else dist.ReduceOp.SUM)
            mean_loss = mean_loss if device.type != "cpu" else mean_loss / world
        value = mean_loss.item()
        seconds = time.perf_counter() - started
        if not math.isfinite(value):
            raise FloatingPointError(f"the loss of step {step} is {value}: lower --learning-rate")
        if rank == 0:
            speed = arguments.global_batch * arguments.sequence / seconds
            metrics.write({
                "step": step, "loss": value, "tokens_per_s": speed, "step_ms": seconds * 1e3,
                "learning_rate": optimizer.param_groups[0]["lr"], "gradient_norm": norm.item(),
            })  # fmt: skip
            bar.set_postfix(loss=f"{value:.3f}", tokens_per_s=f"{speed:,.0f}", refresh=False)
            bar.update()
            if (step + 1) % arguments.save_every == 0 or step + 1 == steps:
                save(checkpoint, {
                    "step": step + 1, "steps": steps, "config": asdict(config),
                    "model": model.state_dict(), "optimizer": optimizer.state_dict(),
                })  # fmt: skip

    if rank == 0:
        bar.close()
        metrics.close()
        picture = arguments.out / "loss.png"
        draw_loss(arguments.out / "metrics.jsonl", picture, title=f"{world} ranks on {_device_name(device)}")
        for what, path in (("metrics", arguments.out / "metrics.jsonl"), ("picture", picture), ("checkpoint", checkpoint)):
            print(f"{what}: {path}", flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


def _device_name(device: torch.device) -> str:
    return "cpu" if device.type == "cpu" else torch.get_device_module(device).get_device_name(device)


def main() -> int:
    arguments = parse_arguments()
    try:
        train(arguments)
    except (CheckpointError, ValueError, FloatingPointError, OSError) as error:
        rank = os.environ.get("RANK", "0")
        if rank == "0" or isinstance(error, (FloatingPointError, OSError)):  # those of one rank alone
            print(f"train.py: {error}", file=sys.stderr, flush=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
