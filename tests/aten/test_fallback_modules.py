"""Ordinary modules give on npu what they give on the CPU, whatever runs where."""

import copy

import pytest
import torch
from torch import nn

import torch_npu  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore:.*has no npu kernel")


def close(device: torch.Tensor, host: torch.Tensor) -> None:
    assert device.device.type == "npu"
    torch.testing.assert_close(device.detach().cpu(), host.detach(), rtol=1e-4, atol=1e-5)


def compare(module: nn.Module, *inputs: torch.Tensor, training: bool = True) -> tuple[nn.Module, nn.Module]:
    """Forward and backward on both devices: outputs, gradients of inputs and parameters, and buffers."""
    module.train(training)
    there = copy.deepcopy(module).npu()
    grads = [t.is_floating_point() for t in inputs]
    host_inputs = [t.clone().requires_grad_(g) for t, g in zip(inputs, grads)]
    npu_inputs = [t.npu().requires_grad_(g) for t, g in zip(inputs, grads)]
    host_out, npu_out = module(*host_inputs), there(*npu_inputs)
    flat = torch.utils._pytree.tree_leaves
    for a, b in zip(flat(npu_out), flat(host_out), strict=True):
        close(a, b)
    weights = [torch.arange(t.numel(), dtype=t.dtype).reshape(t.shape).div(t.numel()) for t in flat(host_out)]
    sum((t * w).sum() for t, w in zip(flat(host_out), weights)).backward()
    sum((t * w.npu()).sum() for t, w in zip(flat(npu_out), weights)).backward()
    for a, b in zip(npu_inputs, host_inputs):
        if b.grad is not None:
            close(a.grad, b.grad)
    for (name, a), (_, b) in zip(there.named_parameters(), module.named_parameters()):
        assert (a.grad is None) == (b.grad is None), name
        if b.grad is not None:
            close(a.grad, b.grad)
    for a, b in zip(there.buffers(), module.buffers()):
        close(a, b)
    return there, module


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("norm,shape", [(nn.BatchNorm1d, (4, 3)), (nn.BatchNorm2d, (4, 3, 5, 5)), (nn.InstanceNorm2d, (4, 3, 5, 5))])
def test_fallback_batch_norm_updates_running_statistics(norm: type, shape: tuple[int, ...], training: bool) -> None:
    module = norm(3, affine=True, track_running_stats=True)
    before = module.running_mean.clone()
    there, here = compare(module, torch.randn(shape) + 2, training=training)
    assert torch.equal(here.running_mean, before) != training
    assert there.num_batches_tracked.item() == here.num_batches_tracked.item()


def test_fallback_unmarked_writes_of_batch_norm_operators_are_copied_back() -> None:
    x = torch.randn(4, 3, 5)
    for call in (
        lambda x, mean, var: torch.batch_norm_update_stats(x, mean, var, 0.1),
        lambda x, mean, var: torch.native_batch_norm(x, None, None, mean, var, True, 0.1, 1e-5),
    ):
        host = [torch.zeros(3), torch.ones(3)]
        there = [t.npu() for t in host]
        for a, b in zip(call(x.npu(), *there), call(x, *host)):
            close(a, b)
        for a, b, start in zip(there, host, (torch.zeros(3), torch.ones(3))):
            close(a, b)
            assert not torch.equal(b, start)


def test_fallback_zero_tensors_of_autograd_are_zeros() -> None:
    zeros = torch._efficientzerotensor((2, 3), device="npu")
    assert zeros.device.type == "npu"
    assert torch.equal(zeros.cpu(), torch.zeros(2, 3))
    close(zeros + torch.ones(2, 3).npu(), torch.ones(2, 3))
    close(torch.special.erfcx(zeros), torch.special.erfcx(torch.zeros(2, 3)))
    close(torch.ones(2, 3).npu().copy_(zeros), torch.zeros(2, 3))
    leaf = torch.tensor([1.0, -2.0]).npu().requires_grad_()
    leaf.sgn().sum().backward()
    assert leaf.grad.tolist() == [0, 0]


def test_fallback_of_operators_that_name_their_devices_matches_cpu() -> None:
    x = torch.tensor([[3, 1, 3], [2, 2, 1]])
    out = (torch.empty(0, dtype=torch.int64).npu(), torch.empty(0, dtype=torch.int64).npu())
    torch.mode(x.npu(), 1, out=out)
    assert [t.tolist() for t in out] == [t.tolist() for t in torch.mode(x, 1)]


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
@pytest.mark.parametrize("bias", [True, False])
def test_fallback_recurrent_cells_match_cpu(cell: type, bias: bool) -> None:
    compare(cell(5, 4, bias=bias), torch.randn(3, 5))


class OneOf(nn.Module):
    """A cell of which only one result is used: the gradient of the other is undefined."""

    def __init__(self, which: int) -> None:
        super().__init__()
        self.cell, self.which = nn.LSTMCell(5, 4), which

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cell(x, self.cell(x))[self.which]


