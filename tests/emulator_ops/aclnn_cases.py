"""Calls of aclnn operators with the results that PyTorch gives on the CPU (aclnn_case.py has the form)."""

import torch
import torch.nn.functional as F
from aclnn_case import BOOL, EMPTY, I32, I64, OUT, POSITIVE, Case, Ref, X, Y, rand, tokens


def pointwise() -> list[Case]:
    cases: list[Case] = []
    for name, function in {
        "Abs": torch.abs, "Neg": torch.neg, "Sign": torch.sign, "Exp": torch.exp, "Erf": torch.erf, "Sin": torch.sin,
        "Cos": torch.cos, "Tanh": torch.tanh, "Sigmoid": torch.sigmoid, "Floor": torch.floor, "Ceil": torch.ceil,
        "Round": torch.round, "Trunc": torch.trunc, "Frac": torch.frac, "Reciprocal": torch.reciprocal,
        "IsFinite": torch.isfinite, "LogicalNot": torch.logical_not,
    }.items():  # fmt: skip
        cases += [(f"aclnn{name}", [X, OUT], [function(X)]), (f"aclnn{name}", [EMPTY, OUT], [function(EMPTY)])]
    for name, function in {"Sqrt": torch.sqrt, "Rsqrt": torch.rsqrt, "Log": torch.log, "Log2": torch.log2}.items():
        cases.append((f"aclnn{name}", [POSITIVE, OUT], [function(POSITIVE)]))
    cases += [
        ("aclnnAbs", [I32, OUT], [I32.abs()]),
        ("aclnnFrac", [I32, OUT], [torch.zeros_like(I32)]),
        ("aclnnSqrt", [I32.abs(), OUT], [I32.abs().sqrt()]),
        ("aclnnExp", [X.bfloat16(), OUT], [X.bfloat16().exp()]),
        ("aclnnExp", [X.half(), OUT], [X.half().exp()]),
        ("aclnnInplaceSqrt", [Ref(POSITIVE)], [POSITIVE.sqrt()]),
        ("aclnnInplaceReciprocal", [Ref(X.t())], [X.t().reciprocal()]),
        ("aclnnNanToNum", [torch.tensor([torch.nan, torch.inf, 1]), 2.0, 3.0, 4.0, OUT], [torch.tensor([2.0, 3, 1])]),
        ("aclnnRoundDecimals", [X, 2, OUT], [X.round(decimals=2)]),
        ("aclnnAdd", [X, Y, 0.5, OUT], [X + 0.5 * Y]),
        ("aclnnAdd", [I32, I32, 2.0, OUT], [I32 + 2 * I32]),
        ("aclnnAdd", [I32, X, 1, OUT], [I32 + X]),
        ("aclnnAdd", [X.bfloat16(), Y.bfloat16(), 1, OUT], [X.bfloat16() + Y.bfloat16()]),
        ("aclnnInplaceAdd", [Ref(X), Y, 1.0], [X + Y]),
        ("aclnnInplaceAdd", [Ref(I32), X, 1.0], [(I32 + X).int()]),
        ("aclnnAdds", [X, 2.0, 3.0, OUT], [X + 6]),
        ("aclnnSub", [X, Y, 2.0, OUT], [X - 2 * Y]),
        ("aclnnRsub", [X, Y, 2.0, OUT], [Y - 2 * X]),
        ("aclnnRsubs", [X, 5.0, 2.0, OUT], [5 - 2 * X]),
        ("aclnnMul", [X, X[:, :1], OUT], [X * X[:, :1]]),
        ("aclnnMuls", [I32, 2.5, OUT], [I32 * 2.5]),
        ("aclnnDiv", [I64, I64.flip(0), OUT], [I64 / I64.flip(0)]),
        ("aclnnDivMod", [I64, I64.flip(0), 1, OUT], [torch.div(I64, I64.flip(0), rounding_mode="trunc")]),
        ("aclnnDivMod", [I64, I64.flip(0), 2, OUT], [torch.div(I64, I64.flip(0), rounding_mode="floor")]),
        ("aclnnDivMods", [X, 0.3, 0, OUT], [X / 0.3]),
        ("aclnnFloorDivide", [I64, I64.flip(0), OUT], [I64 // I64.flip(0)]),
        ("aclnnFloorDivides", [I64, 3, OUT], [I64 // 3]),
        ("aclnnRemainderTensorTensor", [I64, I64.flip(0), OUT], [torch.remainder(I64, I64.flip(0))]),
        ("aclnnRemainderTensorScalar", [X, 0.7, OUT], [torch.remainder(X, 0.7)]),
        ("aclnnRemainderScalarTensor", [0.7, X, OUT], [torch.remainder(torch.tensor(0.7), X)]),
        ("aclnnFmodTensor", [X, POSITIVE, OUT], [torch.fmod(X, POSITIVE)]),
        ("aclnnPowTensorScalar", [X, 2.0, OUT], [X**2]),
        ("aclnnPowScalarTensor", [2.0, X, OUT], [2**X]),
        ("aclnnPowTensorTensor", [POSITIVE, X, OUT], [POSITIVE**X]),
        ("aclnnMaximum", [X, Y, OUT], [torch.maximum(X, Y)]),
        ("aclnnAtan2", [X, Y, OUT], [torch.atan2(X, Y)]),
        ("aclnnBitwiseAndTensor", [I32, I32 + 1, OUT], [I32 & (I32 + 1)]),
        ("aclnnBitwiseXorScalar", [I32, 5, OUT], [I32 ^ 5]),
        ("aclnnAddcmul", [X, X + 1, Y, 0.5, OUT], [torch.addcmul(X, X + 1, Y, value=0.5)]),
        ("aclnnAddcdiv", [X, Y, POSITIVE, 0.5, OUT], [torch.addcdiv(X, Y, POSITIVE, value=0.5)]),
        ("aclnnLerp", [X, X + 1, POSITIVE, OUT], [torch.lerp(X, X + 1, POSITIVE)]),
        ("aclnnInplaceLerps", [Ref(X), X + 1, 0.3], [torch.lerp(X, X + 1, 0.3)]),
        ("aclnnEqTensor", [I32, I32.flip(0), OUT], [I32 == I32.flip(0)]),
        ("aclnnGtScalar", [I32, 1.5, OUT], [I32 > 1.5]),
        ("aclnnInplaceLeScalar", [Ref(X), 0.0], [(X <= 0).float()]),
        ("aclnnLogicalXor", [BOOL, X, OUT], [torch.logical_xor(BOOL, X)]),
        ("aclnnSWhere", [BOOL, X, Y, OUT], [torch.where(BOOL, X, Y)]),
        ("aclnnSWhere", [BOOL, X, I32, OUT], [torch.where(BOOL, X, I32)]),
        ("aclnnClamp", [X, -0.5, None, OUT], [X.clamp(min=-0.5)]),
        ("aclnnClampTensor", [X, Y - 1, Y, OUT], [X.clamp(Y - 1, Y)]),
        ("aclnnClampMax", [X, 0.1, OUT], [X.clamp(max=0.1)]),
        ("aclnnInplaceMaskedFillScalar", [Ref(X), BOOL, -1.0], [X.masked_fill(BOOL, -1)]),
        ("aclnnInplaceMaskedFillTensor", [Ref(X), BOOL[:1], torch.tensor(3.0)], [X.masked_fill(BOOL[:1], 3)]),
        ("aclnnCast", [X * 10, torch.int32, OUT], [(X * 10).int()]),
        ("aclnnInplaceCopy", [Ref(X.half().t()), X.t()], [X.half().t()]),
        ("aclnnInplaceCopy", [Ref(X), Y], [Y.expand(3, 4)]),
        ("aclnnInplaceFillTensor", [Ref(X), torch.tensor(2)], [torch.full((3, 4), 2.0)]),
        ("aclnnInplaceOne", [Ref(I32)], [torch.ones_like(I32)]),
        ("aclnnArange", [1, 8, 3, OUT], [torch.arange(1, 8, 3)]),
        ("aclnnArange", [1.0, 0.0, -0.25, OUT], [torch.arange(1, 0, -0.25)]),
        ("aclnnLinspace", [0.0, 1.0, 5, OUT], [torch.linspace(0, 1, 5)]),
        ("aclnnEye", [2, 3, OUT], [torch.eye(2, 3)]),
    ]
    return cases


def activations() -> list[Case]:
    grad = rand(3, 4) + 1
    return [
        ("aclnnSilu", [X, OUT], [F.silu(X)]),
        ("aclnnSiluBackward", [grad, X, OUT], [torch.ops.aten.silu_backward(grad, X)]),
        ("aclnnGelu", [X, OUT], [F.gelu(X)]),
        ("aclnnGeluV2", [X, 1, OUT], [F.gelu(X, approximate="tanh")]),
        ("aclnnGeluBackward", [grad, X, OUT], [torch.ops.aten.gelu_backward(grad, X)]),
        ("aclnnGeluBackwardV2", [grad, X, "tanh", OUT], [torch.ops.aten.gelu_backward(grad, X, approximate="tanh")]),
        ("aclnnInplaceRelu", [Ref(X)], [X.relu()]),
        ("aclnnThresholdBackward", [grad, X, 0.0, OUT], [torch.where(X > 0, grad, 0)]),
        ("aclnnLeakyReluBackward", [grad, X, 0.1, False, OUT], [torch.where(X > 0, grad, 0.1 * grad)]),
        ("aclnnTanhBackward", [grad, X, OUT], [grad * (1 - X * X)]),
        ("aclnnSoftplus", [X, 2.0, 20.0, OUT], [F.softplus(X, 2, 20)]),
        ("aclnnElu", [X, 0.5, 2.0, 1.5, OUT], [torch.ops.aten.elu(X, 0.5, 2.0, 1.5)]),
        ("aclnnLogSigmoidBackward", [grad, X, X, OUT], [grad * torch.sigmoid(-X)]),
        ("aclnnFastGelu", [X, OUT], [X * torch.sigmoid(1.702 * X)]),
        ("aclnnPrelu", [X, Y, OUT], [F.prelu(X, Y)]),
        ("aclnnSwiGlu", [X, -1, OUT], [F.silu(X[:, :2]) * X[:, 2:]]),
        ("aclnnSoftmax", [X, -1, OUT], [X.softmax(-1)]),
        ("aclnnSoftmax", [X.bfloat16(), 0, OUT], [X.bfloat16().float().softmax(0)]),
        ("aclnnLogSoftmax", [X, 0, OUT], [X.log_softmax(0)]),
        ("aclnnSoftmaxBackward", [grad, X.softmax(1), 1, OUT],
         [torch.ops.aten._softmax_backward_data(grad, X.softmax(1), 1, torch.float32)]),
        ("aclnnLogSoftmaxBackward", [grad, X.log_softmax(1), 1, OUT],
         [grad - X.softmax(1) * grad.sum(1, keepdim=True)]),
    ]  # fmt: skip


def reductions() -> list[Case]:
    x = rand(2, 3, 4)
    return [
        ("aclnnReduceSum", [x, [0, 2], False, torch.float32, OUT], [x.sum((0, 2))]),
        ("aclnnReduceSum", [x, [], False, torch.float32, OUT], [x.sum()]),
        ("aclnnReduceSum", [I32, [1], True, torch.int64, OUT], [I32.sum(1, keepdim=True)]),
        ("aclnnReduceSum", [EMPTY, [0], False, torch.float32, OUT], [torch.zeros(4)]),
        ("aclnnMean", [x.bfloat16(), [-1], True, torch.float32, OUT], [x.bfloat16().float().mean(-1, keepdim=True)]),
        ("aclnnProdDim", [x, 1, False, torch.float32, OUT], [x.prod(1)]),
        ("aclnnMax", [x, OUT], [x.max()]),
        ("aclnnMaxDim", [x, -1, False, OUT, OUT], list(x.max(-1))),
        ("aclnnMinDim", [x, 0, True, OUT, OUT], list(x.min(0, keepdim=True))),
        ("aclnnAmax", [x, [0, 1], False, OUT], [x.amax((0, 1))]),
        ("aclnnAminmaxDim", [x, 1, False, OUT, OUT], list(torch.aminmax(x, dim=1))),
        ("aclnnArgMax", [x, 1, False, OUT], [x.argmax(1)]),
        ("aclnnAll", [BOOL, [1], False, OUT], [BOOL.all(1)]),
        ("aclnnAny", [BOOL, [0, 1], False, OUT], [BOOL.any()]),
        ("aclnnCumsum", [x, 1, torch.float32, OUT], [x.cumsum(1)]),
        ("aclnnLinalgVectorNorm", [x, 2.0, [], False, torch.float32, OUT], [x.norm()]),
        ("aclnnNorm", [x, 1.0, [1], False, OUT], [x.abs().sum(1)]),
        ("aclnnVarMean", [x, [1], 1, False, OUT, OUT], list(torch.var_mean(x, 1))),
        ("aclnnVarCorrection", [x, None, 0, False, OUT], [x.var(correction=0)]),
        ("aclnnStd", [x, [2], 1, True, OUT], [x.std(2, keepdim=True)]),
        ("aclnnLogSumExp", [x, [0, 2], False, OUT], [x.logsumexp((0, 2))]),
    ]


def matrices() -> list[Case]:
    a, b, v = rand(3, 4), rand(4, 5), rand(4)
    left, right = rand(2, 3, 4), rand(2, 4, 5)
    return [
        ("aclnnMm", [a, b, OUT, 0], [a @ b]),
        ("aclnnMm", [a.bfloat16(), b.bfloat16(), OUT, 0], [(a.bfloat16().float() @ b.bfloat16().float()).bfloat16()]),
        ("aclnnMm", [torch.zeros(3, 0), torch.zeros(0, 5), OUT, 0], [torch.zeros(3, 5)]),
        ("aclnnMm", [b.t(), a.t(), OUT, 0], [b.t() @ a.t()]),
        ("aclnnMatmul", [left, b, OUT, 0], [left @ b]),
        ("aclnnMatmul", [v, b, OUT, 0], [v @ b]),
        ("aclnnBatchMatMul", [left, right, OUT, 0], [left @ right]),
        ("aclnnBatchMatMul", [left[:1], right, OUT, 0], [left[:1] @ right]),
        ("aclnnAddmm", [rand(5), a, b, 2.0, 0.5, OUT, 0], [torch.addmm(rand(5), a, b, beta=2, alpha=0.5)]),
        ("aclnnInplaceAddmm", [Ref(torch.ones(3, 5)), a, b, 2.0, 0.5, 0], [2 + 0.5 * (a @ b)]),
        ("aclnnBaddbmm", [rand(2, 3, 5), left, right, 1.0, 2.0, OUT, 0], [rand(2, 3, 5) + 2 * (left @ right)]),
        ("aclnnAddbmm", [rand(3, 5), left, right, 1.0, 1.0, OUT, 0], [rand(3, 5) + (left @ right).sum(0)]),
        ("aclnnMv", [a, v, OUT, 0], [a @ v]),
        ("aclnnAddmv", [rand(3), a, v, 2.0, 0.5, OUT, 0], [0.5 * rand(3) + 2 * (a @ v)]),
        ("aclnnDot", [v, v, OUT], [v @ v]),
    ]


def layers() -> list[Case]:
    x, gamma, beta, grad = rand(2, 3, 8), rand(8) + 1, rand(8), rand(2, 3, 8) - 1
    out, mean, rstd = torch.native_layer_norm(x, [8], gamma, beta, 1e-5)
    gradients = torch.ops.aten.native_layer_norm_backward(grad, x, [8], mean, rstd, gamma, beta, [True] * 3)
    leaf, weight = x.clone().requires_grad_(), gamma.clone().requires_grad_()
    rms = F.rms_norm(leaf, [8], weight, 1e-6)
    rms.backward(grad)
    scale = (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
    image = rand(2, 4, 3, 3)
    running = (torch.zeros(4), torch.ones(4))
    after = [r.clone() for r in running]
    normal, saved, inverse = torch.native_batch_norm(image, rand(4), beta[:4], *after, True, 0.1, 1e-5)
    group = torch.native_group_norm(image, rand(4), beta[:4], 2, 4, 9, 2, 1e-5)
    kernel = rand(6, 4, 2, 2)
    conv = F.conv2d(image, kernel, rand(6), stride=1, padding=1)
    conv_grad = torch.ops.aten.convolution_backward(
        conv, image, kernel, [6], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True] * 3
    )
    return [
        ("aclnnLayerNorm", [x, [8], gamma, beta, 1e-5, OUT, OUT, OUT], [out, mean, rstd]),
        ("aclnnLayerNorm", [x, [8], None, None, 1e-5, OUT, None, None], [F.layer_norm(x, [8])]),
        ("aclnnLayerNormBackward", [grad, x, [8], mean, rstd, gamma, beta, [True] * 3, OUT, OUT, OUT], list(gradients)),
        ("aclnnLayerNormBackward", [grad, x, [8], mean, rstd, gamma, beta, [True, False, False], OUT, None, None],
         [gradients[0]]),
        ("aclnnRmsNorm", [x, gamma, 1e-6, OUT, OUT], [rms.detach(), scale]),
        ("aclnnRmsNormGrad", [grad, x, scale, gamma, OUT, OUT], [leaf.grad, weight.grad]),
        ("aclnnBatchNorm", [image, rand(4), beta[:4], Ref(running[0]), Ref(running[1]), True, 0.1, 1e-5, OUT, OUT, OUT],
         [*after, normal, saved, inverse]),
        ("aclnnGroupNorm", [image, rand(4), beta[:4], 2, 4, 9, 2, 1e-5, OUT, OUT, OUT], list(group)),
        ("aclnnConvolution", [image, kernel, rand(6), [1, 1], [1, 1], [1, 1], False, [0, 0], 1, OUT, 0], [conv]),
        ("aclnnConvolutionBackward",
         [conv, image, kernel, [6], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True] * 3, 0, OUT, OUT, OUT],
         list(conv_grad)),
        ("aclnnMaxPool2dWithIndices", [image, [2, 2], [1, 1], [0, 0], [1, 1], False, OUT, OUT],
         list(F.max_pool2d_with_indices(image, 2, 1))),
    ]  # fmt: skip


def losses() -> list[Case]:
    logits, target, weight = rand(6, 5).log_softmax(-1), tokens(5, 6), rand(5).abs()
    target[2] = -100
    cases: list[Case] = []
    for reduction, name in enumerate(["none", "mean", "sum"]):
        leaf = logits.clone().requires_grad_()
        loss, total = torch.ops.aten.nll_loss_forward(leaf, target, weight, reduction, -100)
        grad = torch.ones_like(loss) * 1.5
        loss.backward(grad)
        cases.append(("aclnnNLLLoss", [logits, target, weight, reduction, -100, OUT, OUT], [loss.detach(), total]))
        cases.append(("aclnnNLLLossBackward", [grad, logits, target, weight, reduction, -100, total, OUT], [leaf.grad]))
        probability, wanted = rand(6, 5).sigmoid(), rand(6, 5).gt(0).float()
        for op, function, first in [
            ("MseLoss", F.mse_loss, rand(6, 5)),
            ("L1Loss", F.l1_loss, rand(6, 5)),
            ("BinaryCrossEntropyWithLogits", F.binary_cross_entropy_with_logits, rand(6, 5)),
            ("BinaryCrossEntropy", F.binary_cross_entropy, probability),
            ("SmoothL1Loss", F.smooth_l1_loss, rand(6, 5)),
        ]:
            leaf = first.clone().requires_grad_()
            loss = function(leaf, wanted, reduction=name)
            grad = torch.ones_like(loss) * 0.5
            loss.backward(grad)
            extra = {"BinaryCrossEntropyWithLogits": [None, None], "BinaryCrossEntropy": [None]}.get(op, [])
            tail = [1.0] if op == "SmoothL1Loss" else []
            cases.append((f"aclnn{op}", [first, wanted, *extra, reduction, *tail, OUT], [loss.detach()]))
            cases.append((f"aclnn{op}Backward", [grad, first, wanted, *extra, reduction, *tail, OUT], [leaf.grad]))
    return cases


def indexing() -> list[Case]:
    x, index, weight = rand(5, 4), torch.tensor([4, 0, 2]), rand(7, 3)
    places, ids = tokens(5, 3, 4), tokens(7, 2, 5)
    grad = rand(2, 5, 3)
    mask = torch.tensor([True, False, True, True, False])
    none = torch.empty(0, dtype=torch.int64)
    put = x.clone()
    put[index] += 2
    return [
        ("aclnnEmbedding", [weight, ids, OUT], [weight[ids]]),
        ("aclnnEmbedding", [weight.bfloat16(), ids.int(), OUT], [weight.bfloat16()[ids]]),
        ("aclnnEmbeddingDenseBackward", [grad, ids, 7, (1 << 64) - 1, False, OUT],
         [torch.ops.aten.embedding_dense_backward(grad, ids, 7, -1, False)]),
        ("aclnnEmbeddingDenseBackward", [grad, ids, 7, 3, True, OUT],
         [torch.ops.aten.embedding_dense_backward(grad, ids, 7, 3, True)]),
        ("aclnnIndexSelect", [x, 0, index, OUT], [x[index]]),
        ("aclnnGather", [x, 0, places, OUT], [x.gather(0, places)]),
        ("aclnnScatter", [x, 0, places, X, 0, OUT], [x.scatter(0, places, X)]),
        ("aclnnScatterAdd", [x, 0, places, X, OUT], [x.scatter_add(0, places, X)]),
        ("aclnnInplaceScatterValue", [Ref(x), 1, places.clamp(max=3), 9.0, 0],
         [x.scatter(1, places.clamp(max=3), 9.0)]),
        ("aclnnIndex", [x, [index], OUT], [x[index]]),
        ("aclnnIndex", [x, [index, index.clamp(max=3)], OUT], [x[index, index.clamp(max=3)]]),
        ("aclnnIndex", [x, [none, index.clamp(max=3)], OUT], [x[:, index.clamp(max=3)]]),
        ("aclnnIndex", [x, [mask], OUT], [x[mask]]),
        ("aclnnIndexPutImpl", [Ref(x), [index], torch.tensor(2.0), True, False], [put]),
        ("aclnnIndexPutImpl", [Ref(x), [none, torch.tensor([1])], torch.zeros(5, 1), False, False],
         [x.index_copy(1, torch.tensor([1]), torch.zeros(5, 1))]),
        ("aclnnIndexAdd", [x, 0, index, X, 2.0, OUT], [x.index_add(0, index, X, alpha=2)]),
        ("aclnnIndexFill", [x, 1, torch.tensor([0, 3]), 5.0, OUT], [x.index_fill(1, torch.tensor([0, 3]), 5)]),
        ("aclnnTake", [x, places, OUT], [x.take(places)]),
        ("aclnnSort", [x, True, 0, True, OUT, OUT], list(x.sort(dim=0, descending=True, stable=True))),
        ("aclnnTopk", [x, 2, -1, True, True, OUT, OUT], list(x.topk(2))),
        ("aclnnBincount", [ids.flatten(), None, 0, OUT], [ids.flatten().bincount()]),
        ("aclnnCat", [[x, rand(2, 4)], 0, OUT], [torch.cat([x, rand(2, 4)])]),
        ("aclnnCat", [[torch.empty(0), x, I32], 0, OUT], [torch.cat([x, I32])]),
        ("aclnnStack", [[X, X + 1], -1, OUT], [torch.stack([X, X + 1], -1)]),
        ("aclnnSplitWithSize", [x, [2, 3], 0, [OUT, OUT]], list(x.split([2, 3]))),
        ("aclnnRepeat", [X, [2, 1, 3], OUT], [X.repeat(2, 1, 3)]),
        ("aclnnFlip", [X, [0, -1], OUT], [X.flip(0, 1)]),
        ("aclnnRoll", [X, [1, 2], [0, 1], OUT], [X.roll((1, 2), (0, 1))]),
        ("aclnnTril", [x, -1, OUT], [x.tril(-1)]),
        ("aclnnInplaceTriu", [Ref(x), 1], [x.triu(1)]),
        ("aclnnConstantPadNd", [X, [1, 2, 0, 3], 5.0, OUT], [F.pad(X, [1, 2, 0, 3], value=5)]),
        ("aclnnConstantPadNd", [X, [-1, 0], 0.0, OUT], [X[:, 1:]]),
        ("aclnnOneHot", [index, 5, torch.tensor([1]), torch.tensor([0]), -1, OUT], [F.one_hot(index, 5)]),
    ]  # fmt: skip


def lists() -> list[Case]:
    a, b, c = [X, rand(2)], [X + 1, rand(2) * 2], [POSITIVE, torch.tensor([2.0, 3.0])]
    two = torch.tensor(2.0)
    moments = (X.clone(), X * 0.1, X.abs() * 0.01)
    parameter = torch.nn.Parameter(moments[0].clone())
    optimizer = torch.optim.AdamW([parameter], lr=0.1, betas=(0.9, 0.99), weight_decay=0.05, eps=1e-8, foreach=False)
    optimizer.state[parameter] = {
        "step": torch.tensor(4.0), "exp_avg": moments[1].clone(), "exp_avg_sq": moments[2].clone(),
    }  # fmt: skip
    parameter.grad = X.flip(0).clone()
    optimizer.step()
    state = optimizer.state[parameter]
    return [
        ("aclnnForeachAddList", [a, b, two, [OUT, OUT]], [x + 2 * y for x, y in zip(a, b, strict=True)]),
        ("aclnnForeachAddListV2", [a, b, 2.0, [OUT, OUT]], [x + 2 * y for x, y in zip(a, b, strict=True)]),
        ("aclnnForeachMulScalar", [a, two, [OUT, OUT]], [x * 2 for x in a]),
        ("aclnnForeachMulScalarV2", [a, 2.0, [OUT, OUT]], [x * 2 for x in a]),
        ("aclnnForeachMulScalarList", [a, [2.0, 3.0], [OUT, OUT]], [a[0] * 2, a[1] * 3]),
        ("aclnnForeachDivList", [a, c, [OUT, OUT]], [x / y for x, y in zip(a, c, strict=True)]),
        ("aclnnForeachSqrt", [c, [OUT, OUT]], [x.sqrt() for x in c]),
        ("aclnnForeachAddcdivScalarV2", [a, b, c, 0.5, [OUT, OUT]],
         [x + 0.5 * y / z for x, y, z in zip(a, b, c, strict=True)]),
        ("aclnnForeachAddcdivScalarList", [a, b, c, torch.tensor([0.5, 2.0]), [OUT, OUT]],
         [a[0] + 0.5 * b[0] / c[0], a[1] + 2 * b[1] / c[1]]),
        ("aclnnForeachAddcmulScalarV2", [a, b, c, 0.5, [OUT, OUT]],
         [x + 0.5 * y * z for x, y, z in zip(a, b, c, strict=True)]),
        ("aclnnForeachLerpScalar", [a, b, 0.25, [OUT, OUT]],
         [torch.lerp(x, y, 0.25) for x, y in zip(a, b, strict=True)]),
        ("aclnnForeachNorm", [a, 2.0, [OUT, OUT]], [x.norm() for x in a]),
        ("aclnnForeachZeroInplace", [[Ref(x) for x in a]], [torch.zeros_like(x) for x in a]),
        ("aclnnForeachNonFiniteCheckAndUnscale", [[Ref(x) for x in a], Ref(torch.zeros(1)), torch.tensor([0.5])],
         [*[x * 0.5 for x in a], torch.zeros(1)]),
        ("aclnnForeachNonFiniteCheckAndUnscale",
         [[Ref(X), Ref(torch.tensor([torch.inf]))], Ref(torch.zeros(1)), torch.tensor([0.5])],
         [X * 0.5, torch.tensor([torch.inf]), torch.ones(1)]),
        ("aclnnApplyAdamWV2",
         [*[Ref(m) for m in moments], None, X.flip(0), torch.tensor([5.0]), 0.1, 0.9, 0.99, 0.05, 1e-8, False, False],
         [parameter.detach(), state["exp_avg"], state["exp_avg_sq"]]),
        ("aclnnAmpUpdateScale",
         [torch.tensor([8.0]), torch.tensor([1], dtype=torch.int32), torch.tensor([0.0]), 2.0, 0.5, 2, OUT, OUT],
         [torch.tensor([16.0]), torch.tensor([0], dtype=torch.int32)]),
        ("aclnnAmpUpdateScale",
         [torch.tensor([8.0]), torch.tensor([1], dtype=torch.int32), torch.tensor([1.0]), 2.0, 0.5, 2, OUT, OUT],
         [torch.tensor([4.0]), torch.tensor([0], dtype=torch.int32)]),
    ]  # fmt: skip


CASES = [
    *pointwise(), *activations(), *reductions(), *matrices(), *layers(), *losses(), *indexing(), *lists(),
]  # fmt: skip
