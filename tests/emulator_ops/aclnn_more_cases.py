"""Calls of aclnn operators that torch_npu itself does not use: programs linked against CANN do."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from aclnn_case import BOOL, I32, I64, OUT, POSITIVE, Case, X, Y, rand


def gradient(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(function(leaf), leaf, grad)[0]


def pointwise() -> list[Case]:
    cases: list[Case] = [
        ("aclnnLeftShifts", [I32.abs(), 2, OUT], [I32.abs() << 2]),
        ("aclnnIsClose", [X, X + 1e-3, 0.0, 2e-3, False, OUT], [torch.ones(3, 4, dtype=torch.bool)]),
        ("aclnnIsClose", [X, Y, 0.5, 0.1, False, OUT], [torch.isclose(X, Y, 0.5, 0.1)]),
        *[("aclnnIsClose", [torch.tensor([torch.nan, 1]), torch.tensor([torch.nan, 2]), 0.0, 0.0, same, OUT],
           [torch.tensor([same, False])]) for same in (False, True)],
        *[("aclnnIsInScalarTensor", [value, I64, False, invert, OUT], [torch.tensor(found != invert)])
          for value, found in [(3, True), (4, False)] for invert in (False, True)],
        *[("aclnnIsInTensorScalar", [I64, 3, False, invert, OUT], [(I64 == 3) != invert]) for invert in (False, True)],
        *[("aclnnMaskedScale", [x, mask, 1.25, OUT], [x * mask * 1.25])
          for x, mask in [(X, BOOL.byte()), (X.bfloat16(), BOOL.byte()), (X, BOOL.float())]],
    ]  # fmt: skip
    for x in (X, X.bfloat16(), rand(2, 3, 6)[:, 1:, ::2]):
        other = (x + 1)[..., :1]
        grad = x.flip(0) + 1
        cases += [
            ("aclnnAddRelu", [x, other, 0.5, OUT], [(x + 0.5 * other).relu()]),
            ("aclnnAddV3", [1.5, x, 2.0, OUT], [1.5 + 2 * x]),
            ("aclnnLessScalar", [x, 0.25, OUT], [x < 0.25]),
            ("aclnnCelu", [x, 0.7, OUT], [F.celu(x, 0.7)]),
            ("aclnnLogSigmoid", [x, OUT], [F.logsigmoid(x)]),
            ("aclnnHardswishBackwardV2", [grad, x * 3, OUT], [gradient(F.hardswish, x * 3, grad)]),
        ]
    cases += [
        ("aclnnFastGeluBackward", [Y, x, OUT], [gradient(lambda t: t * torch.sigmoid(1.702 * t), x, Y.expand_as(x))])
        for x in (X, rand(2, 3, 8)[:, :, ::2])
    ]
    for x, dim in [(rand(3, 8), -1), (rand(4, 3, 2), 0), (rand(4, 6).t(), 0)]:
        grad = x.chunk(2, dim)[0] + 1
        expected = gradient(lambda t, d=dim: F.silu(t.chunk(2, d)[0]) * t.chunk(2, d)[1], x, grad)
        cases.append(("aclnnSwiGluGrad", [grad, x, dim, OUT], [expected]))
    return cases


def pooling() -> list[Case]:
    cases: list[Case] = []
    for image in (rand(2, 3, 6, 5), rand(3, 5, 7)):
        pooled = F.adaptive_avg_pool2d(image, [2, 3])
        grad = pooled + 1
        cases += [
            ("aclnnAdaptiveAvgPool2d", [image, [2, 3], OUT], [pooled]),
            ("aclnnAdaptiveAvgPool2dBackward", [grad, image, OUT],
             [gradient(lambda t: F.adaptive_avg_pool2d(t, [2, 3]), image, grad)]),
        ]  # fmt: skip
        for kernel, stride, padding, ceil, count, divisor in [
            ([2, 2], [2, 2], [0, 0], False, True, 0),
            ([3, 2], [2, 1], [1, 1], True, False, 0),
            ([3, 3], [1, 2], [1, 0], False, True, 5),
        ]:
            options = [kernel, stride, padding, ceil, count]

            def pool(t: torch.Tensor, o: list = options, d: int = divisor) -> torch.Tensor:
                return F.avg_pool2d(t, *o, divisor_override=d or None)

            grad = pool(image) + 1
            cases += [
                ("aclnnAvgPool2d", [image, *options, divisor, 0, OUT], [pool(image)]),
                ("aclnnAvgPool2dBackward", [grad, image, *options, divisor, 0, OUT], [gradient(pool, image, grad)]),
            ]
        for index in (torch.int32, torch.int64):
            pooled, places = F.max_pool2d_with_indices(image, 3, 2, 1)
            grad = pooled + 1
            cases.append(
                ("aclnnMaxPool2dWithIndicesBackward",
                 [grad, image, places.to(index), [3, 3], [2, 2], [1, 1], [1, 1], False, OUT],
                 [gradient(lambda t: F.max_pool2d(t, 3, 2, 1), image, grad)]),
            )  # fmt: skip
    return cases


def losses() -> list[Case]:
    cases: list[Case] = []
    x, probability, sign = rand(6, 5), rand(6, 5).softmax(-1), rand(6, 5).sign()
    for reduction, name in enumerate(["none", "mean", "sum"]):
        for log in (False, True):
            target = probability.log() if log else probability

            def divergence(t: torch.Tensor, w: torch.Tensor = target, r: str = name, g: bool = log) -> torch.Tensor:
                loss = F.kl_div(t, w, reduction="none", log_target=g)
                return {"none": loss, "mean": loss.mean(), "sum": loss.sum()}[r]

            grad = torch.ones_like(divergence(x)) * 1.5
            cases += [
                ("aclnnKlDiv", [x, target, reduction, log, OUT], [divergence(x)]),
                ("aclnnKlDivBackward", [grad, x, target, reduction, log, OUT], [gradient(divergence, x, grad)]),
            ]

        def margin(t: torch.Tensor, r: str = name) -> torch.Tensor:
            return F.soft_margin_loss(t, sign, reduction=r)

        grad = torch.ones_like(margin(x)) * 0.5
        cases += [
            ("aclnnSoftMarginLoss", [x, sign, reduction, OUT], [margin(x)]),
            ("aclnnSoftMarginLossBackward", [grad, x, sign, reduction, OUT], [gradient(margin, x, grad)]),
        ]
    return cases


def normalization() -> list[Case]:
    cases: list[Case] = []
    gamma, beta = rand(8) + 1, rand(8)
    for x in (rand(2, 3, 8), rand(3, 16)[:, ::2]):
        other = x.flip(0)
        total = x + other
        scale = (total.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
        single = (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
        cases += [
            ("aclnnAddRmsNorm", [x, other, gamma, 1e-6, OUT, OUT, OUT],
             [F.rms_norm(total, [8], gamma, 1e-6), scale, total]),
            ("aclnnGemmaRmsNorm", [x, gamma, 1e-6, OUT, OUT], [F.rms_norm(x, [8], gamma + 1, 1e-6), single]),
            ("aclnnFastLayerNorm", [x, [8], gamma, beta, 1e-5, OUT, OUT, OUT],
             list(torch.native_layer_norm(x, [8], gamma, beta, 1e-5))),
        ]  # fmt: skip
    image = rand(2, 4, 3, 3)
    for weight, bias in [(gamma[:4], beta[:4]), (None, None)]:
        out, mean, rstd = torch.native_group_norm(image, weight, bias, 2, 4, 9, 2, 1e-5)
        cases.append(("aclnnGroupNormSilu", [image, weight, bias, 2, 1e-5, OUT, OUT, OUT], [F.silu(out), mean, rstd]))
    return cases


def indexing() -> list[Case]:
    x, index, sequence = rand(5, 4), torch.tensor([4, 0, 2]), torch.tensor([1.0, 3, 3, 7])
    shuffled, order = sequence[[2, 0, 3, 1]], torch.tensor([1, 0, 3, 2])
    cases: list[Case] = [
        ("aclnnIndexAddV2", [x, 0, index, X, 2.0, 0, OUT], [x.index_add(0, index, X, alpha=2)]),
        ("aclnnIndexAddV2", [x, -1, index.clamp(max=3), rand(5, 3), 1.0, 0, OUT],
         [x.index_add(1, index.clamp(max=3), rand(5, 3))]),
        ("aclnnIndexFillTensor", [x, 1, [0, 3], 5.0, OUT], [x.index_fill(1, torch.tensor([0, 3]), 5)]),
        ("aclnnIndexFillTensor", [I32, 0, [], 5, OUT], [I32]),
        ("aclnnAddr", [rand(5), rand(3), rand(5), 2.0, 0.5, OUT],
         [torch.addr(rand(5), rand(3), rand(5), beta=2, alpha=0.5)]),
        ("aclnnAddr", [rand(3, 5), rand(3), rand(5), None, None, OUT], [torch.addr(rand(3, 5), rand(3), rand(5))]),
        *[("aclnnSearchSorteds", [sequence, value, small, right, None, OUT],
           [torch.searchsorted(sequence, value, out_int32=small, right=right)])
          for value in (3.0, 0.0, 9.0) for small in (False, True) for right in (False, True)],
        ("aclnnSearchSorteds", [shuffled, 3.0, False, True, order, OUT], [torch.tensor(3)]),
        ("aclnnRepeatInterleaveTensor", [index, 6, OUT], [torch.repeat_interleave(index)]),
    ]  # fmt: skip
    for values in (x, I32, rand(2, 3, 6)[:, :, ::2]):
        cases.append(("aclnnAminmaxAll", [values, OUT, OUT], list(torch.aminmax(values))))
        for dim in (0, -1):
            counts = torch.arange(values.shape[dim])
            total = int(counts.sum())
            cases += [
                ("aclnnCummax", [values, dim, OUT, OUT], list(values.cummax(dim))),
                ("aclnnCummin", [values, dim, OUT, OUT], list(values.cummin(dim))),
                ("aclnnRepeatInterleaveIntWithDim", [values, 2, dim, values.shape[dim] * 2, OUT],
                 [values.repeat_interleave(2, dim)]),
                ("aclnnRepeatInterleaveWithDim", [values, counts, dim, total, OUT],
                 [values.repeat_interleave(counts, dim)]),
            ]  # fmt: skip
        counts = torch.arange(values.numel()) % 3
        cases += [
            ("aclnnRepeatInterleaveInt", [values, 3, values.numel() * 3, OUT], [values.repeat_interleave(3)]),
            ("aclnnRepeatInterleave", [values, counts, int(counts.sum()), OUT], [values.repeat_interleave(counts)]),
        ]
    ties = torch.tensor([[2, 2, 1], [3, 1, 1]])
    cases += [("aclnnCummax", [ties, 1, OUT, OUT], list(ties.cummax(1)))]
    return cases


CASES = [*pointwise(), *pooling(), *losses(), *normalization(), *indexing()]