@pytest.mark.parametrize("which", [0, 1])
def test_fallback_lstm_cell_with_one_gradient_matches_cpu(which: int) -> None:
    compare(OneOf(which), torch.randn(3, 5))


@pytest.mark.parametrize("network", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_fallback_recurrent_networks_match_cpu(network: type, bidirectional: bool) -> None:
    compare(network(5, 4, num_layers=2, batch_first=True, bidirectional=bidirectional), torch.randn(3, 6, 5))


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([6, 4, 1]))
        return nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0])[0]


def test_fallback_packed_sequences_match_cpu() -> None:
    compare(Packed(), torch.randn(6, 3, 5))


@pytest.mark.parametrize(
    "module,shape",
    [
        (nn.Conv1d(4, 6, 3, padding=1, groups=2), (2, 4, 9)),
        (nn.Conv2d(3, 5, 3, stride=2, dilation=2, bias=False), (2, 3, 11, 11)),
        (nn.Conv2d(4, 4, 3, groups=4), (2, 4, 6, 6)),
        (nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)),
        (nn.ConvTranspose1d(4, 3, 3, stride=2, output_padding=1), (2, 4, 5)),
        (nn.ConvTranspose2d(4, 6, 3, groups=2), (2, 4, 5, 5)),
    ],
)
def test_fallback_convolutions_match_cpu(module: nn.Module, shape: tuple[int, ...]) -> None:
    compare(module, torch.randn(shape))


def test_fallback_convolution_channels_last_layout_is_kept() -> None:
    conv = nn.Conv2d(3, 5, 3)
    x = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
    expected = conv(x)
    result = copy.deepcopy(conv).npu()(x.npu())
    close(result, expected)
    assert result.stride() == expected.stride()


def test_fallback_convolution_device_mismatch_raises() -> None:
    with pytest.raises(RuntimeError, match="same device|same as|should be the same"):
        nn.Conv2d(3, 5, 3).npu()(torch.randn(2, 3, 6, 6))


@pytest.mark.parametrize(
    "module,shape",
    [
        (nn.LayerNorm(6), (4, 6)),
        (nn.GroupNorm(2, 4), (3, 4, 5)),
        (nn.RMSNorm(6), (4, 6)),
        (nn.MaxPool2d(2), (2, 3, 6, 6)),
        (nn.AvgPool2d(3, 2), (2, 3, 7, 7)),
        (nn.AdaptiveAvgPool2d(2), (2, 3, 7, 7)),
        (nn.Upsample(scale_factor=2, mode="bilinear"), (2, 3, 4, 4)),
        (nn.ReflectionPad2d(1), (2, 3, 4, 4)),
        (nn.PixelShuffle(2), (2, 8, 3, 3)),
        (nn.Bilinear(4, 4, 3), (2, 4)),
        (nn.GLU(), (2, 6)),
        (nn.PReLU(3), (2, 3, 4)),
        (nn.Softmax(1), (2, 6)),
        (nn.Hardswish(), (2, 6)),
        (nn.Fold((4, 4), 2), (1, 8, 9)),
        (nn.Unfold(2), (1, 2, 4, 4)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_fallback_modules_match_cpu(module: nn.Module, shape: tuple[int, ...]) -> None:
    inputs = [torch.randn(shape)] * (2 if isinstance(module, nn.Bilinear) else 1)
    compare(module, *inputs)


@pytest.mark.parametrize("training", [True, False])
def test_fallback_transformer_layer_matches_cpu(training: bool) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    compare(layer, torch.randn(2, 5, 8), training=training)
    layer.eval()
    x = torch.randn(2, 5, 8)
    with torch.no_grad():  # the fused inference path
        close(copy.deepcopy(layer).npu()(x.npu()), layer(x))


@pytest.mark.parametrize("mode", ["mean", "sum", "max"])
def test_fallback_embedding_bag_matches_cpu(mode: str) -> None:
    compare(nn.EmbeddingBag(7, 3, mode=mode), torch.tensor([[1, 2, 1], [6, 0, 3]]))


def test_fallback_losses_match_cpu() -> None:
    x, y = torch.randn(4, 5), torch.rand(4, 5)
    classes = torch.tensor([1, 0, 4, 2])
    for loss in (nn.MSELoss(), nn.L1Loss(), nn.SmoothL1Loss(), nn.HuberLoss(), nn.BCEWithLogitsLoss(), nn.KLDivLoss(reduction="batchmean")):
        close(loss(x.npu(), y.npu()), loss(x, y))
    for loss in (nn.CrossEntropyLoss(label_smoothing=0.1), nn.NLLLoss(), nn.MultiMarginLoss()):
        close(loss(x.npu(), classes.npu()), loss(x, classes))
    log_probabilities = torch.randn(6, 2, 5).log_softmax(2)
    ctc = nn.CTCLoss()
    close(
        ctc(log_probabilities.npu(), torch.tensor([[1, 2], [3, 3]]).npu(), torch.tensor([6, 6]), torch.tensor([2, 2])),
        ctc(log_probabilities, torch.tensor([[1, 2], [3, 3]]), torch.tensor([6, 6]), torch.tensor([2, 2])),
    )


@pytest.mark.parametrize("options", [{}, {"foreach": False}, {"fused": True}], ids=str)
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad])
def test_fallback_optimizers_match_cpu(optimizer: type, options: dict) -> None:
    def train(device: str) -> list[torch.Tensor]:
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)
        extra = {"momentum": 0.9} if optimizer is torch.optim.SGD else {}
        steps = optimizer(model.parameters(), lr=0.05, weight_decay=0.01, **extra, **options)
        x, y = torch.randn(6, 4), torch.randn(6, 2)
        for _ in range(3):
            steps.zero_grad()
            nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            steps.step()
        return list(model.parameters())

    for a, b in zip(train("npu"), train("cpu")):
        close(a, b)


