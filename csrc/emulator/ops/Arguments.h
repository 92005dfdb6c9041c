// Arguments of aclnn calls as kernels take them.
#pragma once

#include "emulator/ops/Kernel.h"

namespace npu_emulator::ops {

// Bit t is set if CANN documents aclDataType t for the first tensor of the operator. A type that is
// not documented but that ATen knows passes with one warning, or is refused in strict mode.
void checkDocumented(
    const char* op, const char* name, const aclTensor* tensor, uint64_t documented);
void checkDocumented(
    const char* op, const char* name, const aclTensorList* tensors, uint64_t documented);

// Null pointers are refused unless the kernel says optional.
Tensor toTensor(const aclTensor* tensor, const char* name);
OptionalTensor toOptionalTensor(const aclTensor* tensor, const char* name);
Resizable toResizable(const aclTensor* tensor, const char* name);
Tensors toTensors(const aclTensorList* list, const char* name);
Scalar toScalar(const aclScalar* scalar, const char* name);
OptionalScalar toOptionalScalar(const aclScalar* scalar, const char* name);
Scalars toScalars(const aclScalarList* list, const char* name);
Ints toInts(const aclIntArray* array, const char* name);
OptionalInts toOptionalInts(const aclIntArray* array, const char* name);
Bools toBools(const aclBoolArray* array, const char* name);
Text toText(const char* text, const char* name);
OptionalText toOptionalText(const char* text, const char* name);
ScalarType toScalarType(aclDataType type, const char* name);

}  // namespace npu_emulator::ops
