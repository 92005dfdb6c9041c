"""The ABI headers, read by a real C++ parser, against the fact tables."""

import csv
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import clang.cindex
import pytest
from clang.cindex import CursorKind

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
FACTS = CSRC / "cann" / "facts"
HEADERS = ("acl.h", "acl_errors.h", "aclnn.h", "hccl.h", "aclnn_ops.h")
# CANN says "the layout that the config's own size selects": HCCL_COMM_CONFIG_VERSION of our header.
COMM_CONFIG_SIZES = {10: {2232, 2240}, 11: {2248}}


def rows(table: str) -> list[dict[str, str]]:
    with (FACTS / table).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def canonical(spelling: str) -> str:
    """One spelling of a C type: no space before '*', none doubled, no 'struct' or 'enum'."""
    spelling = re.sub(r"\b(struct|enum|union)\s+", "", spelling)
    spelling = re.sub(r"\s*\*\s*", "*", spelling)
    spelling = re.sub(r"\s+", " ", re.sub(r"\s*\[", "[", spelling))
    return re.sub(r"\*const$", "* const", spelling.strip())


@dataclass
class Declared:
    """What the headers declare."""

    functions: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)  # of anonymous enums
    enums: dict[str, dict[str, int]] = field(default_factory=dict)
    enum_sizes: dict[str, int] = field(default_factory=dict)
    records: dict[str, clang.cindex.Cursor] = field(default_factory=dict)
    typedefs: dict[str, tuple[str, int]] = field(default_factory=dict)


def system_includes() -> list[str]:
    """The compiler's own header folders: libclang brings none."""
    text = subprocess.run(
        ["c++", "-x", "c++", "-E", "-v", "/dev/null"], capture_output=True, text=True, check=True
    ).stderr
    folders = text.partition("search starts here:\n#include <...>")[2] or text
    return [line.strip() for line in folders.splitlines() if line.startswith(" /")]


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Declared:
    generated = tmp_path_factory.mktemp("generated")
    subprocess.run(
        [sys.executable, CSRC / "codegen" / "abi.py", "--facts", FACTS, "--out", generated],
        check=True,
    )
    arguments = ["-x", "c++", "-std=c++20", f"-I{CSRC}", f"-I{generated}"]
    for folder in system_includes():
        arguments += ["-isystem", folder]
    source = generated / "all.cpp"
    source.write_text("".join(f'#include "cann/abi/{name}"\n' for name in HEADERS))
    unit = clang.cindex.Index.create().parse(str(source), args=arguments)
    errors = [str(d) for d in unit.diagnostics if d.severity >= clang.cindex.Diagnostic.Error]
    assert not errors, "\n".join(errors)

    result = Declared()

    def visit(cursor: clang.cindex.Cursor) -> None:
        for child in cursor.get_children():
            if child.location.file is None or Path(child.location.file.name).name not in HEADERS:
                continue
            if child.kind in (CursorKind.LINKAGE_SPEC, CursorKind.UNEXPOSED_DECL):
                visit(child)
            elif child.kind == CursorKind.FUNCTION_DECL:
                parameters = tuple(
                    (canonical(p.type.spelling), p.spelling) for p in child.get_arguments()
                )
                result.functions[child.spelling] = (
                    canonical(child.result_type.spelling),
                    parameters,
                )
            elif child.kind == CursorKind.ENUM_DECL:
                values = {item.spelling: item.enum_value for item in child.get_children()}
                if child.is_anonymous() or "unnamed" in child.spelling:
                    result.constants |= values
                else:
                    result.enums[child.spelling] = values
                    result.enum_sizes[child.spelling] = child.type.get_size()
            elif child.kind in (CursorKind.STRUCT_DECL, CursorKind.UNION_DECL):
                if child.is_definition():
                    result.records[child.spelling] = child
            elif child.kind == CursorKind.TYPEDEF_DECL:
                target = child.underlying_typedef_type
                result.typedefs[child.spelling] = (
                    canonical(target.spelling),
                    child.type.get_size(),
                )

    visit(unit.cursor)
    return result


def parameters_of(text: str, separator: str) -> tuple[tuple[str, str], ...]:
    """'const int64_t* dims, size_t n' -> (('const int64_t*', 'dims'), ('size_t', 'n'))"""
    found = []
    for part in filter(None, (p.strip() for p in text.split(separator))):
        type_, name = re.fullmatch(r"(.*?)(\w+)", part).groups()
        found.append((canonical(type_), name))
    return tuple(found)


def test_functions_of_the_headers_equal_the_facts(declared: Declared) -> None:
    facts = {row["name"]: row for row in rows("acl_functions.tsv")}
    operators = {row["op"] for row in rows("aclnn_functions.tsv")}
    checked = 0
    for name, (result, parameters) in declared.functions.items():
        if name in operators or name.removesuffix("GetWorkspaceSize") in operators:
            continue
        assert name in facts, f"{name} is in no fact table"
        assert result == canonical(facts[name]["return_type"]), name
        assert parameters == parameters_of(facts[name]["parameters"], ","), name
        checked += 1
    assert checked >= 170


