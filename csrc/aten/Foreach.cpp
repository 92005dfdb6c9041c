// Operators over lists of tensors, as optimizers and gradient clipping use them: one aclnn call for
// many tensors instead of one for each.
//
// Note [Lists of tensors]
// aclnn takes lists whose tensors are of one floating dtype on one device, dense, non-empty, and laid
// out alike from list to list. All else goes the way it would go without us: torch's own loop over
// single-tensor operators. CANN limits the number of tensors in a call, hence the chunks.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_abs_native.h>
#include <ATen/ops/_foreach_add_native.h>
#include <ATen/ops/_foreach_addcdiv_native.h>
#include <ATen/ops/_foreach_addcmul_native.h>
#include <ATen/ops/_foreach_div_native.h>
#include <ATen/ops/_foreach_exp_native.h>
#include <ATen/ops/_foreach_lerp_native.h>
#include <ATen/ops/_foreach_maximum_native.h>
#include <ATen/ops/_foreach_minimum_native.h>
#include <ATen/ops/_foreach_mul_native.h>
#include <ATen/ops/_foreach_neg_native.h>
#include <ATen/ops/_foreach_norm_native.h>
#include <ATen/ops/_foreach_reciprocal_native.h>
#include <ATen/ops/_foreach_sqrt_native.h>
#include <ATen/ops/_foreach_sub_native.h>
#include <ATen/ops/_foreach_zero_native.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "aten/Structured.h"

namespace torch_npu::aten {
namespace {

using Scalars = at::ArrayRef<at::Scalar>;
using Tensors = std::vector<at::Tensor>;

constexpr size_t kTensorsPerCall = 24;

bool isPlain(const at::Tensor& tensor, const at::Tensor& first) {
  return tensor.device() == first.device() && tensor.scalar_type() == first.scalar_type() &&
         tensor.layout() == at::Layout::Strided && tensor.numel() != 0 &&
         tensor.is_non_overlapping_and_dense();
}

// See Note [Lists of tensors].
template <class... Lists>
bool suits(at::TensorList self, const Lists&... others) {
  if (self.empty() || !self[0].is_privateuseone() || ((others.size() != self.size()) || ...)) {
    return false;
  }
  const at::ScalarType type = self[0].scalar_type();
  if (type != at::ScalarType::Float && !c10::isReducedFloatingType(type)) {
    return false;
  }
  for (size_t i = 0; i < self.size(); ++i) {
    const at::Tensor& tensor = self[i];
    if (!isPlain(tensor, self[0]) ||
        ((!isPlain(others[i], self[0]) || others[i].sizes() != tensor.sizes() ||
          others[i].strides() != tensor.strides()) || ...)) {
      return false;
    }
  }
  return true;
}

bool isReal(const at::Scalar& scalar) {
  return !scalar.isComplex();
}

// The number that a list holds, if it holds only one (optimizers pass the same for every parameter).
bool isUniform(Scalars scalars) {
  return !scalars.empty() && isReal(scalars[0]) &&
         std::all_of(scalars.begin(), scalars.end(), [&](const at::Scalar& scalar) {
           return isReal(scalar) && scalar.toDouble() == scalars[0].toDouble();
         });
}

Tensors emptyLike(at::TensorList tensors) {
  Tensors result;
  result.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    result.push_back(allocate(tensor.sizes(), tensor.strides(), tensor.options()));
  }
  return result;
}

// Calls `launchPart(first, count)` for each chunk of the lists.
template <class LaunchPart>
void inChunks(at::TensorList self, const LaunchPart& launchPart) {
  const OnDevice scope(self[0]);
  for (size_t first = 0; first < self.size(); first += kTensorsPerCall) {
    launchPart(first, std::min(kTensorsPerCall, self.size() - first));
  }
}

// Writes Op(self) into out, and so on for the other forms of arguments.
template <auto& Op>
void runUnary(at::TensorList self, at::TensorList out) {
  inChunks(self, [&](size_t first, size_t count) {
    launch(Op, self.slice(first, count), out.slice(first, count));
  });
}
template <auto& Op>
void runScalar(at::TensorList self, const at::Scalar& scalar, at::TensorList out) {
  inChunks(self, [&](size_t first, size_t count) {
    launch(Op, self.slice(first, count), scalar, out.slice(first, count));
  });
}
template <auto& Op>
void runList(at::TensorList self, at::TensorList other, at::TensorList out) {
  inChunks(self, [&](size_t first, size_t count) {
    launch(Op, self.slice(first, count), other.slice(first, count), out.slice(first, count));
  });
}
template <auto& Op>
void runListScalar(
    at::TensorList self, at::TensorList other, const at::Scalar& scalar, at::TensorList out) {
  inChunks(self, [&](size_t first, size_t count) {
    launch(
        Op, self.slice(first, count), other.slice(first, count), scalar, out.slice(first, count));
  });
}
template <auto& Op>
void runTwoListsScalar(
    at::TensorList self, at::TensorList a, at::TensorList b, const at::Scalar& scalar,
    at::TensorList out) {
  inChunks(self, [&](size_t first, size_t count) {
    launch(
        Op, self.slice(first, count), a.slice(first, count), b.slice(first, count), scalar,
        out.slice(first, count));
  });
}

// One form of arguments each: functional and in-place. Slow is torch's loop.
template <auto& Op, auto Slow, auto SlowInplace>
struct Unary {
  static Tensors functional(at::TensorList self) {
    if (!suits(self)) {
      return Slow(self);
    }
    Tensors out = emptyLike(self);
    runUnary<Op>(self, out);
    return out;
  }
  static void inplace(at::TensorList self) {
    if (!suits(self)) {
      return SlowInplace(self);
    }
    runUnary<Op>(self, self);
  }
};

template <auto& Op, auto Slow, auto SlowInplace>
struct WithScalar {
  static Tensors functional(at::TensorList self, const at::Scalar& scalar) {
    if (!suits(self) || !isReal(scalar)) {
      return Slow(self, scalar);
    }
    Tensors out = emptyLike(self);
    runScalar<Op>(self, scalar, out);
    return out;
  }
  static void inplace(at::TensorList self, const at::Scalar& scalar) {
    if (!suits(self) || !isReal(scalar)) {
      return SlowInplace(self, scalar);
    }
    runScalar<Op>(self, scalar, self);
  }
};

template <auto& Op, auto Slow, auto SlowInplace>
struct WithScalars {
  static Tensors functional(at::TensorList self, Scalars scalars) {
    if (!suits(self, scalars.size()) || !isUniform(scalars)) {
      return Slow(self, scalars);
    }
    Tensors out = emptyLike(self);
    runScalar<Op>(self, scalars[0], out);
    return out;
  }
  static void inplace(at::TensorList self, Scalars scalars) {
    if (!suits(self, scalars.size()) || !isUniform(scalars)) {
      return SlowInplace(self, scalars);
    }
    runScalar<Op>(self, scalars[0], self);
  }

