"""What a run shows: a progress bar, metrics.jsonl and a picture of the loss."""

import json
from pathlib import Path

from tqdm import tqdm


class Metrics:
    """``metrics.jsonl``, one object a step. Opened for a run that starts at ``first_step``.

    Steps at or after ``first_step`` that an earlier run left (it went on after its last checkpoint) are dropped:
    they are about to be made again.
    """

    def __init__(self, path: Path, *, first_step: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = [row for row in read_metrics(path) if row["step"] < first_step] if first_step else []
        self._file = open(path, "w", buffering=1)
        for row in kept:
            self.write(row)

    def write(self, row: dict[str, float]) -> None:
        self._file.write(json.dumps(row) + "\n")

    def close(self) -> None:
        self._file.close()


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Rows of a ``metrics.jsonl``; a last line that was cut short by a crash is left out."""
    rows = []
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


def progress_bar(first_step: int, steps: int) -> tqdm:
    return tqdm(total=steps, initial=first_step, unit="step", dynamic_ncols=True, mininterval=0.5)


def draw_loss(metrics: Path, picture: Path, *, title: str) -> None:
    """Loss over steps as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = read_metrics(metrics)
    figure, axes = plt.subplots(figsize=(7, 4), dpi=120, layout="constrained")
    axes.plot([row["step"] for row in rows], [row["loss"] for row in rows], color="#c62828", linewidth=1.5)
    axes.set_xlabel("step")
    axes.set_ylabel("loss (nats per byte)")
    axes.set_title(title)
    axes.grid(alpha=0.3)
    figure.savefig(picture)
    plt.close(figure)
