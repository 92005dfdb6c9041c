"""Rules that a table must keep. All violations of all rows are collected, then raised at once."""

from __future__ import annotations

import re

from model import IDENTIFIER, LITERALS, Call, Operator, Parameter, TableError, argument_types

INTEGERS = {"int64_t", "int32_t", "int", "int8_t", "uint64_t"}
FLOATS = {"double", "float"}
POINTERS = {"aclTensor*", "aclTensorList*", "aclScalar*", "aclScalarList*", "aclIntArray*",
            "aclBoolArray*", "aclFloatArray*", "char*"}

# Schema type -> C types that the launcher makes of it. Optional numbers, types and strings have no
# C counterpart for "absent": a row says what stands for it (let, or an expression).
CTYPES = [
    (r"Tensor\??", {"aclTensor*"}),
    (r"Tensor\??\[\d*\]", {"aclTensorList*"}),
    (r"Scalar\??", {"aclScalar*"}),
    (r"Scalar\[\]", {"aclScalarList*"}),
    (r"(Sym)?[iI]nt\[\d*\]\??", {"aclIntArray*"}),
    (r"bool\[\d*\]", {"aclBoolArray*"}),
    (r"(Sym)?[iI]nt", INTEGERS),
    (r"float", FLOATS),
    (r"bool", {"bool"}),
    (r"str", {"char*"}),
    (r"ScalarType", {"aclDataType"}),
]


def accepts(schema_type: str, ctype: str) -> bool:
    for pattern, ctypes in CTYPES:
        if re.fullmatch(pattern, schema_type):
            return ctype in ctypes
    return False


def literal_accepts(text: str, ctype: str) -> bool:
    if text in ("true", "false"):
        return ctype == "bool"
    if text == "nullopt":
        return ctype in POINTERS
    if re.fullmatch(r"-?\d+", text):
        return ctype in INTEGERS or ctype in FLOATS
    return ctype in FLOATS


def is_literal(text: str) -> bool:
    return text in LITERALS or re.fullmatch(r"-?\d+(\.\d*)?", text) is not None


def check_call(operator: Operator, call: Call, facts: dict[str, tuple[Parameter, ...]]) -> list[str]:
    where = operator.row.where
    if call.statement is not None:
        return []
    parameters = facts.get(call.operator)
    if parameters is None:
        return [f"{where}: no aclnn function {call.operator} in aclnn_functions.tsv"]
    if len(parameters) != len(call.arguments):
        wanted = ", ".join(f"{p.ctype} {p.name}" for p in parameters)
        return [
            f"{where}: {call.operator} takes {len(parameters)} arguments ({wanted}), "
            f"the row gives {len(call.arguments)}: {', '.join(call.arguments)}"
        ]
    problems = []
    types = argument_types(operator)
    for argument, parameter in zip(call.arguments, parameters):
        if is_literal(argument):
            fits = literal_accepts(argument, parameter.ctype)
        elif not IDENTIFIER.match(argument) or argument in operator.row.let:
            continue  # an expression: the C++ compiler checks it against the same signature
        elif argument in operator.outputs:
            fits = parameter.ctype == "aclTensor*"
        elif argument in types:
            fits = accepts(types[argument], parameter.ctype)
        else:
            known = sorted({*types, *operator.outputs, *operator.row.let})
            problems.append(f"{where}: {argument!r} is neither an argument nor an output; known: {known}")
            continue
        if not fits:
            kind = types.get(argument, "output" if argument in operator.outputs else "literal")
            problems.append(
                f"{where}: {call.operator} wants {parameter.ctype} {parameter.name}, "
                f"{argument!r} ({kind}) cannot be that"
            )
    return problems


def check_operator(operator: Operator, facts: dict[str, tuple[Parameter, ...]]) -> list[str]:
    row = operator.row
    problems = []
    for calls in (row.calls, row.inplace):
        for call in calls:
            problems += check_call(operator, call, facts)
        if calls and calls[-1].condition is not None:
            problems.append(f"{row.where}: the last call has a condition; what if it does not hold?")
        for call in calls[:-1]:
            if call.condition is None:
                made = call.operator or call.statement
                problems.append(f"{row.where}: calls after an unconditional {made} are never made")
    writes_into_inputs = operator.structured and not operator.has_iterator
    if operator.inplace is not None and writes_into_inputs and not (row.inplace or row.inplace_by_copy):
        problems.append(
            f"{row.where}: aclnn would read and write the same memory in {operator.inplace.func.name}: "
            "give an `inplace` call, or `inplace: copy`"
        )
    for name in row.keep:
        if name not in argument_types(operator):
            problems.append(f"{row.where}: `keep` names {name!r}, which is not an argument")
    return problems


def check_all(operators: list[Operator], facts: dict[str, tuple[Parameter, ...]]) -> None:
    problems = []
    seen: dict[str, str] = {}
    for operator in operators:
        problems += check_operator(operator, facts)
        for function in operator.overloads:
            name = str(function.func.name)
            if name in seen:
                problems.append(f"{operator.row.where}: aten::{name} is registered by {seen[name]} already")
            seen[name] = operator.row.where
    if problems:
        raise TableError("\n".join(problems))
