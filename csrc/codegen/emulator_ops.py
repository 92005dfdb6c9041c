"""Writes the aclnn entry points of the emulator.

    python emulator_ops.py --facts csrc/cann/facts --kernels csrc/emulator/ops --out build/generated/emulator

Kernels are functions `Work Name(...) {` at column 0 of the .cpp files under --kernels (Kernel.h says
how they are written). Each is checked against its row in aclnn_functions.tsv: same parameters in the
same order, by name and by type; a difference fails the build. ops_entry_0.cpp .. ops_entry_3.cpp get
both phases of each.
"""

from __future__ import annotations

import argparse
import csv
import re
from dataclasses import dataclass
from pathlib import Path

FILES = 4

KERNEL = re.compile(r"^Work ([A-Z]\w*)\(([^)]*)\) \{", re.MULTILINE)
TAIL_TYPES = ["uint64_t*", "aclOpExecutor**"]
TAIL = ["uint64_t* workspaceSize", "aclOpExecutor** executor"]  # some rows name them otherwise

# C type, without const -> kernel type -> converter of Arguments.h ("" passes the value on).
# A kernel that leaves a parameter out of use still names a type of this list.
NUMBERS = {"int64_t": "", "int32_t": "", "int": "", "uint64_t": "", "int8_t": "", "double": "",
           "float": "", "bool": ""}
CONVERTERS = {
    "aclTensor*": {"Tensor": "toTensor", "OptionalTensor": "toOptionalTensor",
                   "Resizable": "toResizable"},
    "aclTensorList*": {"Tensors": "toTensors"},
    "aclScalar*": {"Scalar": "toScalar", "OptionalScalar": "toOptionalScalar"},
    "aclScalarList*": {"Scalars": "toScalars"},
    "aclIntArray*": {"Ints": "toInts", "OptionalInts": "toOptionalInts"},
    "aclBoolArray*": {"Bools": "toBools"},
    "aclDataType": {"ScalarType": "toScalarType"},
    "char*": {"Text": "toText", "OptionalText": "toOptionalText"},
}

# aclDataType by the names of the fact table.
TYPES = {
    "FLOAT": 0, "FLOAT16": 1, "INT8": 2, "INT32": 3, "UINT8": 4, "INT16": 6, "UINT16": 7,
    "UINT32": 8, "INT64": 9, "UINT64": 10, "DOUBLE": 11, "BOOL": 12, "COMPLEX64": 16,
    "COMPLEX128": 17, "BFLOAT16": 27, "INT4": 29, "COMPLEX32": 33, "HIFLOAT8": 34,
    "FLOAT8_E5M2": 35, "FLOAT8_E4M3FN": 36, "FLOAT8_E8M0": 37, "FLOAT4_E2M1": 40, "FLOAT4_E1M2": 41,
}


@dataclass(frozen=True)
class Parameter:
    declaration: str  # as in the fact table
    type: str         # without const
    name: str


@dataclass(frozen=True)
class Operator:
    name: str
    parameters: tuple[Parameter, ...]
    documented: int  # bit mask over aclDataType, 0: not known


@dataclass(frozen=True)
class Kernel:
    name: str
    parameters: tuple[tuple[str, str], ...]  # type, name
    where: str


