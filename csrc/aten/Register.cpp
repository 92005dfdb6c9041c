// The operators written by hand, and the fallback for all that have no kernel. Those that come from
// the tables in aten/ops are registered by the generated files.
#include <torch/library.h>

#include "aten/Convolution.h"
#include "aten/Copy.h"
#include "aten/Factory.h"
#include "aten/Fallback.h"
#include "aten/Random.h"
#include "aten/Recurrent.h"
#include "aten/Scalar.h"
#include "aten/Views.h"

namespace torch_npu::aten {
namespace {

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpuFallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  // Factory
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_efficientzerotensor", &_efficientzerotensor);
  m.impl("resize_", &resize_);
  m.impl("set_", &set_);
  m.impl("set_.source_Storage", &set_source_Storage);
  m.impl("set_.source_Storage_storage_offset", &set_source_Storage_storage_offset);
  m.impl("set_.source_Tensor", &set_source_Tensor);
  m.impl("record_stream", &record_stream);
  m.impl("_has_compatible_shallow_copy_type", &_has_compatible_shallow_copy_type);
  // Copy, Scalar
  m.impl("_copy_from", &_copy_from);
  m.impl("_copy_from_and_resize", &_copy_from_and_resize);
  m.impl("_local_scalar_dense", &_local_scalar_dense);
  // Views
  m.impl("as_strided", &as_strided);
  m.impl("view", &view);
  m.impl("_reshape_alias", &_reshape_alias);
  m.impl("unfold", &unfold);
  m.impl("view_as_real", &view_as_real);
  m.impl("view_as_complex", &view_as_complex);
  m.impl("is_set_to", &is_set_to);
  // Random
  m.impl("normal_", &normal_);
  m.impl("uniform_", &uniform_);
  m.impl("random_", &random_);
  m.impl("random_.to", &random_to);
  m.impl("random_.from", &random_from);
  m.impl("bernoulli_.float", &bernoulli_float);
  m.impl("bernoulli_.Tensor", &bernoulli_Tensor);
  m.impl("bernoulli.out", &bernoulli_out);
  m.impl("randperm.generator_out", &randperm_generator_out);
  m.impl("native_dropout", &native_dropout);
  m.impl("native_dropout_backward", &native_dropout_backward);
  // Convolution, Recurrent
  m.impl("convolution_overrideable", &convolution_overrideable);
  m.impl("convolution_backward_overrideable", &convolution_backward_overrideable);
  m.impl("_thnn_fused_lstm_cell", &_thnn_fused_lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", &_thnn_fused_lstm_cell_backward_impl);
  m.impl("_thnn_fused_gru_cell", &_thnn_fused_gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", &_thnn_fused_gru_cell_backward);
  // PyTorch's kernels for every device: the first refuses all but the devices that it names, the
  // second meets tensors of two devices with an internal assertion.
  m.impl("mode.values", torch::CppFunction::makeFromBoxedFunction<&cpuFallback>());
  m.impl("_linalg_solve_ex", torch::CppFunction::makeFromBoxedFunction<&cpuFallback>());
}

// These work on tensors with a lazy conjugation or negation as they are. Without the fallthrough
// the dispatcher would materialise the argument first: by a copy, which comes back here, without
// end.
void handlesLazyBits(torch::Library& m) {
  for (const char* name : {"_copy_from", "_copy_from_and_resize", "record_stream", "is_set_to"}) {
    m.impl(name, torch::CppFunction::makeFallthrough());
  }
}

TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  handlesLazyBits(m);
}

TORCH_LIBRARY_IMPL(aten, Negative, m) {
  handlesLazyBits(m);
}

}  // namespace
}  // namespace torch_npu::aten