def test_fallback_module_to_npu_keeps_parameter_objects() -> None:
    module = nn.Linear(3, 2)
    parameters = list(module.parameters())
    module.npu()
    assert all(a is b for a, b in zip(parameters, module.parameters()))
    assert parameters[0].device.type == "npu"
    module.cpu()
    assert parameters[0].device.type == "cpu"
    parameter = nn.Parameter(torch.zeros(2))
    parameter.data = torch.ones(2).npu()
    assert parameter.device.type == "npu"
    assert parameter.tolist() == [1, 1]


def test_fallback_indexing_matches_cpu() -> None:
    x = torch.arange(24.0).reshape(4, 6)
    rows, mask = torch.tensor([2, 0, 3]), torch.arange(24).reshape(4, 6) % 3 == 0
    for index in (rows, (rows, torch.tensor([1, 5, 0])), mask, (slice(None), rows), (rows[:, None], rows), (None, ..., 2)):
        there = torch.utils._pytree.tree_map(lambda i: i.npu() if isinstance(i, torch.Tensor) else i, index)
        close(x.npu()[there], x[index])
        close(x.npu()[index], x[index])  # indices may stay on the CPU
        a, b = x.npu(), x.clone()
        a[there], b[index] = -1, -1
        close(a, b)
    with pytest.raises((RuntimeError, IndexError), match="same device|indexed tensor|indices should be"):
        x[rows.npu()]


def test_fallback_of_device_mismatch_in_aten_operators_raises() -> None:
    host, there = torch.ones(2, 2), torch.ones(2, 2).npu()
    for call in (
        lambda: there @ host, lambda: host @ there, lambda: there + host, lambda: torch.cat([there, host]),
        lambda: torch.cat([host, there]), lambda: torch.linalg.solve(there, host), lambda: there.lerp(host, 0.5),
        lambda: nn.functional.linear(there, host), lambda: torch.cdist(there, host), lambda: torch.where(there > 0, there, host),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="same device"):
            call()
    close(there + torch.tensor(2.0), host + 2)


def test_fallback_linalg_and_fft_match_cpu() -> None:
    x = torch.randn(4, 4, dtype=torch.float64)
    spd = x @ x.T + 4 * torch.eye(4, dtype=torch.float64)
    for function in (torch.linalg.inv, torch.linalg.det, torch.linalg.cholesky, torch.linalg.eigvalsh, torch.linalg.svdvals, torch.fft.fft2, torch.fft.rfft):
        close(function(spd.npu()), function(spd))
    close(torch.fft.irfft(torch.fft.rfft(x.npu())), x)
    with pytest.raises(RuntimeError, match="singular"):
        torch.linalg.inv(torch.zeros(3, 3).npu())


def test_fallback_inference_and_no_grad_modes_match_cpu() -> None:
    x = torch.randn(3, 4)
    with torch.inference_mode():
        close(torch.special.erfcx(x.npu()), torch.special.erfcx(x))
        there = x.npu()
        torch.lgamma(there, out=there)
        close(there, torch.lgamma(x))
    leaf = x.npu().requires_grad_()
    with torch.no_grad():
        assert not torch.special.erfcx(leaf).requires_grad


def test_fallback_sorting_and_searching_match_cpu() -> None:
    x = torch.tensor([3.0, 1.0, 2.0, 1.0])
    assert torch.unique(x.npu(), return_counts=True)[1].tolist() == [2, 1, 1]
    close(torch.searchsorted(torch.arange(5.0).npu(), x.npu()), torch.searchsorted(torch.arange(5.0), x))
    close(torch.histc(x.npu(), 3), torch.histc(x, 3))
    assert torch.equal(x.npu(), x.npu().clone())
    assert torch.allclose(x.npu(), x.npu() + 1e-9)


def test_transformer_encoder_in_evaluation_takes_a_padding_mask() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    x, padding = torch.randn(2, 5, 16), torch.tensor([[False] * 3 + [True] * 2, [False] * 5])
    with torch.no_grad():
        host = encoder(x, src_key_padding_mask=padding)
        there = copy.deepcopy(encoder).npu()(x.npu(), src_key_padding_mask=padding.npu())
    close(there[~padding.npu()], host[~padding])
