"""The images have what the program needs, and not more."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.tidy.sources import ELSEWHERE, OURS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
IMAGES = ("Dockerfile", "Dockerfile.spark")
#: The benchmarks and the chaos tests stay in the checkout.
SHIPPED = [package for package in OURS if package not in ("bench", "chaos")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def lines(image: str) -> list[str]:
    """The instructions of an image, one a line."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / image).read_text(encoding="utf-8"))
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_context_has_every_package() -> None:
    """.dockerignore lets in the folders that the distribution is made of, and what pyproject.toml names."""
    let_in = {line[1:].rstrip("/") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    found = PROJECT["tool"]["setuptools"]["packages"]["find"]
    packages = {folder.split("/")[0]: package for package, folder in ELSEWHERE.items()}
    names = [packages.get(folder, folder) for folder in SHIPPED]
    assert found["include"] == [pattern for package in names for pattern in (package, f"{package}.*")]
    assert found["where"] == [".", *packages]
    assert let_in == {*SHIPPED} | {"pyproject.toml", "LICENSE", PROJECT["project"]["readme"]}


def test_the_distribution_has_every_folder() -> None:
    """A folder of modules without an `__init__.py` is no package, so it would be missing from the image alone."""
    assert PROJECT["tool"]["setuptools"]["packages"]["find"]["namespaces"] is False
    folders = {path.parent for folder in OURS for path in (ROOT / folder).rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


@pytest.mark.parametrize("image", IMAGES)
def test_images_run_without_rights(image: str) -> None:
    """What builds is left behind; what runs has a user of its own, given by number, so that a cluster can check it."""
    found = lines(image)
    assert sum(line.startswith("FROM ") for line in found) == 2
    last = max(number for number, line in enumerate(found) if line.startswith("FROM "))
    assert "USER 10001:10001" in found[last:]
    assert not any("pip install" in line for line in found[last:])
    assert 'ENTRYPOINT ["hourwheel"]' in found


def test_only_the_jobs_have_spark() -> None:
    """A node needs neither Spark nor Java."""
    assert any("'.[spark]'" in line for line in lines("Dockerfile.spark"))
    assert not any("spark" in line for line in lines("Dockerfile"))
