"""The lock of the development environment: every pin by hash, within our own ranges, and no pin missing."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
FILES = ("constraints.txt", "constraints-cuda.txt")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("locked_hashes", ROOT / "studies" / "locked_hashes.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["locked_hashes"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def pins(script: ModuleType, name: str = "constraints.txt") -> dict[str, str]:
    return {canonicalize_name(pin.name): pin.version for pin in script.read_pins(ROOT / name)[1]}


def ranges() -> list[Requirement]:
    project = PROJECT["project"]
    texts = [*project["dependencies"], *PROJECT["build-system"]["requires"]]
    texts += [text for extra in project["optional-dependencies"].values() for text in extra]
    return [Requirement(text) for text in texts if not text.startswith("graphsde[")]


@pytest.mark.parametrize("name", FILES)
def test_every_pin_has_a_hash(name: str, script: ModuleType) -> None:
    _, found = script.read_pins(ROOT / name)
    assert len(found) > 10 and [pin.name for pin in found if not pin.hashes] == []
    assert len({canonicalize_name(pin.name) for pin in found}) == len(found)
    # nothing else is in the file: a line without a hash would have pip take whatever it finds
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"#.*|[A-Za-z0-9._-]+==\S+ \\|    --hash=sha256:[0-9a-f]{64}( \\)?", line), line


def test_our_ranges_admit_the_pins(script: ModuleType) -> None:
    found = pins(script)
    for requirement in ranges():
        version = found[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} does not admit {version}"


def test_the_pins_are_complete(script: ModuleType) -> None:
    """Whatever a pinned package needs is pinned: pip looks for nothing by itself."""
    found, missing = pins(script), set()
    for name in found:
        try:
            needs = [Requirement(text) for text in metadata.requires(name) or []]
        except metadata.PackageNotFoundError:
            continue  # not installed here
        for need in needs:
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                inside = found.get(canonicalize_name(need.name))
                if inside is None or not need.specifier.contains(inside, prereleases=True):
                    missing.add(f"{name} needs {need}")
    assert not missing


def test_versions_are_the_installed_ones_or_say_so(script: ModuleType) -> None:
    """Where torch is a local build (2.13.0+cpu), it is a build of the pinned version."""
    assert metadata.version("torch").partition("+")[0] == pins(script)["torch"]


def test_the_makefile_installs_by_hash_only() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = [line.strip() for line in text.splitlines() if "pip install" in line]
    assert len(installs) == 5
    for line in installs:
        assert "$(LOCKED)" in line or line.endswith("--no-deps --no-build-isolation -e .")
    assert re.search(r"^LOCKED := .*--require-hashes --no-deps --only-binary :all:$", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("filename", "is_ours"),
    [
        ("torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl", True),
        ("torch-2.13.0+cpu-cp312-cp312-win_amd64.whl", True),
        ("torch-2.13.0.0-py3-none-any.whl", True),
        ("torch-2.13.0-cp38-abi3-macosx_14_0_arm64.whl", True),
        ("torch-2.13.0-py2.py3-none-any.whl", True),
        ("torch-2.13.0-cp310-cp310-manylinux_2_28_x86_64.whl", False),
        ("torch-2.13.0-pp311-pypy311_pp73-manylinux_2_28_x86_64.whl", False),
        ("torch-2.13.0-py2-none-any.whl", False),
        ("torch-2.13.1-cp311-cp311-win_amd64.whl", False),
        ("torch-2.13.0rc1-cp311-cp311-win_amd64.whl", False),
        ("torchsde-2.13.0-py3-none-any.whl", False),
        ("torch-2.13.0.tar.gz", False),
        ("index.html", False),
    ],
)
def test_which_files_belong_to_a_pin(script: ModuleType, filename: str, is_ours: bool) -> None:
    assert script.usable(filename, script.Pin("torch", "2.13.0")) == is_ours


def test_hashes_come_from_indexes_and_folders(script: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "simple" / "some-thing" / "index.html"
    page.parent.mkdir(parents=True)
    rows = {"some_thing-1.0-py3-none-any.whl": "a" * 64, "some_thing-2.0-py3-none-any.whl": "b" * 64}
    page.write_text("".join(f'<a href="../../{name}#sha256={digest}">{name}</a>' for name, digest in rows.items()))
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / "some_thing-1.0+local-py3-none-any.whl").write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # SHA-256 of "abc", FIPS 180-2
    pin = script.Pin("Some.Thing", "1.0", {"c" * 64})
    found = set(script.hashes_of(pin, [(tmp_path / "simple").as_uri(), (tmp_path / "nowhere").as_uri()], [wheels]))
    assert found == {"a" * 64, known}
    assert script.move([pin], ["some-thing==1.0", "new==3"]) == ["new==3"] and pin.hashes == {"c" * 64}
    assert script.move([pin], ["some_thing==2.0"]) == [] and pin.hashes == set() and pin.version == "2.0"