def test_operators_of_the_generated_header_equal_the_facts(declared: Declared) -> None:
    two_phase = 0
    run = (
        "aclnnStatus",
        (("void*", "workspace"), ("uint64_t", "workspaceSize"), ("aclOpExecutor*", "executor"),
         ("aclrtStream", "stream")),
    )  # fmt: skip
    for row in rows("aclnn_functions.tsv"):
        name = row["op"]
        if "not two-phase" in row["notes"]:
            assert f"{name}GetWorkspaceSize" not in declared.functions
            continue
        expected = parameters_of(row["get_workspace_size_parameters"], ";")
        result, parameters = declared.functions[f"{name}GetWorkspaceSize"]
        assert result == "aclnnStatus"
        # The names of the last two differ between operators and mean the same.
        assert parameters[:-2] == expected[:-2], name
        assert [type_ for type_, _ in parameters[-2:]] == ["uint64_t*", "aclOpExecutor**"], name
        assert declared.functions[name] == run
        two_phase += 1
    assert two_phase == 909


def test_enumerators_of_the_headers_equal_the_facts(declared: Declared) -> None:
    facts: dict[str, dict[str, int]] = defaultdict(dict)
    for row in rows("acl_enums.tsv"):
        if row["value"].startswith('"'):
            continue  # a string constant
        group = "constants" if "(constant)" in row["enum"] else row["enum"]
        facts[group][row["enumerator"]] = int(row["value"])
    for enum, values in declared.enums.items():
        assert values == facts[enum], enum
        assert declared.enum_sizes[enum] == 4, f"{enum} must be 4 bytes"
    for name, value in declared.constants.items():
        assert value == facts["constants"][name], name
    assert len(declared.enums) >= 20 and len(declared.constants) >= 200


def layout(record: clang.cindex.Cursor) -> list[tuple[str, str, int]]:
    """(field, type, offset in bytes)"""
    return [
        (item.spelling, canonical(item.type.spelling), record.type.get_offset(item.spelling) // 8)
        for item in record.get_children()
        if item.kind == CursorKind.FIELD_DECL
    ]


def test_structs_of_the_headers_equal_the_facts(declared: Declared) -> None:
    facts: dict[tuple[str, int], list[dict[str, str]]] = defaultdict(list)
    for row in rows("acl_structs.tsv"):
        known = facts[row["struct"], int(row["size"])]
        if row not in known:  # a layout that two releases share is in the table twice
            known.append(row)
    for name, record in declared.records.items():
        size = record.type.get_size()
        assert (name, size) in facts, f"{name} has {size} bytes, which no fact says"
        expected = facts[name, size]
        assert record.type.get_align() == int(expected[0]["align"]), name
        assert layout(record) == [
            (row["field"], canonical(row["type"]), int(row["offset"])) for row in expected
        ], name  # fmt: skip
    assert len(declared.records) >= 20


def test_comm_config_layouts_agree_as_far_as_the_shorter_reaches(declared: Declared) -> None:
    variants: dict[int, list[tuple[str, str, str]]] = defaultdict(list)
    for row in rows("acl_structs.tsv"):
        if row["struct"] == "HcclCommConfig":
            variants[int(row["size"])].append((row["field"], row["type"], row["offset"]))
    ordered = [variants[size] for size in sorted(variants)]
    for shorter, longer in zip(ordered, ordered[1:], strict=False):
        assert longer[: len(shorter)] == shorter
    version = declared.constants["HCCL_COMM_CONFIG_VERSION"]
    assert declared.records["HcclCommConfig"].type.get_size() in COMM_CONFIG_SIZES[version]
    assert set(variants) == set().union(*COMM_CONFIG_SIZES.values())


def test_typedefs_of_the_headers_equal_the_facts(declared: Declared) -> None:
    facts = {row["typedef"]: row for row in rows("acl_typedefs.tsv")}
    checked = 0
    for name, (target, size) in declared.typedefs.items():
        if name in declared.records or name in declared.enums or target == name:
            continue  # typedef struct X X
        assert name in facts, name
        assert target == canonical(facts[name]["definition"]), name
        assert size == int(facts[name]["size"]), name
        checked += 1
    assert checked >= 10


SYMBOL = re.compile(
    r'inline constinit Symbol<decltype\(::(\w+)\)> (\w+)\{\s*"(\w+)",\s*Lib::(\w+)\};'
)
LIBRARIES = {
    "Acl": "libascendcl", "OpCompiler": "libacl_op_compiler", "Nnopbase": "libnnopbase",
    "Hccl": "libhccl", "Hcomm": "libhcomm",
}  # fmt: skip


def test_symbols_name_every_declared_function_once_in_its_library(declared: Declared) -> None:
    facts = {row["name"]: row["library"] for row in rows("acl_functions.tsv")}
    seen: list[str] = []
    for header in ("Acl.h", "Hccl.h", "OpApi.h"):
        for prototype, variable, text, library in SYMBOL.findall(
            (CSRC / "cann" / header).read_text()
        ):
            assert prototype == variable == text
            assert LIBRARIES[library] == facts[text], text
            seen.append(text)
    assert len(seen) == len(set(seen))
    assert set(seen) == {name for name in declared.functions if not name.startswith("aclnn")}


def test_structs_without_layout_are_opaque_handles_of_cann(declared: Declared) -> None:
    """A struct that is only named must be one of CANN's opaque handles, not a misspelt type."""
    opaque = {
        "aclOpExecutor", "aclTensor", "aclTensorList", "aclScalar", "aclScalarList", "aclIntArray",
        "aclBoolArray", "aclFloatArray", "aclrtUtilizationExtendInfo",
    }  # fmt: skip
    named = {
        name
        for name, (target, size) in declared.typedefs.items()
        if target == name
        and name not in declared.records
        and name not in declared.enums
        and size < 0
    }
    assert named <= opaque