def read_operators(facts: Path) -> dict[str, Operator]:
    operators = {}
    with (facts / "aclnn_functions.tsv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            declarations = [p.strip() for p in row["get_workspace_size_parameters"].split(";")]
            if [p.rpartition(" ")[0] for p in declarations[-2:]] != TAIL_TYPES:
                continue  # a function of one phase
            parameters = []
            for declaration in declarations[:-2]:
                c_type, _, name = declaration.rpartition(" ")
                parameters.append(Parameter(declaration, c_type.removeprefix("const "), name))
            mask = 0
            for name in filter(None, row["first_input_dtypes"].split(",")):
                mask |= 1 << TYPES[name.strip()]
            operators[row["op"]] = Operator(row["op"], tuple(parameters), mask)
    return operators


def read_kernels(folder: Path) -> list[Kernel]:
    kernels: dict[str, Kernel] = {}
    for path in sorted(folder.glob("*.cpp")):
        text = path.read_text(encoding="utf-8")
        for match in KERNEL.finditer(text):
            where = f"{path.name}:{text.count(chr(10), 0, match.start()) + 1}"
            parameters = []
            for part in filter(None, (" ".join(p.split()) for p in match[2].split(","))):
                found = re.fullmatch(r"(\w+) (?:(\w+)|/\*(\w+)\*/)", part)
                if found is None:
                    raise SystemExit(f"{where}: cannot read the parameter '{part}' of {match[1]}")
                parameters.append((found[1], found[2] or found[3]))
            if match[1] in kernels:
                raise SystemExit(f"{where}: {match[1]} is also in {kernels[match[1]].where}")
            kernels[match[1]] = Kernel(match[1], tuple(parameters), where)
    return [kernels[name] for name in sorted(kernels)]


def conversions(kernel: Kernel, operator: Operator) -> list[str]:
    """One C++ expression an argument of the kernel, after the check against the facts."""

    def stop(reason: str) -> None:
        wanted = ", ".join(p.declaration for p in operator.parameters)
        raise SystemExit(f"{kernel.where}: {operator.name}: {reason}\n  the facts say ({wanted})")

    if len(kernel.parameters) != len(operator.parameters):
        stop(f"{len(kernel.parameters)} parameters, expected {len(operator.parameters)}")
    expressions = []
    for (kernel_type, name), parameter in zip(kernel.parameters, operator.parameters):
        if name != parameter.name:
            stop(f"parameter '{name}' stands where '{parameter.name}' belongs")
        if parameter.type in NUMBERS:
            if kernel_type != parameter.type:
                stop(f"'{name}' is {kernel_type}, expected {parameter.type}")
            expressions.append(name)
            continue
        known = CONVERTERS.get(parameter.type, {})
        if kernel_type not in known:
            stop(f"'{name}' is {kernel_type}, expected one of {sorted(known)} for {parameter.type}")
        expressions.append(f'{known[kernel_type]}({name}, "{name}")')
    return expressions


def entry_points(kernel: Kernel, operator: Operator) -> str:
    arguments = ", ".join(["known", kernel.name, *conversions(kernel, operator)])
    declarations = ", ".join([p.declaration for p in operator.parameters] + TAIL)
    check = ""
    tensors = [p for p in operator.parameters if p.type in ("aclTensor*", "aclTensorList*")]
    if tensors and operator.documented:
        first = tensors[0].name
        check = (f'    checkDocumented("{operator.name}", "{first}", {first}, '
                 f"{operator.documented:#x}ull);\n")
    prototype = ", ".join(kernel_type for kernel_type, _ in kernel.parameters)
    return f"""
namespace npu_emulator::ops {{
Work {kernel.name}({prototype});
}}
extern "C" NPU_ENTRY_POINT aclnnStatus {operator.name}GetWorkspaceSize({declarations}) {{
  return plan("{operator.name}", "{operator.name}GetWorkspaceSize", workspaceSize, executor, [&] {{
{check}    static KnownTypes& known = *new KnownTypes;  // threads may plan while the process exits
    return plannedWork({arguments});
  }});
}}
extern "C" NPU_ENTRY_POINT aclnnStatus {operator.name}(
    void*, uint64_t, aclOpExecutor* executor, aclrtStream stream) {{
  return run("{operator.name}", executor, stream);
}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--facts", type=Path, required=True)
    parser.add_argument("--kernels", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    operators = read_operators(options.facts)
    parts = [
        "// Generated by codegen/emulator_ops.py.\n"
        '#include "emulator/ops/Arguments.h"\n#include "emulator/ops/DryRun.h"\n'
        '#include "emulator/ops/Executor.h"\n\n'
        "using namespace npu_emulator::ops;\n"
        for _ in range(FILES)
    ]
    for i, kernel in enumerate(read_kernels(options.kernels)):
        operator = operators.get("aclnn" + kernel.name)
        if operator is None:
            raise SystemExit(f"{kernel.where}: no operator aclnn{kernel.name} in the fact table")
        parts[i % FILES] += entry_points(kernel, operator)
    options.out.mkdir(parents=True, exist_ok=True)
    for i, part in enumerate(parts):
        path = options.out / f"ops_entry_{i}.cpp"
        if not path.exists() or path.read_text(encoding="utf-8") != part:
            path.write_text(part, encoding="utf-8")


if __name__ == "__main__":
    main()