 private:
  static bool suits(at::TensorList self, size_t scalars) {
    return self.size() == scalars && aten::suits(self);
  }
};

template <auto& Op, auto Slow, auto SlowInplace>
struct WithList {
  static Tensors functional(at::TensorList self, at::TensorList other) {
    if (!suits(self, other)) {
      return Slow(self, other);
    }
    Tensors out = emptyLike(self);
    runList<Op>(self, other, out);
    return out;
  }
  static void inplace(at::TensorList self, at::TensorList other) {
    if (!suits(self, other)) {
      return SlowInplace(self, other);
    }
    runList<Op>(self, other, self);
  }
};

template <auto& Op, auto Slow, auto SlowInplace>
struct WithListAndScalar {
  static Tensors functional(at::TensorList self, at::TensorList other, const at::Scalar& scalar) {
    if (!suits(self, other) || !isReal(scalar)) {
      return Slow(self, other, scalar);
    }
    Tensors out = emptyLike(self);
    runListScalar<Op>(self, other, scalar, out);
    return out;
  }
  static void inplace(at::TensorList self, at::TensorList other, const at::Scalar& scalar) {
    if (!suits(self, other) || !isReal(scalar)) {
      return SlowInplace(self, other, scalar);
    }
    runListScalar<Op>(self, other, scalar, self);
  }
};

template <auto& Op, auto Slow, auto SlowInplace>
struct WithTwoListsAndScalar {
  static Tensors functional(
      at::TensorList self, at::TensorList a, at::TensorList b, const at::Scalar& scalar) {
    if (!suits(self, a, b) || !isReal(scalar)) {
      return Slow(self, a, b, scalar);
    }
    Tensors out = emptyLike(self);
    runTwoListsScalar<Op>(self, a, b, scalar, out);
    return out;
  }
  static void inplace(
      at::TensorList self, at::TensorList a, at::TensorList b, const at::Scalar& scalar) {
    if (!suits(self, a, b) || !isReal(scalar)) {
      return SlowInplace(self, a, b, scalar);
    }
    runTwoListsScalar<Op>(self, a, b, scalar, self);
  }
};

template <auto& Op, auto Slow, auto SlowInplace>
struct WithTwoListsAndScalars {
  static Tensors functional(
      at::TensorList self, at::TensorList a, at::TensorList b, Scalars scalars) {
    if (self.size() != scalars.size() || !suits(self, a, b) || !isUniform(scalars)) {
      return Slow(self, a, b, scalars);
    }
    Tensors out = emptyLike(self);
    runTwoListsScalar<Op>(self, a, b, scalars[0], out);
    return out;
  }
  static void inplace(at::TensorList self, at::TensorList a, at::TensorList b, Scalars scalars) {
    if (self.size() != scalars.size() || !suits(self, a, b) || !isUniform(scalars)) {
      return SlowInplace(self, a, b, scalars);
    }
    runTwoListsScalar<Op>(self, a, b, scalars[0], self);
  }
};

// The factor is a tensor of one element (gradient clipping's).
bool suitsFactor(at::TensorList self, const at::Tensor& factor) {
  return factor.numel() == 1 && suits(self) && factor.device() == self[0].device() &&
         factor.scalar_type() == at::ScalarType::Float &&
         self[0].scalar_type() == at::ScalarType::Float;
}

void runFactor(at::TensorList self, const at::Tensor& factor, at::TensorList out) {
  const at::Tensor flat = factor.reshape({1});
  inChunks(self, [&](size_t first, size_t count) {
    launch(
        cann::aclnnForeachMulScalar, self.slice(first, count), flat, out.slice(first, count));
  });
}

Tensors mulTensor(at::TensorList self, const at::Tensor& factor) {
  if (!suitsFactor(self, factor)) {
    return at::native::foreach_tensor_mul_tensor_kernel_slow(self, factor);
  }
  Tensors out = emptyLike(self);
  runFactor(self, factor, out);
  return out;
}

void mulTensorInplace(at::TensorList self, const at::Tensor& factor) {
  if (!suitsFactor(self, factor)) {
    return at::native::foreach_tensor_mul_tensor_kernel_slow_(self, factor);
  }
  runFactor(self, factor, self);
}

Tensors norm(
    at::TensorList self, const at::Scalar& order, std::optional<at::ScalarType> type) {
  const bool known = isReal(order) && (order.toDouble() == 1 || order.toDouble() == 2 ||
                                       order.toDouble() == HUGE_VAL);
  if (!known || !suits(self) || (type.has_value() && *type != self[0].scalar_type())) {
    return at::native::foreach_tensor_norm_slow(self, order, type);
  }
  Tensors out;
  out.reserve(self.size());
  for (const at::Tensor& tensor : self) {
    out.push_back(allocate({}, {}, tensor.options()));
  }
  runScalar<cann::aclnnForeachNorm>(self, order, out);
  return out;
}

void zeroInplace(at::TensorList self) {
  if (!suits(self)) {
    return at::native::foreach_tensor_zero_slow_(self);
  }
  inChunks(self, [&](size_t first, size_t count) {
    launch(cann::aclnnForeachZeroInplace, self.slice(first, count));
  });
}

// Divides gradients by the scale of mixed precision and marks whether any is not finite.
void checkAndUnscale(at::TensorList grads, at::Tensor& foundInf, const at::Tensor& inverseScale) {
  TORCH_CHECK(inverseScale.numel() == 1, "inv_scale must be a 1-element tensor.");
  TORCH_CHECK(foundInf.numel() == 1, "found_inf must be a 1-element tensor.");
  const OnDevice scope(foundInf);
  std::array<Tensors, 3> byType;
  for (const at::Tensor& grad : grads) {
    const at::ScalarType type = grad.scalar_type();
    TORCH_CHECK(
        type == at::ScalarType::Float || c10::isReducedFloatingType(type),
        "unscaling gradients of dtype ", type, " is not supported: float32, float16, bfloat16 are");
    if (grad.numel() != 0) {
      byType[type == at::ScalarType::Float ? 0 : (type == at::ScalarType::Half ? 1 : 2)].push_back(
          grad);
    }
  }
  for (const Tensors& same : byType) {
    if (same.empty()) {
      continue;
    }
    inChunks(same, [&](size_t first, size_t count) {
      launch(
          cann::aclnnForeachNonFiniteCheckAndUnscale, at::TensorList(same).slice(first, count),
          foundInf, inverseScale);
    });
  }
}

template <class Form>
void registerForm(torch::Library& library, const char* functional, const char* inplace) {
  library.impl(functional, &Form::functional);
  library.impl(inplace, &Form::inplace);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  using namespace at::native;  // foreach_tensor_*
  registerForm<Unary<cann::aclnnForeachSqrt, &foreach_tensor_sqrt_slow, &foreach_tensor_sqrt_slow_>>(
      library, "_foreach_sqrt", "_foreach_sqrt_");
  registerForm<Unary<cann::aclnnForeachNeg, &foreach_tensor_neg_slow, &foreach_tensor_neg_slow_>>(
      library, "_foreach_neg", "_foreach_neg_");
  registerForm<Unary<cann::aclnnForeachAbs, &foreach_tensor_abs_slow, &foreach_tensor_abs_slow_>>(
      library, "_foreach_abs", "_foreach_abs_");
  registerForm<Unary<cann::aclnnForeachExp, &foreach_tensor_exp_slow, &foreach_tensor_exp_slow_>>(
      library, "_foreach_exp", "_foreach_exp_");
  registerForm<Unary<
      cann::aclnnForeachReciprocal, &foreach_tensor_reciprocal_slow,
      &foreach_tensor_reciprocal_slow_>>(library, "_foreach_reciprocal", "_foreach_reciprocal_");

  registerForm<WithScalar<
      cann::aclnnForeachAddScalarV2, &foreach_tensor_add_scalar_kernel_slow,
      &foreach_tensor_add_scalar_kernel_slow_>>(
      library, "_foreach_add.Scalar", "_foreach_add_.Scalar");
  registerForm<WithScalar<
      cann::aclnnForeachSubScalarV2, &foreach_tensor_sub_scalar_kernel_slow,
      &foreach_tensor_sub_scalar_kernel_slow_>>(
      library, "_foreach_sub.Scalar", "_foreach_sub_.Scalar");
  registerForm<WithScalar<
      cann::aclnnForeachMulScalarV2, &foreach_tensor_mul_scalar_kernel_slow,
      &foreach_tensor_mul_scalar_kernel_slow_>>(
      library, "_foreach_mul.Scalar", "_foreach_mul_.Scalar");
  registerForm<WithScalar<
      cann::aclnnForeachDivScalarV2, &foreach_tensor_div_scalar_kernel_slow,
      &foreach_tensor_div_scalar_kernel_slow_>>(
      library, "_foreach_div.Scalar", "_foreach_div_.Scalar");
  registerForm<WithScalar<
      cann::aclnnForeachMaximumScalarV2, &foreach_tensor_clamp_min_scalar_kernel_slow,
      &foreach_tensor_clamp_min_scalar_kernel_slow_>>(
      library, "_foreach_maximum.Scalar", "_foreach_maximum_.Scalar");
  registerForm<WithScalar<
      cann::aclnnForeachMinimumScalarV2, &foreach_tensor_clamp_max_scalar_kernel_slow,
      &foreach_tensor_clamp_max_scalar_kernel_slow_>>(
      library, "_foreach_minimum.Scalar", "_foreach_minimum_.Scalar");

  registerForm<WithScalars<
      cann::aclnnForeachAddScalarV2, &foreach_tensor_add_scalarlist_kernel_slow,
      &foreach_tensor_add_scalarlist_kernel_slow_>>(
      library, "_foreach_add.ScalarList", "_foreach_add_.ScalarList");
  registerForm<WithScalars<
      cann::aclnnForeachMulScalarV2, &foreach_tensor_mul_scalarlist_kernel_slow,
      &foreach_tensor_mul_scalarlist_kernel_slow_>>(
      library, "_foreach_mul.ScalarList", "_foreach_mul_.ScalarList");
  registerForm<WithScalars<
      cann::aclnnForeachDivScalarV2, &foreach_tensor_div_scalarlist_kernel_slow,
      &foreach_tensor_div_scalarlist_kernel_slow_>>(
      library, "_foreach_div.ScalarList", "_foreach_div_.ScalarList");

  registerForm<WithListAndScalar<
      cann::aclnnForeachAddListV2, &foreach_tensor_add_list_kernel_slow,
      &foreach_tensor_add_list_kernel_slow_>>(library, "_foreach_add.List", "_foreach_add_.List");
  registerForm<WithListAndScalar<
      cann::aclnnForeachSubListV2, &foreach_tensor_sub_list_kernel_slow,
      &foreach_tensor_sub_list_kernel_slow_>>(library, "_foreach_sub.List", "_foreach_sub_.List");
  registerForm<WithList<
      cann::aclnnForeachMulList, &foreach_tensor_mul_list_kernel_slow,
      &foreach_tensor_mul_list_kernel_slow_>>(library, "_foreach_mul.List", "_foreach_mul_.List");
  registerForm<WithList<
      cann::aclnnForeachDivList, &foreach_tensor_div_list_kernel_slow,
      &foreach_tensor_div_list_kernel_slow_>>(library, "_foreach_div.List", "_foreach_div_.List");
  registerForm<WithList<
      cann::aclnnForeachMaximumList, &foreach_tensor_clamp_min_list_kernel_slow,
      &foreach_tensor_clamp_min_list_kernel_slow_>>(
      library, "_foreach_maximum.List", "_foreach_maximum_.List");
  registerForm<WithList<
      cann::aclnnForeachMinimumList, &foreach_tensor_clamp_max_list_kernel_slow,
      &foreach_tensor_clamp_max_list_kernel_slow_>>(
      library, "_foreach_minimum.List", "_foreach_minimum_.List");
  registerForm<WithListAndScalar<
      cann::aclnnForeachLerpScalar, &foreach_tensor_lerp_list_kernel_slow,
      &foreach_tensor_lerp_list_kernel_slow_>>(
      library, "_foreach_lerp.Scalar", "_foreach_lerp_.Scalar");

  registerForm<WithTwoListsAndScalar<
      cann::aclnnForeachAddcmulScalarV2, &foreach_tensor_addcmul_scalar_slow,
      &foreach_tensor_addcmul_scalar_slow_>>(
      library, "_foreach_addcmul.Scalar", "_foreach_addcmul_.Scalar");
  registerForm<WithTwoListsAndScalar<
      cann::aclnnForeachAddcdivScalarV2, &foreach_tensor_addcdiv_scalar_slow,
      &foreach_tensor_addcdiv_scalar_slow_>>(
      library, "_foreach_addcdiv.Scalar", "_foreach_addcdiv_.Scalar");
  registerForm<WithTwoListsAndScalars<
      cann::aclnnForeachAddcmulScalarV2, &foreach_tensor_addcmul_scalarlist_slow,
      &foreach_tensor_addcmul_scalarlist_slow_>>(
      library, "_foreach_addcmul.ScalarList", "_foreach_addcmul_.ScalarList");
  registerForm<WithTwoListsAndScalars<
      cann::aclnnForeachAddcdivScalarV2, &foreach_tensor_addcdiv_scalarlist_slow,
      &foreach_tensor_addcdiv_scalarlist_slow_>>(
      library, "_foreach_addcdiv.ScalarList", "_foreach_addcdiv_.ScalarList");

  library.impl("_foreach_mul.Tensor", &mulTensor);
  library.impl("_foreach_mul_.Tensor", &mulTensorInplace);
  library.impl("_foreach_norm.Scalar", &norm);
  library.impl("_foreach_zero_", &zeroInplace);
  library.impl("_amp_foreach_non_finite_check_and_unscale_", &checkAndUnscale);
}

}  // namespace
}  // namespace torch_npu::aten
