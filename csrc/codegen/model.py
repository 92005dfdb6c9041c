"""What the generator knows: rows of the operator tables, ATen's schemas, aclnn's signatures.

A row (csrc/aten/ops/*.yaml) becomes a `Row`, tied to the ATen group (functional, out, in-place
overloads of one operator) that it covers. Nothing is judged here except syntax: see check.py.
"""

from __future__ import annotations

import csv
import os
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import torchgen
import yaml
from torchgen.gen import get_grouped_native_functions, parse_native_yaml
from torchgen.model import NativeFunction, NativeFunctionsGroup, SchemaKind, Variant

IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z")
LITERALS = {"true", "false", "nullopt"}


class TableError(Exception):
    """A row that cannot be built; the text says which and why."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of an aclnn function: its C type without const, and its name."""

    ctype: str
    name: str


@dataclass(frozen=True)
class Call:
    """`operator(arguments)`, or the C++ `statement`, done if `condition` (C++) holds; None: always."""

    operator: str | None
    arguments: tuple[str, ...]
    condition: str | None = None
    statement: str | None = None


@dataclass(frozen=True)
class Row:
    """One line of a table. See README.md for the meaning of each key."""

    where: str  # file and name, for messages
    op: str
    calls: tuple[Call, ...]
    inplace: tuple[Call, ...] = ()
    inplace_by_copy: bool = False
    meta: str | None = None  # class of ours, instead of torch's
    meta_arguments: tuple[str, ...] | None = None
    convert: str = "common"
    keep: frozenset[str] = frozenset()
    let: dict[str, str] = field(default_factory=dict)
    require: tuple[str, ...] = ()  # C++ statements that raise for arguments that cannot be
    only: frozenset[str] | None = None


@dataclass(frozen=True)
class Operator:
    """A row with the ATen overloads that it implements."""

    row: Row
    functional: NativeFunction | None
    out: NativeFunction | None
    inplace: NativeFunction | None
    group: NativeFunctionsGroup | None
    outputs: tuple[str, ...]

    @property
    def structured(self) -> bool:
        return self.group is not None and self.group.structured and self.row.meta is None

    @property
    def has_iterator(self) -> bool:
        """Whether torch's meta class is a TensorIterator (knows a common dtype, allows aliasing)."""
        return self.structured and self.group.out.structured_inherits is not None

    @property
    def overloads(self) -> list[NativeFunction]:
        return [f for f in (self.functional, self.out, self.inplace) if f is not None]

    @property
    def name(self) -> str:
        return self.row.op.replace(".", "_")


