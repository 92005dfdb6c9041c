"""The table of operator tests: what to call, on which inputs, in which dtypes.

Each entry runs once on CPU tensors and once on npu tensors of the same values, dtypes and strides.
`op` names the ATen operator that must be computed on the device (test_ops_tables.py checks that every
operator of the tables has an entry).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

f32, f16, bf16, i64, i32, u8, b8 = (
    torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)
FLOATS = (f32, f16, bf16)
NUMBERS = (f32, f16, bf16, i64)
WHOLE = (i64, i32, b8)


@dataclass(frozen=True)
class T:
    """A tensor argument: values uniform in [low, high), `dtype` None for the dtype under test."""

    shape: tuple[int, ...]
    low: float = -3.0
    high: float = 3.0
    dtype: torch.dtype | None = None
    host: bool = False  # stays on the CPU in both runs
    dense: bool = False  # never strided (arguments that are resized)

    def make(self, device: str, dtype: torch.dtype, strided: bool, seed: int) -> torch.Tensor:
        dtype = self.dtype or dtype
        strided = strided and len(self.shape) > 0 and not self.dense
        # A strided tensor is every second element of a transposed, wider one.
        shape = (2 * self.shape[-1], *self.shape[:-1]) if strided else self.shape
        generator = torch.Generator().manual_seed(seed)
        values = torch.rand(shape, generator=generator, dtype=torch.float64)
        values = values * (self.high - self.low) + self.low
        if not dtype.is_floating_point and dtype != b8:
            values = values.floor()
        base = (values > (self.low + self.high) / 2 if dtype == b8 else values).to(dtype)
        base = base if self.host else base.to(device)
        return base.movedim(0, -1)[..., ::2] if strided else base


@dataclass(frozen=True)
class Case:
    op: str
    id: str
    run: Callable[..., Any]
    arguments: tuple[Any, ...]
    dtypes: tuple[torch.dtype, ...]
    tolerance: float | None  # relative and absolute, in float32; None: torch's defaults


CASES: list[Case] = []


def case(
    op: str, run: Callable[..., Any], *arguments: Any, dtypes: tuple[torch.dtype, ...] = FLOATS,
    id: str = "", tolerance: float | None = None,
) -> None:
    CASES.append(Case(op, id or "plain", run, arguments, dtypes, tolerance))


def unary(op: str, run: Callable[..., Any], *, low: float = -3, high: float = 3,
          dtypes: tuple[torch.dtype, ...] = FLOATS, whole: bool = False, inplace: bool = True) -> None:
    """`whole`: also integers, which become floats."""
    kinds = (*dtypes, *WHOLE) if whole else dtypes
    for name, shape in (("3d", (3, 4, 5)), ("0d", ()), ("empty", (0, 3))):
        case(op, run, T(shape, low, high), dtypes=kinds, id=name)
    if inplace:
        method = getattr(torch.Tensor, op + "_")
        case(op, lambda x: method(x), T((4, 6), low, high), dtypes=dtypes, id="inplace")


def binary(op: str, run: Callable[..., Any], *, low: float = -3, high: float = 3, low2: float | None = None,
           dtypes: tuple[torch.dtype, ...] = NUMBERS, inplace: bool = True, numbers: bool = True,
           other: torch.dtype | None = None, number: float = 2) -> None:
    def a(shape: tuple[int, ...], **more: Any) -> T:
        return T(shape, low, high, **more)

    def b(shape: tuple[int, ...], **more: Any) -> T:
        return T(shape, low if low2 is None else low2, high, **more)

    case(op, run, a((3, 4, 5)), b((3, 4, 5)), dtypes=dtypes, id="same")
    case(op, run, a((3, 1, 5)), b((4, 1)), dtypes=dtypes, id="broadcast")
    case(op, run, a((0, 3)), b((1, 3)), dtypes=dtypes, id="empty")
    case(op, run, a(()), b(()), dtypes=dtypes, id="0d")
    if numbers:
        case(op, lambda x: run(x, number), a((3, 4)), dtypes=dtypes, id="number")
        case(op, run, a((3, 4)), b((), host=True), dtypes=dtypes, id="host_right")
        case(op, run, a((), host=True), b((3, 4)), dtypes=dtypes, id="host_left")
        case(op, run, a((3, 4)), b((), dtype=other or f32), dtypes=dtypes, id="mixed_0d")
    if inplace:
        method = getattr(torch.Tensor, op + "_")
        case(op, lambda x, y: method(x, y), a((3, 4, 5)), b((4, 1)), dtypes=dtypes, id="inplace")


# --- pointwise.yaml -----------------------------------------------------------------------------------
binary("add", torch.add)
case("add", lambda x, y: torch.add(x, y, alpha=2), T((3, 4)), T((4,)), dtypes=NUMBERS, id="alpha")
case("add", lambda x, y: torch.add(x, y), T((3, 4)), T((3, 4)), dtypes=(b8,), id="bool")
case("add", torch.add, T((3, 4)), T((3, 4), dtype=i64), id="promotion")
case("add", torch.add, T((3, 4), dtype=f16), T((3, 4), dtype=bf16), dtypes=(f32,), id="halves")
binary("sub", torch.sub)
case("sub", lambda x: 5 - x, T((3, 4)), dtypes=NUMBERS, id="number_left")
case("rsub", lambda x, y: torch.rsub(x, y, alpha=2), T((3, 4)), T((4,)), dtypes=NUMBERS)
binary("mul", torch.mul)
case("mul", torch.mul, T((3, 4)), T((3, 4)), dtypes=(b8,), id="bool")
binary("div", torch.div, low2=1, inplace=False)
case("div", lambda x, y: x.div_(y), T((3, 4)), T((3, 4), 1), id="inplace")
for mode in ("trunc", "floor"):
    binary("div", lambda x, y, m=mode: torch.div(x, y, rounding_mode=m), low2=1, inplace=False, number=3)
binary("floor_divide", torch.floor_divide, low2=1)
binary("remainder", torch.remainder, low2=1)
case("remainder", lambda x: torch.remainder(7, x), T((3, 4), 1, 5), dtypes=NUMBERS, id="number_left")
binary("fmod", torch.fmod, low2=1)
binary("pow", torch.pow, low=1, high=3)
case("pow", lambda x: torch.pow(2.0, x), T((3, 4)), id="base")
case("pow", lambda x: torch.pow(x, 0.5), T((3, 4), 0, 9), dtypes=NUMBERS, id="root")
case("pow", lambda x: x.pow_(3), T((3, 4)), dtypes=NUMBERS, id="inplace_number")
binary("maximum", torch.maximum, inplace=False, numbers=False)
binary("minimum", torch.minimum, inplace=False, numbers=False)
binary("atan2", torch.atan2, dtypes=FLOATS, numbers=False)
binary("logaddexp", torch.logaddexp, dtypes=(f32,), inplace=False, numbers=False)
binary("logaddexp2", torch.logaddexp2, dtypes=(f32,), inplace=False, numbers=False)
binary("xlogy", torch.xlogy, low=0.5, dtypes=FLOATS, numbers=True)
binary("gcd", torch.gcd, low=1, high=40, dtypes=(i64, i32), numbers=False)
for op in ("addcmul", "addcdiv"):
    function, method = getattr(torch, op), getattr(torch.Tensor, op + "_")
    case(op, lambda x, y, z, f=function: f(x, y, z, value=0.5), T((3, 4)), T((4,)), T((3, 1), 1), id="broadcast")
    case(op, lambda x, y, z, m=method: m(x, y, z, value=-2), T((3, 4)), T((3, 4)), T((3, 4), 1), id="inplace")
case("lerp", lambda x, y: torch.lerp(x, y, 0.3), T((3, 4)), T((3, 4)), id="number")
case("lerp", lambda x, y, w: torch.lerp(x, y, w), T((3, 4)), T((3, 4)), T((4,), 0, 1), id="tensor")
case("lerp", lambda x, y: x.lerp_(y, 0.3), T((3, 4)), T((3, 4)), id="inplace")

unary("neg", torch.neg, dtypes=NUMBERS)
unary("abs", torch.abs, dtypes=NUMBERS)
unary("sign", torch.sign, dtypes=NUMBERS)
unary("sgn", torch.sgn, dtypes=NUMBERS)
for op in ("sqrt", "log", "log2", "log10"):
    unary(op, getattr(torch, op), low=1, high=9, whole=True)
for op in ("rsqrt", "reciprocal"):
    unary(op, getattr(torch, op), low=1, high=9, dtypes=FLOATS)
    case(op, getattr(torch, op), T((3, 4), 1, 9), dtypes=(i64,), id="whole")
for op in ("exp", "exp2", "expm1", "sin", "cos", "tanh", "sigmoid", "erf", "erfc", "sinh", "cosh", "asinh", "atan",
           "sinc"):
    unary(op, getattr(torch, op), whole=True)
unary("tan", torch.tan, low=-1, high=1, whole=True)
unary("log1p", torch.log1p, low=0, high=4, whole=True)
for op in ("asin", "acos", "atanh", "erfinv"):
    unary(op, getattr(torch, op), low=-0.9, high=0.9)
unary("acosh", torch.acosh, low=1.1, high=4)
for op in ("floor", "ceil", "round", "trunc"):
    unary(op, getattr(torch, op), dtypes=NUMBERS)
unary("frac", torch.frac)
case("round", lambda x: torch.round(x, decimals=1), T((3, 4)), dtypes=(f32,), id="decimals")
unary("signbit", torch.signbit, dtypes=NUMBERS, inplace=False)
case("nan_to_num", lambda x: torch.nan_to_num(x / x.floor()), T((4, 5), -2, 2), dtypes=(f32, bf16))
case("nan_to_num", lambda x: torch.nan_to_num(torch.log(x), nan=1.0, neginf=-7.0), T((4, 5), -2, 2), id="given")
case("logit", lambda x: torch.logit(x, 0.1), T((4, 5), 0, 1), id="eps")
case("logit", torch.logit, T((4, 5), 0.1, 0.9))

for low, high in ((-1, 1), (None, 1), (-1, None)):
    case("clamp", lambda x, a=low, b=high: torch.clamp(x, a, b), T((3, 4, 5)), dtypes=NUMBERS, id=f"{low}_{high}")
    case("clamp", lambda x, a=low, b=high: x.clamp_(a, b), T((3, 4)), dtypes=NUMBERS, id=f"inplace_{low}_{high}")
case("clamp", torch.clamp, T((3, 4)), T((4,), -1, 0), T((3, 1), 0, 1), dtypes=NUMBERS, id="tensors")
case("clamp", lambda x, y: torch.clamp(x, min=y), T((3, 4)), T((4,)), dtypes=NUMBERS, id="min_tensor")
case("clamp", lambda x, y: torch.clamp(x, max=y), T((3, 4)), T((4,)), dtypes=NUMBERS, id="max_tensor")
for op in ("clamp_min", "clamp_max"):
    case(op, lambda x, f=getattr(torch, op): f(x, 0.5), T((3, 4)), id="number")
    case(op, getattr(torch, op), T((3, 4)), T((4,)), dtypes=NUMBERS, id="tensor")
    case(op, lambda x, m=getattr(torch.Tensor, op + "_"): m(x, 1), T((3, 4)), dtypes=NUMBERS, id="inplace")

# --- logic.yaml -------------------------------------------------------------------------------------
for op in ("eq", "ne", "lt", "le", "gt", "ge"):
    binary(op, getattr(torch, op), dtypes=(*NUMBERS, b8), low=-2, high=2, number=1, other=f32)
    case(op, lambda x, f=getattr(torch, op): f(x, 0.5), T((3, 4)), dtypes=(*NUMBERS, b8), id="fraction")
case("isnan", lambda x: torch.isnan(x / x.floor()), T((4, 5), -2, 2))
case("isposinf", lambda x: torch.isposinf(-torch.log(x)), T((4, 5), -2, 2, dtype=None), dtypes=(f32,))
case("isneginf", lambda x: torch.isneginf(torch.log(x.floor())), T((4, 5), 0, 2), dtypes=(f32,))
for op in ("logical_and", "logical_or", "logical_xor"):
    binary(op, getattr(torch, op), low=-1, high=2, dtypes=(b8, i64, f32), numbers=False)
unary("logical_not", torch.logical_not, low=-1, high=2, dtypes=(b8, i64, f32))
for op in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    binary(op, getattr(torch, op), low=0, high=9, dtypes=(i64, i32, u8), other=i64)
    case(op, getattr(torch, op), T((3, 4)), T((4,)), dtypes=(b8,), id="bool")
unary("bitwise_not", torch.bitwise_not, dtypes=(i64, b8))
for op in ("bitwise_left_shift", "bitwise_right_shift"):
    case(op, getattr(torch, op), T((3, 4), 1, 9), T((4,), 0, 4), dtypes=(i64, i32))
case("where", torch.where, T((3, 4), dtype=b8), T((3, 4)), T((4,)), dtypes=(*NUMBERS, b8), id="broadcast")
case("where", torch.where, T((3, 1), dtype=b8), T((4,)), T((), host=True), dtypes=NUMBERS, id="host")
case("where", lambda c, x: torch.where(c, x, 0.0), T((3, 4), dtype=b8), T((3, 4)), id="number")
case("where", torch.where, T((3, 4), dtype=b8), T((3, 4)), T((3, 4), dtype=i64), id="promotion")
case("where", torch.where, T((0, 4), dtype=b8), T((1, 4)), T((4,)), id="empty")
case("masked_fill", lambda x, m: x.masked_fill(m, -1), T((3, 4)), T((4,), dtype=b8), dtypes=NUMBERS)
case("masked_fill", lambda x, m: x.masked_fill_(m, float("-inf")), T((3, 4)), T((3, 1), dtype=b8), id="inplace")
case("masked_fill", lambda x, m, v: x.masked_fill_(m, v), T((3, 4)), T((3, 4), dtype=b8), T(()), id="tensor")
case("masked_fill", lambda x, m, v: x.masked_fill_(m, v), T((3, 4)), T((3, 4), dtype=b8), T((), host=True), id="host")
case("fill", lambda x: x.fill_(2), T((3, 4)), dtypes=(*NUMBERS, b8), id="number")
case("fill", lambda x, v: x.fill_(v), T((3, 4)), T(()), dtypes=NUMBERS, id="tensor")
case("fill", lambda x, v: x.fill_(v), T((3, 4)), T((), host=True), dtypes=NUMBERS, id="host")
case("fill", lambda x: x.fill_(2), T((0, 4)), id="empty")
case("zero", lambda x: x.zero_(), T((3, 4)), dtypes=(*NUMBERS, b8))
case("masked_scatter", lambda x, m, s: x.masked_scatter_(m, s), T((3, 4)), T((3, 4), dtype=b8), T((12,)))

# --- activation.yaml ----------------------------------------------------------------------------------
def gradient(run: Callable[..., torch.Tensor], wanted: int = 1) -> Callable[..., Any]:
    """Forward and backward: the result, and the gradients of the first `wanted` arguments."""

    def both(*arguments: Any) -> Any:
        leaves = [a.detach().requires_grad_() for a in arguments[:wanted]]
        result = run(*leaves, *arguments[wanted:])
        weights = torch.linspace(0.5, 1.5, max(result.numel(), 1), dtype=f32)[:result.numel()]
        result.backward(weights.reshape(result.shape).to(result.device, result.dtype))
        return (result.detach(), *(leaf.grad for leaf in leaves))

    return both


ACTIVATIONS: list[tuple[str, Callable[..., torch.Tensor]]] = [
    ("relu", torch.relu), ("silu", F.silu), ("gelu", F.gelu), ("leaky_relu", lambda x: F.leaky_relu(x, 0.2)),
    ("elu", lambda x: F.elu(x, 1.5)), ("softplus", lambda x: F.softplus(x, 2, 3)), ("hardswish", F.hardswish),
    ("hardsigmoid", F.hardsigmoid), ("hardtanh", lambda x: F.hardtanh(x, -1, 2)), ("mish", F.mish),
    ("log_sigmoid_forward", F.logsigmoid), ("glu", F.glu), ("sigmoid", torch.sigmoid), ("tanh", torch.tanh),
    ("softshrink", lambda x: F.softshrink(x, 0.4)), ("hardshrink", lambda x: F.hardshrink(x, 0.4)),
    ("threshold", lambda x: F.threshold(x, 0.2, 9.0)), ("gelu", lambda x: F.gelu(x, approximate="tanh")),
]
BACKWARD = {
    "relu": "threshold_backward", "threshold": "threshold_backward", "log_sigmoid_forward": "log_sigmoid_backward",
}
for op, function in ACTIVATIONS:
    kinds = (f32, bf16) if op in ("softshrink", "hardshrink", "mish", "log_sigmoid_forward") else FLOATS
    for shape in ((3, 4, 6), (0, 4)):
        case(op, function, T(shape), dtypes=kinds, id="forward" if shape[0] else "empty")
    case(BACKWARD.get(op, op + "_backward"), gradient(function), T((3, 4, 6)), dtypes=kinds, id="backward")
for op in ("relu_", "silu", "leaky_relu_", "elu_", "hardtanh_"):
    case(op.rstrip("_"), lambda x, f=getattr(F, op): f(x, **({"inplace": True} if op == "silu" else {})),
         T((3, 4)), dtypes=(f32,), id="inplace")
for shape, channels in (((3, 4), 4), ((2, 4, 3), 4), ((2, 4, 3), 1)):
    for op in ("_prelu_kernel", "_prelu_kernel_backward"):
        case(op, gradient(F.prelu, 2), T(shape), T((channels,)), dtypes=(f32,), id=f"{len(shape)}d_{channels}", tolerance=1e-4)
case("logit_backward", gradient(lambda x: torch.logit(x, 0.1)), T((4, 5), 0, 1), dtypes=(f32,), id="backward")
for dim in (0, 1, -1):
    for op, function in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
        run = lambda x, f=function, d=dim: f(x, d)  # noqa: E731
        case("_" + op, run, T((3, 4, 5)), id=f"dim{dim}")
        case(f"_{op}_backward_data", gradient(run), T((3, 4, 5)), id=f"dim{dim}")
        case("_" + op, lambda x, f=function, d=dim: f(x, d, dtype=f32), T((3, 4, 5)), id=f"to_float32_dim{dim}")
case("_softmax", lambda x: torch.softmax(x, -1), T((0, 5)), id="empty")

# --- reduction.yaml -----------------------------------------------------------------------------------
DIMS: list[tuple[str, dict[str, Any]]] = [
    ("all", {}), ("first", {"dim": 0}), ("last_kept", {"dim": -1, "keepdim": True}), ("two", {"dim": (0, -1)}),
]
for name, options in DIMS:
    run = lambda f, o: lambda x: f(x, **o)  # noqa: E731
    case("sum", run(torch.sum, options), T((3, 4, 5)), dtypes=(*NUMBERS, b8), id=name)
    case("mean", run(torch.mean, options), T((3, 4, 5)), id=name)
    case("amax", run(torch.amax, options), T((3, 4, 5)), dtypes=NUMBERS, id=name)
    case("amin", run(torch.amin, options), T((3, 4, 5)), dtypes=NUMBERS, id=name)
    case("all", run(torch.all, options), T((3, 4, 5), 0, 2), dtypes=(b8, i64, f32), id=name)
    case("any", run(torch.any, options), T((3, 4, 5), 0, 2), dtypes=(b8, i64, f32), id=name)
    case("nansum", lambda x, o=options: torch.nansum(x / x.floor().clamp(-1, 1), **o), T((3, 4), -2, 2),
         dtypes=(f32,), id=name)
    for op in ("var", "std"):
        case(op, run(getattr(torch, op), options), T((3, 4, 5)), dtypes=FLOATS, id=name)
        case(op + "_mean", run(getattr(torch, op + "_mean"), options), T((3, 4, 5)), dtypes=(f32,), id=name)
    if "dim" in options:
        case("logsumexp", run(torch.logsumexp, options), T((3, 4, 5)), id=name)
        for p in (0, 1, 2, 3, float("inf")):
            case("linalg_vector_norm", lambda x, o=options, p=p: torch.linalg.vector_norm(x, p, **o),
                 T((3, 4, 5)), dtypes=(f32, bf16), id=f"{name}_{p}")
case("sum", lambda x: x.sum(0, dtype=f32), T((3, 4)), dtypes=(*NUMBERS, b8), id="to_float32")
case("sum", torch.sum, T((0, 3)), dtypes=NUMBERS, id="empty")
case("sum", lambda x: x.sum(0), T((0, 3)), dtypes=NUMBERS, id="empty_dim")
case("sum", torch.sum, T(()), dtypes=NUMBERS, id="0d")
case("mean", lambda x: x.mean(dtype=f32), T((3, 4)), dtypes=NUMBERS, id="to_float32")
case("var", lambda x: x.var(1, correction=0), T((3, 4)), id="correction0")
case("prod", torch.prod, T((3, 4), -1.5, 1.5), dtypes=(f32, i64))
case("prod", lambda x: torch.prod(x, 1), T((3, 4), -1.5, 1.5), dtypes=(f32, i64), id="dim")
for op in ("max", "min"):
    case(op, getattr(torch, op), T((3, 4, 5)), dtypes=NUMBERS)
    case(op, lambda x, f=getattr(torch, op): f(x, 1), T((3, 4, 5), -99, 99), dtypes=(f32, i64), id="dim")
    case(op, lambda x, f=getattr(torch, op): f(x, -1, keepdim=True), T((3, 4), -99, 99), dtypes=(f32, i64), id="kept")
for op in ("argmax", "argmin"):
    case(op, getattr(torch, op), T((3, 4, 5), -99, 99), dtypes=(f32, i64))
    case(op, lambda x, f=getattr(torch, op): f(x, keepdim=True), T((3, 4, 5), -99, 99), dtypes=(f32,), id="all_kept")
    case(op, lambda x, f=getattr(torch, op): f(x, 1), T((3, 4, 5), -99, 99), dtypes=(f32, i64), id="dim")
case("aminmax", lambda x: tuple(torch.aminmax(x)), T((3, 4)), dtypes=NUMBERS)
case("aminmax", lambda x: tuple(torch.aminmax(x, dim=1, keepdim=True)), T((3, 4)), dtypes=NUMBERS, id="dim")
for op in ("cumsum", "cumprod"):
    for dim in (0, -1):
        case(op, lambda x, f=getattr(torch, op), d=dim: f(x, d), T((3, 4, 5), -2, 2), dtypes=(f32, i64), id=f"dim{dim}")
    case(op, lambda x, m=getattr(torch.Tensor, op + "_"): m(x, 0), T((3, 4), -2, 2), dtypes=(f32, i64), id="inplace")
case("norm", lambda x: torch.ops.aten.norm.ScalarOpt_dim(x, 2, [1], True), T((3, 4)), dtypes=(f32, bf16))
case("norm", lambda x: torch.ops.aten.norm.ScalarOpt_dim_dtype(x, None, [0], False, dtype=f32), T((3, 4)), id="dtype")
case("trace", torch.trace, T((4, 4)), dtypes=(f32, i64))

for op in ("median", "nanmedian"):
    case(op, getattr(torch, op), T((3, 5), -99, 99), dtypes=(f32, i64))
    case(op, lambda x, f=getattr(torch, op): f(x, 1), T((3, 5), -99, 99), dtypes=(f32, i64), id="dim")
case("kthvalue", lambda x: torch.kthvalue(x, 2, 0, True), T((3, 5), -99, 99), dtypes=(f32, i64))
case("count_nonzero", torch.count_nonzero, T((3, 5), -1, 2), dtypes=(f32, i64, b8))
case("count_nonzero", lambda x: torch.count_nonzero(x, 1), T((3, 5), -1, 2), dtypes=(f32, i64, b8), id="dim")
case("histc", lambda x: torch.histc(x, 7, -3, 3), T((3, 5)), dtypes=(f32,))

# --- matrix.yaml ------------------------------------------------------------------------------------
MATRIX = {"dtypes": (f32, bf16, f16), "tolerance": 1e-4}
case("mm", torch.mm, T((3, 4)), T((4, 5)), **MATRIX)
case("mm", lambda a, b: torch.mm(a.t(), b), T((4, 3)), T((4, 5)), id="transposed", **MATRIX)
case("mm", torch.mm, T((3, 0)), T((0, 5)), id="inner0", **MATRIX)
case("mm", torch.mm, T((0, 4)), T((4, 5)), id="empty", **MATRIX)
case("bmm", torch.bmm, T((2, 3, 4)), T((2, 4, 5)), **MATRIX)
case("bmm", torch.bmm, T((2, 3, 0)), T((2, 0, 5)), id="inner0", **MATRIX)
case("addmm", torch.addmm, T((5,)), T((3, 4)), T((4, 5)), **MATRIX)
case("addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), T((3, 5)), T((3, 4)), T((4, 5)), id="scaled", **MATRIX)
case("addmm", lambda c, a, b: c.addmm_(a, b, beta=0.5), T((3, 5)), T((3, 4)), T((4, 5)), id="inplace", **MATRIX)
case("addmv", lambda c, a, b: torch.addmv(c, a, b, beta=0.5, alpha=2), T((3,)), T((3, 4)), T((4,)), **MATRIX)
case("addmv", lambda c, a, b: c.addmv_(a, b), T((3,)), T((3, 4)), T((4,)), id="inplace", **MATRIX)
case("baddbmm", lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5), T((3, 5)), T((2, 3, 4)), T((2, 4, 5)), **MATRIX)
case("baddbmm", lambda c, a, b: c.baddbmm_(a, b), T((2, 3, 5)), T((2, 3, 4)), T((2, 4, 5)), id="inplace", **MATRIX)
case("addbmm", torch.addbmm, T((3, 5)), T((2, 3, 4)), T((2, 4, 5)), dtypes=(f32,), tolerance=1e-4)
case("addbmm", lambda c, a, b: c.addbmm_(a, b), T((3, 5)), T((2, 3, 4)), T((2, 4, 5)), dtypes=(f32,), tolerance=1e-4,
     id="inplace")
case("dot", torch.dot, T((7,)), T((7,)), **MATRIX)
case("vdot", torch.vdot, T((7,)), T((7,)), **MATRIX)
case("dot", torch.dot, T((0,)), T((0,)), id="empty", **MATRIX)

# --- layer.yaml -------------------------------------------------------------------------------------
LAYER = {"dtypes": (f32,), "tolerance": 1e-4}
case("native_layer_norm", lambda x, w, b: F.layer_norm(x, (6,), w, b), T((3, 4, 6)), T((6,)), T((6,)), **LAYER)
case("native_layer_norm", lambda x: F.layer_norm(x, (4, 6)), T((3, 4, 6)), id="no_weight", **LAYER)
case("native_layer_norm", lambda x, w, b: F.layer_norm(x, (6,), w, b), T((3, 4, 6)), T((6,)), T((6,)), id="16bit",
     dtypes=(bf16, f16))
case("native_layer_norm_backward", gradient(lambda x, w, b: F.layer_norm(x, (6,), w, b), 3), T((3, 4, 6)), T((6,)),
     T((6,)), id="backward", **LAYER)
case("native_layer_norm_backward", gradient(lambda x: F.layer_norm(x, (4, 6))), T((3, 4, 6)), id="no_weight", **LAYER)


def batch_norm(training: bool) -> Callable[..., Any]:
    def run(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> Any:
        step = gradient(lambda x, w, b: F.batch_norm(x, mean, var, w, b, training, 0.1), 3)
        return (*step(x, w, b), mean, var)

    return run


for training in (True, False):
    for shape in ((5, 4), (2, 4, 3), (2, 4, 3, 5)):
        for op in ("native_batch_norm", "native_batch_norm_backward"):
            case(op, batch_norm(training), T(shape), T((4,)), T((4,)), T((4,)), T((4,), 1), id=f"{training}_{len(shape)}d",
                 **LAYER)
case("native_group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), T((3, 4, 5)), T((4,)), T((4,)), **LAYER)
case("native_group_norm_backward", gradient(lambda x, w, b: F.group_norm(x, 2, w, b), 3), T((3, 4, 5)), T((4,)), T((4,)),
     **LAYER)

for shape, inner in (((3, 4, 6), (6,)), ((3, 4, 6), (4, 6))):
    case("_fused_rms_norm", gradient(lambda x, w, i=inner: F.rms_norm(x, i, w, 1e-6), 2), T(shape), T(inner),
         dtypes=(f32, bf16), id=f"backward_{len(inner)}")
    case("_fused_rms_norm", gradient(lambda x, i=inner: F.rms_norm(x, i)), T(shape), dtypes=(f32,), id=f"no_weight_{len(inner)}")
case("_fused_rms_norm", lambda x, w: F.rms_norm(x, (6,), w), T((0, 6)), T((6,)), dtypes=(f32,), id="empty")

# --- loss.yaml ----------------------------------------------------------------------------------------
for reduction in ("none", "mean", "sum"):
    r = reduction
    labels = T((6,), 0, 5, i64)
    for op in ("nll_loss_forward", "nll_loss_backward"):
        case(op, gradient(lambda x, t, r=r: F.nll_loss(x, t, reduction=r)), T((6, 5)), labels, dtypes=(f32,), id=r)
        case(op, gradient(lambda x, t, w, r=r: F.nll_loss(x, t, w, ignore_index=2, reduction=r)), T((6, 5)), labels,
             T((5,), 0.5), dtypes=(f32,), id=r + "_weights")
    for op in ("nll_loss2d_forward", "nll_loss2d_backward"):
        case(op, gradient(lambda x, t, r=r: F.nll_loss(x, t, reduction=r)), T((2, 5, 3, 4), dense=True), T((2, 3, 4), 0, 5, i64),
             dtypes=(f32,), id=r)
    for op in ("mse_loss", "mse_loss_backward"):
        case(op, gradient(lambda x, t, r=r: F.mse_loss(x, t, reduction=r)), T((3, 4)), T((3, 4)), dtypes=(f32, bf16), id=r)
    for op in ("smooth_l1_loss", "smooth_l1_loss_backward"):
        case(op, gradient(lambda x, t, r=r: F.smooth_l1_loss(x, t, reduction=r, beta=0.7)), T((3, 4)), T((3, 4)),
             dtypes=(f32,), id=r)
    for op in ("binary_cross_entropy", "binary_cross_entropy_backward"):
        case(op, gradient(lambda x, t, r=r: F.binary_cross_entropy(x, t, reduction=r)), T((3, 4), 0.1, 0.9),
             T((3, 4), 0, 1), dtypes=(f32,), id=r)
case("_log_softmax", gradient(lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1)), T((6, 5)), T((6,), 0, 5, i64),
     dtypes=(f32,), id="cross_entropy")

case("_amp_update_scale", lambda s, g, f: (torch._amp_update_scale_(s, g, f, 2.0, 0.5, 3), g),
     T((), 1, 9), T((), 2, 2.5, i32), T((), 0, 0), dtypes=(f32,), id="grows")
case("_amp_update_scale", lambda s, g, f: (torch._amp_update_scale_(s, g, f, 2.0, 0.5, 3), g),
     T((), 1, 9), T((), 1, 2, i32), T((), 1, 2), dtypes=(f32,), id="shrinks")

# --- Foreach.cpp --------------------------------------------------------------------------------------
LISTS = [T((3, 4), 1, 3), T((5,), 1, 3), T((), 1, 3), T((2, 0)), T((4, 2, 3), 1, 3)]
PLAIN = [*(T((i + 1, 2), 1, 3) for i in range(30))]


def lists(function: Callable[..., Any], parts: int) -> Callable[..., Any]:
    """`function` of `parts` lists of equal length; in-place functions (without result) give the first list."""

    def run(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        size = len(tensors) // parts
        groups = [list(tensors[i * size:(i + 1) * size]) for i in range(parts)]
        result = function(*groups)
        return tuple(groups[0] if result is None else result)

    return run


for op, parts, options in (
    ("sqrt", 1, ()), ("neg", 1, ()), ("abs", 1, ()), ("exp", 1, ()), ("reciprocal", 1, ()),
    ("add", 1, (2.0,)), ("sub", 1, (2.0,)), ("mul", 1, (0.5,)), ("div", 1, (0.5,)), ("maximum", 1, (2.0,)),
    ("minimum", 1, (2.0,)), ("add", 2, ()), ("sub", 2, ()), ("mul", 2, ()), ("div", 2, ()), ("maximum", 2, ()),
    ("minimum", 2, ()), ("lerp", 2, (0.3,)), ("addcmul", 3, (0.5,)), ("addcdiv", 3, (0.5,)),
):
    for suffix in ("", "_"):
        function = getattr(torch, f"_foreach_{op}{suffix}")
        for name, tensors in (("any", LISTS), ("plain", PLAIN)):
            case("_foreach_" + op, lists(lambda *g, f=function, o=options: f(*g, *o), parts), *(tensors * parts),
                 id=f"{parts}{suffix}_{name}", dtypes=(f32, bf16))
for op in ("add", "mul", "div"):
    for name, step in (("same", 0.0), ("different", 0.1)):
        case("_foreach_" + op, lists(lambda x, f=getattr(torch, f"_foreach_{op}_"), s=step: f(
            x, [2.0 + s * i for i in range(len(x))]), 1), *PLAIN, id=f"numbers_{name}", dtypes=(f32,))
for op in ("addcmul", "addcdiv"):
    for name, step in (("same", 0.0), ("different", 0.1)):
        case("_foreach_" + op, lists(lambda x, y, z, f=getattr(torch, f"_foreach_{op}_"), s=step: f(
            x, y, z, [2.0 + s * i for i in range(len(x))]), 3), *(PLAIN * 3), id=f"numbers_{name}", dtypes=(f32,))
case("_foreach_mul", lambda factor, *x: tuple(torch._foreach_mul(x, factor)), T(()), *PLAIN, dtypes=(f32, bf16), id="tensor")
case("_foreach_mul", lambda factor, *x: torch._foreach_mul_(x, factor) or x, T(()), *PLAIN, dtypes=(f32,), id="tensor_")
case("_foreach_add", lists(lambda x, y: torch._foreach_add(x, y, alpha=2), 2), *PLAIN, *PLAIN, dtypes=NUMBERS, id="alpha")
case("_foreach_zero", lists(torch._foreach_zero_, 1), *PLAIN, dtypes=(f32, bf16))
for order in (0.5, 1, 2, float("inf")):
    case("_foreach_norm", lists(lambda x, p=order: torch._foreach_norm(x, p), 1), *PLAIN, dtypes=(f32, bf16), id=str(order))

# --- index.yaml, Indexing.cpp ---------------------------------------------------------------------------
rows = T((6,), 0, 4, i64)
case("embedding", F.embedding, T((2, 3), 0, 9, i64), T((9, 4)))
case("embedding", F.embedding, T((2, 3), 0, 9, i32), T((9, 4)), id="int32")
case("embedding", F.embedding, T((0, 3), 0, 9, i64), T((9, 4)), id="empty")
case("embedding_dense_backward", gradient(lambda w, i: F.embedding(i, w)), T((9, 4)), T((2, 3), 0, 9, i64), dtypes=(f32, bf16))
case("embedding_dense_backward", gradient(lambda w, i: F.embedding(i, w, padding_idx=3)), T((9, 4)), T((20,), 0, 9, i64),
     dtypes=(f32,), id="padding")
case("embedding_dense_backward", gradient(lambda w, i: F.embedding(i, w, scale_grad_by_freq=True)), T((9, 4)),
     T((20,), 0, 9, i64), dtypes=(f32,), id="frequency")
case("embedding_renorm", lambda w, i: torch.embedding_renorm_(w, i, 1.0, 2.0), T((9, 4)), T((6,), 0, 9, i64, dense=True),
     dtypes=(f32,))
for dim in (0, 1, -1):
    case("index_select", lambda x, i, d=dim: x.index_select(d, i), T((4, 5, 6)), rows, dtypes=(*NUMBERS, b8), id=f"dim{dim}")
    case("gather", lambda x, i, d=dim: x.gather(d, i), T((4, 5, 6)), T((2, 3, 4), 0, 2, i64), dtypes=NUMBERS, id=f"dim{dim}")
    case("scatter_add", lambda x, i, s, d=dim: x.scatter_add(d, i, s), T((4, 5, 6)), T((2, 3, 4), 0, 2, i64), T((2, 3, 4)),
         dtypes=(f32, i64), id=f"dim{dim}")
    case("index_add", lambda x, i, s, d=dim: x.movedim(0, d).index_add(d, i, s.movedim(0, d), alpha=2), T((4, 5, 6)), rows,
         T((6, 5, 6)), dtypes=(f32, i64), id=f"dim{dim}")
    case("sort", lambda x, d=dim: tuple(x.sort(dim=d, stable=True)), T((4, 5, 6), -9, 9), dtypes=(f32, i64), id=f"dim{dim}")
    case("topk", lambda x, d=dim: tuple(x.topk(3, d)), T((4, 5, 6), -9, 9), dtypes=(f32,), id=f"dim{dim}")
    case("cat", lambda x, y, d=dim: torch.cat([x.movedim(0, d), y.movedim(0, d)], d), T((2, 3, 4)), T((5, 3, 4)),
         dtypes=(*NUMBERS, b8), id=f"dim{dim}")
case("index_select", lambda x, i: x.index_select(0, i), T((4, 5)), T((0,), dtype=i64), id="empty")
case("gather", lambda x, i: x.gather(0, i), T((4, 5)), T((0, 5), 0, 4, i64), id="empty")
case("scatter", lambda x, i, s: x.scatter(0, i, s), T((4, 3)), T((1, 3), 0, 4, i64), T((1, 3)), dtypes=NUMBERS)
case("scatter", lambda x, i, s: x.scatter_(0, i, s), T((4, 3)), T((1, 3), 0, 4, i64), T((1, 3)), dtypes=NUMBERS, id="inplace")
case("scatter", lambda x, i: x.scatter(1, i, 7), T((4, 3)), T((4, 1), 0, 3, i64), dtypes=NUMBERS, id="value")
case("scatter", lambda x, i: x.scatter_(1, i, 7), T((4, 3)), T((4, 1), 0, 3, i64), dtypes=NUMBERS, id="value_inplace")
for reduce in ("add", "multiply"):
    case("scatter", lambda x, i, s, r=reduce: x.scatter(0, i, s, reduce=r), T((4, 3)), T((5, 3), 0, 4, i64), T((5, 3)),
         dtypes=(f32,), id=reduce)
    case("scatter", lambda x, i, r=reduce: x.scatter_(0, i, 3, reduce=r), T((4, 3)), T((5, 3), 0, 4, i64), dtypes=(f32,),
         id=reduce + "_value_inplace")
case("scatter_add", lambda x, i, s: x.scatter_add_(0, i, s), T((4, 3)), T((5, 3), 0, 4, i64), T((5, 3)), dtypes=(f32, i64),
     id="inplace")
nothing = T((2, 0), dtype=i64)
case("scatter_add", lambda x, i, s: x.scatter_add(0, i, s), T((5,)), nothing, T((2, 0)), id="empty")
case("scatter", lambda x, i, s: x.scatter_(0, i, s), T((5,)), nothing, T((2, 0)), id="empty")
case("index_add", lambda x, i, s: x.index_add(0, i, s), T((5, 2)), T((0,), dtype=i64), T((0, 2)), id="empty")
case("index_add", lambda x, i, s: x.index_add_(0, i, s), T((4, 3)), rows, T((6, 3)), dtypes=(f32, i64), id="inplace")
case("index_copy", lambda x, i, s: x.index_copy(0, i, s), T((4, 3)),
     T((1,), 0, 4, i64), T((1, 3)), dtypes=NUMBERS)
case("index_copy", lambda x, i, s: x.index_copy_(0, i, s), T((4, 3)), T((1,), 0, 4, i64), T((1, 3)), dtypes=NUMBERS, id="inplace")
case("index_fill", lambda x, i: x.index_fill(0, i, 7), T((4, 3)), rows, dtypes=NUMBERS)
case("index_fill", lambda x, i, v: x.index_fill_(1, i, v), T((3, 4)), rows, T(()), dtypes=NUMBERS, id="tensor")
case("take", torch.take, T((4, 3)), T((5,), 0, 12, i64), dtypes=NUMBERS)
case("put", lambda x, i, s: x.put_(i, s, True), T((4, 3)), T((5,), 0, 12, i64), T((5,)), dtypes=(f32,))
case("sort", lambda x: tuple(x.sort(descending=True, stable=True)), T((4, 5)), dtypes=(f32,), id="descending")
case("topk", lambda x: tuple(x.topk(2, largest=False)), T((4, 5)), dtypes=(f32, bf16), id="smallest")
case("cat", lambda x, y, z: torch.cat([x, y, z]), T((2, 3)), T((0,)), T((1, 3)), dtypes=NUMBERS, id="legacy_empty")
case("cat", lambda x, y: torch.cat([x, y]), T((2, 3)), T((1, 3), dtype=i64), id="promotion")
case("cat", lambda x, y: torch.stack([x, y], 1), T((2, 3)), T((2, 3)), dtypes=NUMBERS, id="stack")
case("flip", lambda x: x.flip(0, 2), T((2, 3, 4)), dtypes=(*NUMBERS, b8))
case("roll", lambda x: x.roll((1, -2), (0, 2)), T((2, 3, 4)), dtypes=(*NUMBERS, b8))
case("roll", lambda x: x.roll(5), T((2, 3, 4)), dtypes=NUMBERS, id="flat")
for op in ("tril", "triu"):
    for diagonal in (0, 1, -2):
        case(op, lambda x, f=getattr(torch, op), d=diagonal: f(x, d), T((2, 4, 5)), dtypes=(*NUMBERS, b8), id=f"{diagonal}")
    case(op, lambda x, m=getattr(torch.Tensor, op + "_"): m(x), T((4, 5)), dtypes=(*NUMBERS, b8), id="inplace")
case("constant_pad_nd", lambda x: F.pad(x, (1, 2, 0, 3), value=4), T((2, 3, 4)), dtypes=NUMBERS)
case("constant_pad_nd", lambda x: F.pad(x, (-1, 2)), T((2, 3, 4)), dtypes=NUMBERS, id="cropped")
case("bucketize", lambda x: torch.bucketize(x, torch.arange(-3.0, 3.0, device=x.device)), T((3, 4)), dtypes=(f32,))
case("bucketize", lambda x: torch.bucketize(x, torch.arange(-3, 3, device=x.device), right=True, out_int32=True), T((3, 4)),
     dtypes=(i64,), id="right")
case("searchsorted", lambda x: torch.searchsorted(torch.arange(-3.0, 3.0, device=x.device), x, side="right"), T((3, 4)),
     dtypes=(f32,))

case("nonzero", torch.nonzero, T((4, 5), -1, 2), dtypes=(b8, i64, f32))
case("nonzero", torch.nonzero, T((0, 5)), dtypes=(b8, f32), id="empty")
case("nonzero", torch.nonzero, T((), -1, 1), dtypes=(b8,), id="0d")
case("masked_select", torch.masked_select, T((4, 5)), T((4, 5), dtype=b8), dtypes=(*NUMBERS, b8))
case("masked_select", torch.masked_select, T((4, 1)), T((5,), dtype=b8), dtypes=NUMBERS, id="broadcast")
case("_unique2", lambda x: torch.unique(x, return_inverse=True, return_counts=True), T((4, 5)), dtypes=(i64, f32))
case("_unique2", lambda x: torch.unique(x.floor()), T((4, 5)), dtypes=(f32,), id="values")
case("_unique2", lambda x: torch.unique(x), T((0,)), dtypes=(i64,), id="empty")
one, two = T((3,), 0, 3, i64), T((2, 1), 0, 3, i64)
case("index", lambda x, i: x[i], T((4, 5, 3)), one, dtypes=(*NUMBERS, b8), id="first")
case("index", lambda x, i, j: x[:, i, j], T((4, 5, 3)), one, two, id="neighbours")
case("index", lambda x, i, j: x[i, :, j], T((4, 5, 3)), one, two, id="apart")
case("index", lambda x, i: x[:, -i - 1], T((4, 5, 3)), one, id="negative")
case("index", lambda x, m: x[m], T((4, 5, 3)), T((4, 5), dtype=b8), id="mask")
case("index", lambda x, m: x[:, m], T((4, 5, 3)), T((5,), dtype=b8), id="mask_second")
case("index", lambda x, i: x[i], T((4, 5)), T((0,), dtype=i64), id="empty")
case("index", lambda x, i: x[i], T((4, 5)), T((3,), 0, 4, i64, host=True), id="host")


def put(where: Callable[..., Any], accumulate: bool = False) -> Callable[..., torch.Tensor]:
    def run(x: torch.Tensor, value: torch.Tensor, *indices: torch.Tensor) -> torch.Tensor:
        x.index_put_(where(*indices), value, accumulate)
        return x

    return run


case("_index_put_impl", put(lambda i: (i,)), T((4, 5)), T((5,)), T((1,), 0, 4, i64), dtypes=NUMBERS)
case("_index_put_impl", put(lambda i, j: (i, j), True), T((4, 5)), T((3,)), one, one, dtypes=(f32, i64), id="accumulate")
case("_index_put_impl", put(lambda m: (m,)), T((4, 5)), T((5,)), T((4,), dtype=b8), dtypes=NUMBERS, id="mask")
case("_index_put_impl", put(lambda m: (m,)), T((4, 5)), T(()), T((4,), dtype=b8), dtypes=NUMBERS, id="mask_number")


def assigned(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    x[:, m] = 2
    return x


case("masked_fill", assigned, T((3, 4)), T((4,), dtype=b8), dtypes=NUMBERS, id="assigned")
case("equal", lambda x: torch.tensor([torch.equal(x, x.clone()), torch.equal(x, x + 1), torch.equal(x, x[:1])]), T((3, 4)),
     dtypes=NUMBERS)

for arguments in ((5,), (2, 9, 3), (0.5, 3.0, 0.5), (5, 1, -1), (3, 3)):
    case("arange", lambda x, a=arguments: torch.arange(*a, device=x.device), T(()), dtypes=(f32,), id=str(arguments))
case("arange", lambda x: torch.arange(0, 5, dtype=x.dtype, device=x.device), T(()), dtypes=NUMBERS, id="typed")
case("range", lambda x: torch.ops.aten.range.step(1, 7, 2, device=x.device), T(()), dtypes=(f32,))
case("linspace", lambda x: torch.linspace(0, 2, 7, device=x.device), T(()), dtypes=(f32,))
case("linspace", lambda x: torch.linspace(0, 2, 1, device=x.device), T(()), dtypes=(f32,), id="one")
case("logspace", lambda x: torch.logspace(0, 2, 5, device=x.device), T(()), dtypes=(f32,), tolerance=1e-4)
case("eye", lambda x: torch.eye(4, device=x.device, dtype=x.dtype), T(()), dtypes=NUMBERS)
case("eye", lambda x: torch.eye(4, 2, device=x.device, dtype=x.dtype), T(()), dtypes=NUMBERS, id="oblong")
