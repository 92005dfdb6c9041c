"""The table of environment variables in csrc/cann/Env.h against the code that reads it."""

import re
from pathlib import Path

CSRC = Path(__file__).resolve().parents[2] / "csrc"
ENV = CSRC / "cann" / "Env.h"


def table() -> list[str]:
    body = ENV.read_text().partition("kVariables =")[2].partition("\n});")[0]
    return re.findall(r'\{"(\w+)",\s+Kind::', body)


def sources() -> dict[Path, str]:
    """What may read the environment: all but the emulator, which stands in for a vendor's library."""
    return {
        path: path.read_text()
        for path in CSRC.rglob("*")
        if path.suffix in {".h", ".cpp"} and "emulator" not in path.parts
    }


def test_table_names_each_variable_once() -> None:
    names = table()
    assert len(names) >= 15
    assert len(names) == len(set(names))


def test_every_variable_of_the_table_is_read() -> None:
    read = {
        name
        for text in sources().values()
        for name in re.findall(r'env::(?:flag|integer|seconds|text|isSet)\(\s*"(\w+)"', text)
    }
    assert read == set(table())


def test_nothing_reads_the_environment_past_the_table() -> None:
    readers = {
        str(path.relative_to(CSRC)) for path, text in sources().items() if "getenv(" in text
    }
    assert readers == {"cann/Env.cpp"}
