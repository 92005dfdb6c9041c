"""Writes the aclnn part of csrc/cann from the fact tables.

    python abi.py --facts csrc/cann/facts --out build/generated

cann/abi/aclnn_ops.h   C prototypes of both phases of every aclnn operator
cann/OpApiOps.h        one typed Operator a line (included by cann/OpApi.h)
cann/ErrorNames.h      code -> name of every aclError (included by cann/Error.cpp)
"""

from __future__ import annotations

import argparse
import csv
import re
from dataclasses import dataclass
from pathlib import Path

TAIL = ("uint64_t* workspaceSize", "aclOpExecutor** executor")
PARAMETER = re.compile(r"(?:const )?\w+(?: ?\*){0,2} \w+(?:\[\d*\])?")


@dataclass(frozen=True)
class Operator:
    name: str
    parameters: tuple[str, ...]  # of XGetWorkspaceSize, in C, without the last two

    def prototypes(self) -> str:
        plan = ", ".join(self.parameters + TAIL)
        return (
            f"aclnnStatus {self.name}GetWorkspaceSize({plan});\n"
            f"aclnnStatus {self.name}(void* workspace, uint64_t workspaceSize, "
            f"aclOpExecutor* executor, aclrtStream stream);\n"
        )

    def symbol(self) -> str:
        return (
            f"inline constinit Operator<decltype(::{self.name}GetWorkspaceSize)> "
            f'{self.name}{{"{self.name}"}};\n'
        )


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def read_operators(facts: Path) -> tuple[list[Operator], list[str]]:
    """The two-phase operators, and the names of rows that are not of that form."""
    operators, others = [], []
    for row in rows(facts / "aclnn_functions.tsv"):
        parameters = tuple(p.strip() for p in row["get_workspace_size_parameters"].split(";"))
        types = tuple(p.rpartition(" ")[0] for p in parameters[-2:])
        if types != ("uint64_t*", "aclOpExecutor**"):  # a function of one phase: see the row's note
            others.append(row["op"])
            continue
        for parameter in parameters:
            if not PARAMETER.fullmatch(parameter):
                raise SystemExit(
                    f"{row['op']}: '{parameter}' is not a C parameter this program knows"
                )
        operators.append(Operator(row["op"], parameters[:-2]))
    return operators, others


def read_error_codes(facts: Path) -> dict[int, str]:
    """One name a code: the first in the table, but ACL_SUCCESS rather than its aliases."""
    names: dict[int, str] = {}
    for row in rows(facts / "acl_enums.tsv"):
        if row["enum"] == "aclError (constant)":
            code = int(row["value"])
            if code not in names or row["enumerator"] == "ACL_SUCCESS":
                names[code] = row["enumerator"]
    return dict(sorted(names.items()))


def write(path: Path, text: str) -> None:
    """Leaves an unchanged file alone, so that nothing is compiled anew."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    else:
        path.touch()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--facts", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()

    operators, _ = read_operators(arguments.facts)
    made = "// Made by csrc/codegen/abi.py from csrc/cann/facts. Do not edit.\n#pragma once\n\n"
    write(
        arguments.out / "cann" / "abi" / "aclnn_ops.h",
        made
        + '#include "cann/abi/aclnn.h"\n\n#ifdef __cplusplus\nextern "C" {\n#endif\n\n'
        + "".join(operator.prototypes() for operator in operators)
        + "\n#ifdef __cplusplus\n}\n#endif\n",
    )
    write(
        arguments.out / "cann" / "OpApiOps.h",
        made
        + '#include "cann/OpApi.h"\n#include "cann/abi/aclnn_ops.h"\n\nnamespace torch_npu::cann {\n\n'
        + "".join(operator.symbol() for operator in operators)
        + "\n}  // namespace torch_npu::cann\n",
    )
    codes = read_error_codes(arguments.facts)
    write(
        arguments.out / "cann" / "ErrorNames.h",
        made
        + "namespace torch_npu::cann {\n\nstruct ErrorName {\n  int code;\n  const char* name;\n};\n\n"
        + "// Ascending by code.\ninline constexpr ErrorName kErrorNames[] = {\n"
        + "".join(f'    {{{code}, "{name}"}},\n' for code, name in codes.items())
        + "};\n\n}  // namespace torch_npu::cann\n",
    )


if __name__ == "__main__":
    main()
