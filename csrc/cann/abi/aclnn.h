// aclnn object model: tensors, scalars, arrays and executors that operators take.
// The operators themselves are in cann/abi/aclnn_ops.h, generated at build time from ../facts.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cann/abi/acl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aclOpExecutor aclOpExecutor;
typedef struct aclFloatArray aclFloatArray;
typedef int32_t aclnnStatus;

typedef struct aclBoolArray aclBoolArray;
typedef struct aclIntArray aclIntArray;
typedef struct aclScalar aclScalar;
typedef struct aclScalarList aclScalarList;
typedef struct aclTensor aclTensor;
typedef struct aclTensorList aclTensorList;

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size);
aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size);
aclScalar* aclCreateScalar(void* value, aclDataType dataType);
aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size);
aclTensor* aclCreateTensor(
    const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
    int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
    void* tensorData);
aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size);
aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor);
aclnnStatus aclDestroyBoolArray(const aclBoolArray* array);
aclnnStatus aclDestroyIntArray(const aclIntArray* array);
aclnnStatus aclDestroyScalar(const aclScalar* scalar);
aclnnStatus aclDestroyScalarList(const aclScalarList* array);
aclnnStatus aclDestroyTensor(const aclTensor* tensor);
aclnnStatus aclDestroyTensorList(const aclTensorList* array);
aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum);

#ifdef __cplusplus
}
#endif
