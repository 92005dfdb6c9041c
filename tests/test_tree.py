"""What the whole tree keeps to."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def tracked() -> list[Path]:
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.stdout.splitlines() if (ROOT / name).is_file()]


def test_source_files_stay_under_six_hundred_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in tracked()
        if path.suffix in {".py", ".cpp", ".h"} and "tests" not in path.parts
        and (count := len(path.read_text().splitlines())) > 600
    }  # fmt: skip
    assert not long, f"two duties in a file: split {long}"


def test_every_folder_readme_names_its_files() -> None:
    for folder in (ROOT / "csrc").iterdir():
        if not folder.is_dir():
            continue
        readme = (folder / "README.md").read_text()
        for path in folder.iterdir():
            if path.suffix in {".cpp", ".h", ".py"}:
                assert path.stem in readme, f"{folder.name}/README.md does not mention {path.name}"


def test_no_file_names_a_path_of_a_developers_machine() -> None:
    pattern = re.compile(r"/(?:home|root|work)/\w+")
    for path in tracked():
        if path.suffix in {".py", ".cpp", ".h", ".md", ".toml", ".yaml", ".txt"} and path != Path(__file__):
            assert not pattern.search(path.read_text()), path.relative_to(ROOT)


def test_torch_range_is_said_in_one_place() -> None:
    said = [
        str(path.relative_to(ROOT))
        for path in tracked()
        if path.suffix in {".py", ".toml", ".txt", ".cfg"} and "interop" not in path.parts
        and re.search(r"torch\s*[><=~]=\s*\d", path.read_text())
    ]  # fmt: skip
    assert said == ["pyproject.toml"]


def test_links_of_every_page_lead_to_a_file() -> None:
    for page in (path for path in tracked() if path.suffix == ".md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
