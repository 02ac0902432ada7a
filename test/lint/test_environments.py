"""The environments of test/support/setup.sh: exact versions from test/locks, or ranges."""

import os
import pathlib
import subprocess
import tomllib
import zipfile

import pytest
from packaging.requirements import Requirement

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
LOCKED = [("venv", "examples/requirements.txt"), ("venv", "test/requirements.txt"),
          ("torch", "test/torch/requirements.txt"),
          ("tf", "test/tensorflow/requirements.txt"), ("tf", "test/keras/requirements.txt"),
          ("wheel", "bindings/wheel_requirements.txt")]


def lines_of(path):
    lines = path.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_the_package_and_its_scripts_ask_for_the_same_ranges():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    asked = [*project["build-system"]["requires"], *project["project"]["dependencies"],
             *project["project"]["optional-dependencies"]["examples"]]
    for _, ranges in LOCKED:
        asked += lines_of(REPOSITORY / ranges)
    specifiers = {}
    for requirement in map(Requirement, asked):
        specifiers.setdefault(requirement.name, set()).add(str(requirement.specifier))
    assert [name for name, found in specifiers.items() if len(found) > 1] == []


@pytest.mark.parametrize("lock,ranges", LOCKED)
def test_a_lock_has_a_version_of_each_requirement_in_its_range(lock, ranges):
    locked = dict(line.split("==") for line in lines_of(REPOSITORY / f"test/locks/{lock}.txt"))
    for requirement in map(Requirement, lines_of(REPOSITORY / ranges)):
        assert requirement.specifier.contains(locked[requirement.name]), requirement


def make_wheel(folder, name, version):
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", "")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


class Registry:
    """A folder that pip takes packages from: hvd_one and hvd_two in versions 0.9, 1.0, 1.5 and 2.0."""

    def __init__(self, folder):
        self.folder = folder
        self.wheels = folder

    def install(self, versions):
        """What make_environment says, and the versions that are there then."""
        script = ('set -euo pipefail; source test/support/setup.sh && make_environment "$0/env" "$1" "$0/requirements.txt" && '
                  '"$0/env/bin/pip" freeze --exclude pip --exclude setuptools')
        done = subprocess.run(
            ["bash", "-c", script, self.folder, versions], cwd=REPOSITORY, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels)})
        return done.returncode, done.stdout

    def lock(self, *pins):
        path = self.folder / "lock.txt"
        path.write_text("".join(f"{pin}\n" for pin in ("# Written.", *pins)))
        return path


@pytest.fixture(scope="module")
def filled_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("registry")
    for name in ("hvd_one", "hvd_two"):
        for version in ("0.9", "1.0", "1.5", "2.0"):
            make_wheel(folder, name, version)
    subprocess.run(["/usr/bin/python3", "-m", "venv", folder / "env"], check=True)
    return folder


@pytest.fixture
def registry(filled_folder):
    """With an environment that has neither package; making one takes seconds."""
    (filled_folder / "requirements.txt").write_text("# Needed.\nhvd_one>=1.0\nhvd_two>=1.0\n")
    for stamp in (filled_folder / "env").glob("*.installed"):
        stamp.unlink()
    subprocess.run([filled_folder / "env/bin/pip", "uninstall", "-qy", "hvd_one", "hvd_two"],
                   check=True, capture_output=True)
    return Registry(filled_folder)


@pytest.mark.full
def test_an_environment_has_the_newest_or_the_oldest_versions(registry):
    for versions, installed in (("newest", "2.0"), ("oldest", "1.0"), ("newest", "2.0")):
        code, said = registry.install(versions)
        assert code == 0 and f"hvd_one=={installed}" in said and f"hvd_two=={installed}" in said, said


def test_a_lock_decides_and_each_change_of_it_is_installed(registry):
    for version in ("1.5", "1.0", "1.5"):
        code, said = registry.install(registry.lock(f"hvd_one=={version}", "hvd_two==1.5"))
        assert code == 0 and f"hvd_one=={version}" in said and "hvd_two==1.5" in said, said
        assert "not available" not in said


@pytest.mark.full
def test_what_is_installed_already_takes_no_second_run_of_pip(registry):
    lock = registry.lock("hvd_one==1.5", "hvd_two==1.5")
    assert "installing" in registry.install(lock)[1]
    assert "installing" not in registry.install(lock)[1]


def test_a_version_that_is_gone_is_named_and_the_range_decides(registry):
    lock = registry.lock("hvd_one==1.2", "hvd_two==1.5")
    code, said = registry.install(lock)
    assert code == 0 and "hvd_one==2.0" in said and "hvd_two==1.5" in said, said
    assert said.count("not available") == 1 and f"not available: hvd_one==1.2 ({lock})" in said, said


@pytest.mark.full
def test_a_version_that_is_gone_does_not_free_those_that_are_installed(registry):
    registry.install(registry.lock("hvd_one==1.5", "hvd_two==1.0"))
    code, said = registry.install(registry.lock("hvd_one==1.2", "hvd_two==1.5"))
    assert code == 0 and "hvd_one==1.5" in said and "hvd_two==1.5" in said, said
    assert "not available: hvd_one==1.2 (" in said, said


@pytest.mark.full
def test_without_a_registry_pip_says_so(registry, tmp_path):
    registry.wheels = tmp_path
    code, said = registry.install(registry.lock("hvd_one==1.5", "hvd_two==1.5"))
    assert code != 0 and "hvd_one" in said and "not available" not in said, said


def test_a_requirement_that_no_version_meets_fails_with_what_pip_says(registry):
    (registry.folder / "requirements.txt").write_text("hvd_one>=3\n")
    code, said = registry.install(registry.lock("hvd_one==1.5"))
    assert code != 0 and "hvd_one" in said and "not available" not in said, said
