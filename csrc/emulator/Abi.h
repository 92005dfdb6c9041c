// CANN's declarations with default visibility. The libraries are compiled with hidden visibility,
// and a version script cannot export what is hidden: include this instead of cann/abi/*.h.
#pragma once

#pragma GCC visibility push(default)
#include "cann/abi/acl.h"
#include "cann/abi/aclnn.h"
#include "cann/abi/hccl.h"
#pragma GCC visibility pop