def split_arguments(text: str) -> tuple[str, ...]:
    """Splits `a, f(b, c), d` at its outer commas."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return (*parts, last) if last or parts else ()


def parse_invocation(text: str, where: str) -> tuple[str, tuple[str, ...]]:
    match = re.fullmatch(r"\s*([\w:]+)\s*\((.*)\)\s*", text, re.DOTALL)
    if match is None:
        raise TableError(f"{where}: expected `name(arguments)`, got {text!r}")
    return match[1], split_arguments(match[2])


def parse_calls(value: Any, where: str) -> tuple[Call, ...]:
    entries = value if isinstance(value, list) else [value]
    calls = []
    for entry in entries:
        if isinstance(entry, str):
            entry = {"call": entry}
        if set(entry) - {"if"} == {"do"}:
            calls.append(Call(None, (), entry.get("if"), entry["do"]))
        elif set(entry) - {"if"} == {"call"}:
            operator, arguments = parse_invocation(entry["call"], where)
            calls.append(Call(operator, arguments, entry.get("if")))
        else:
            raise TableError(f"{where}: a call is a string, {{if, call}} or {{if, do}}, got {entry!r}")
    return tuple(calls)


ROW_KEYS = {"op", "call", "calls", "inplace", "meta", "convert", "keep", "let", "require", "only"}


def parse_row(entry: dict[str, Any], file: str) -> Row:
    if not isinstance(entry, dict) or "op" not in entry:
        raise TableError(f"{file}: a row is a mapping with `op`, got {entry!r}")
    where = f"{file}: {entry['op']}"
    if unknown := set(entry) - ROW_KEYS:
        raise TableError(f"{where}: unknown keys {sorted(unknown)}; known: {sorted(ROW_KEYS)}")
    if ("call" in entry) == ("calls" in entry):
        raise TableError(f"{where}: exactly one of `call` and `calls` is needed")
    inplace = entry.get("inplace")
    meta, meta_arguments = entry.get("meta"), None
    if meta is not None and "(" in meta:
        meta, meta_arguments = parse_invocation(meta, where)
    return Row(
        where=where,
        op=entry["op"],
        calls=parse_calls(entry.get("call", entry.get("calls")), where),
        inplace=parse_calls(inplace, where) if inplace not in (None, "copy") else (),
        inplace_by_copy=inplace == "copy",
        meta=meta,
        meta_arguments=meta_arguments,
        convert=entry.get("convert", "common"),
        keep=frozenset(entry.get("keep", ())),
        let=entry.get("let", {}),
        require=tuple(entry.get("require", ())),
        only=frozenset(entry["only"]) if "only" in entry else None,
    )


def load_rows(folder: Path) -> list[Row]:
    rows = []
    for file in sorted(folder.glob("*.yaml")):
        for entry in yaml.safe_load(file.read_text()) or []:
            rows.append(parse_row(entry, file.name))
    if not rows:
        raise TableError(f"no rows in {folder}/*.yaml")
    return rows


@cache
def native_groups() -> dict[str, NativeFunction | NativeFunctionsGroup]:
    """Every ATen overload name -> its group (or itself, if it has none)."""
    folder = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    parsed = parse_native_yaml(folder / "native_functions.yaml", folder / "tags.yaml")
    index: dict[str, NativeFunction | NativeFunctionsGroup] = {}
    for group in get_grouped_native_functions(parsed.native_functions):
        members = list(group.functions()) if isinstance(group, NativeFunctionsGroup) else [group]
        for function in members:
            index[str(function.func.name)] = group
    return index


def output_names(function: NativeFunction, out: NativeFunction | None) -> tuple[str, ...]:
    if out is not None:
        return tuple(a.name for a in out.func.arguments.out)
    returns = function.func.returns
    if len(returns) == 1:
        return (returns[0].name or "out",)
    return tuple(r.name or f"out{i}" for i, r in enumerate(returns))


def resolve(row: Row) -> Operator:
    """Finds the overloads of a row. Overloads that torchgen invents (the tag `generated`) and
    composites that torch builds from others are left to torch unless `only` names them."""
    group = native_groups().get(row.op)
    if group is None:
        raise TableError(f"{row.where}: torch {torchgen_version()} has no operator aten::{row.op}")
    members = list(group.functions()) if isinstance(group, NativeFunctionsGroup) else [group]

    def wanted(function: NativeFunction) -> bool:
        name = str(function.func.name)
        if row.only is not None:
            return name in row.only
        if "generated" in function.tags:
            return False
        return not function.has_composite_implicit_autograd_kernel

    def pick(kind: SchemaKind) -> NativeFunction | None:
        found = [f for f in members if f.func.kind() == kind and wanted(f)]
        return found[0] if found else None

    if row.only is not None:
        names = {str(f.func.name) for f in members}
        if missing := row.only - names:
            raise TableError(f"{row.where}: `only` names {sorted(missing)}, the group has {sorted(names)}")
    functional, out, inplace = pick(SchemaKind.functional), pick(SchemaKind.out), pick(SchemaKind.inplace)
    if functional is None and out is None and inplace is None:
        raise TableError(f"{row.where}: no overload left to implement")
    whole = group if isinstance(group, NativeFunctionsGroup) else None
    reference = functional or out or inplace
    if reference is inplace and functional is None and out is None:
        outputs: tuple[str, ...] = ()
    else:
        outputs = output_names(reference, whole.out if whole is not None else out)
    if row.meta is None and not (whole is not None and whole.structured):
        functional = out = None  # nothing tells shapes: only what works in place
        if inplace is None:
            raise TableError(f"{row.where}: torch has no structured meta for it: name one by `meta`")
        outputs = ()
    return Operator(row, functional, out, inplace, whole, outputs)


def torchgen_version() -> str:
    from importlib.metadata import version

    return version("torch")


def load_facts(folder: Path) -> dict[str, tuple[Parameter, ...]]:
    """aclnn function -> parameters of its GetWorkspaceSize, without workspaceSize and executor."""
    facts = {}
    with open(folder / "aclnn_functions.tsv", newline="") as file:
        for line in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            parameters = []
            for text in line["get_workspace_size_parameters"].split(";"):
                if text.strip():
                    ctype, name = text.strip().rsplit(" ", 1)
                    parameters.append(Parameter(ctype.replace("const ", "").strip(), name))
            if len(parameters) >= 2 and parameters[-1].ctype == "aclOpExecutor**":
                facts[line["op"]] = tuple(parameters[:-2])
    return facts


def argument_types(operator: Operator) -> dict[str, str]:
    """Schema type (as text, without alias annotation) of every argument but outputs."""
    function = operator.functional or operator.out or operator.inplace
    return {
        a.name: str(a.type)
        for a in function.func.arguments.flat_all
        if not (function.func.kind() == SchemaKind.out and a in function.func.arguments.out)
    }


__all__ = [
    "Call", "IDENTIFIER", "LITERALS", "Operator", "Parameter", "Row", "TableError", "Variant",
    "argument_types", "load_facts", "load_rows", "resolve",
]
