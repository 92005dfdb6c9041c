#include "distributed/HcclTypes.h"

#include <c10/util/Exception.h>

namespace torch_npu::distributed {

using RedOpType = c10d::ReduceOp::RedOpType;

WireType wireType(at::ScalarType dtype, const char* operation) {
  switch (dtype) {
    case at::kBool:
    case at::kChar:
      return {HCCL_DATA_TYPE_INT8, 1};
    case at::kByte:
    case at::ScalarType::Float8_e4m3fn:
    case at::ScalarType::Float8_e5m2:
    case at::ScalarType::Float8_e4m3fnuz:
    case at::ScalarType::Float8_e5m2fnuz:
    case at::ScalarType::Float8_e8m0fnu:
      return {HCCL_DATA_TYPE_UINT8, 1};
    case at::kShort:
      return {HCCL_DATA_TYPE_INT16, 1};
    case at::kInt:
      return {HCCL_DATA_TYPE_INT32, 1};
    case at::kLong:
      return {HCCL_DATA_TYPE_INT64, 1};
    case at::kUInt16:
      return {HCCL_DATA_TYPE_UINT16, 1};
    case at::kUInt32:
      return {HCCL_DATA_TYPE_UINT32, 1};
    case at::kUInt64:
      return {HCCL_DATA_TYPE_UINT64, 1};
    case at::kHalf:
      return {HCCL_DATA_TYPE_FP16, 1};
    case at::kBFloat16:
      return {HCCL_DATA_TYPE_BFP16, 1};
    case at::kFloat:
      return {HCCL_DATA_TYPE_FP32, 1};
    case at::kDouble:
      return {HCCL_DATA_TYPE_FP64, 1};
    case at::kComplexHalf:
      return {HCCL_DATA_TYPE_FP16, 2};
    case at::kComplexFloat:
      return {HCCL_DATA_TYPE_FP32, 2};
    case at::kComplexDouble:
      return {HCCL_DATA_TYPE_FP64, 2};
    default:
      TORCH_CHECK_TYPE(
          false, operation, ": HCCL cannot move tensors of dtype ", dtypeName(dtype),
          "; convert to a numeric dtype first, or send tensor.view(torch.uint8)");
  }
}

at::Tensor asBytes(const at::Tensor& tensor) {
  return at::isFloat8Type(tensor.scalar_type()) ? tensor.view(at::kByte) : tensor;
}

Reduction reduction(const c10d::ReduceOp& op, at::ScalarType dtype, const char* operation) {
  const RedOpType kind = op;
  TORCH_CHECK_TYPE(
      !at::isFloat8Type(dtype), operation, ": HCCL cannot reduce tensors of dtype ",
      dtypeName(dtype), "; convert to bfloat16 or float32 first (moving such tensors works)");
  Reduction result{HCCL_REDUCE_SUM, wireType(dtype, operation), false, {}};

  if (dtype == at::kBool) {
    // 0 and 1: "any" is the maximum, "all" the minimum.
    TORCH_CHECK_TYPE(
        kind == RedOpType::SUM || kind == RedOpType::PRODUCT || kind == RedOpType::MIN ||
            kind == RedOpType::MAX,
        operation, ": ReduceOp.", reduceOpName(kind),
        " has no meaning for bool tensors; use SUM or MAX (any), PRODUCT or MIN (all)");
    const bool all = kind == RedOpType::PRODUCT || kind == RedOpType::MIN;
    result.op = all ? HCCL_REDUCE_MIN : HCCL_REDUCE_MAX;
    return result;
  }
  TORCH_CHECK_TYPE(
      !at::isComplexType(dtype) || kind == RedOpType::SUM || kind == RedOpType::AVG ||
          kind == RedOpType::PREMUL_SUM,
      operation, ": ReduceOp.", reduceOpName(kind),
      " does not work on complex tensors (they are reduced as pairs of real numbers); use SUM, "
      "AVG or PREMUL_SUM");

  switch (kind) {
    case RedOpType::SUM:
      return result;
    case RedOpType::AVG:
      result.average = true;
      return result;
    case RedOpType::PRODUCT:
      result.op = HCCL_REDUCE_PROD;
      return result;
    case RedOpType::MIN:
      result.op = HCCL_REDUCE_MIN;
      return result;
    case RedOpType::MAX:
      result.op = HCCL_REDUCE_MAX;
      return result;
    case RedOpType::PREMUL_SUM:
      TORCH_CHECK_TYPE(
          at::isFloatingType(dtype) || at::isComplexType(dtype), operation,
          ": PREMUL_SUM needs floating-point tensors, got ", dtypeName(dtype));
      result.factor =
          c10::dynamic_intrusive_pointer_cast<c10d::PreMulSumSupplement>(op.supplement_);
      TORCH_CHECK_VALUE(
          result.factor, operation,
          ": PREMUL_SUM without a factor; make it with "
          "torch.distributed._make_nccl_premul_sum(factor)");
      return result;
    default:
      TORCH_CHECK_VALUE(
          false, operation, ": HCCL has no ReduceOp.", reduceOpName(kind),
          "; it has SUM, AVG, PRODUCT, MIN, MAX and PREMUL_SUM");
  }
}

std::string dtypeName(at::ScalarType dtype) { return std::string(c10::getDtypeNames(dtype).first); }

const char* reduceOpName(RedOpType op) noexcept {
  switch (op) {
    case RedOpType::SUM:
      return "SUM";
    case RedOpType::AVG:
      return "AVG";
    case RedOpType::PRODUCT:
      return "PRODUCT";
    case RedOpType::MIN:
      return "MIN";
    case RedOpType::MAX:
      return "MAX";
    case RedOpType::BAND:
      return "BAND";
    case RedOpType::BOR:
      return "BOR";
    case RedOpType::BXOR:
      return "BXOR";
    case RedOpType::PREMUL_SUM:
      return "PREMUL_SUM";
    case RedOpType::UNUSED:
      break;
  }
  return "UNUSED";
}

}  // namespace torch_npu::distributed
