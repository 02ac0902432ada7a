"""Puts the licences of what a wheel brings along into it: <name>.dist-info/licenses/<package>.

    wheel_licenses.py WHEEL FOLDER      the repaired wheel, and where the finished one is written

Shared libraries are those that lie in the wheel, each with the licence of the Debian package that
it came from; what was compiled or linked in is named below. Needs dpkg and the wheel package.
"""

import importlib.metadata
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Headers and static libraries, which leave no file of their own in the wheel.
COMPILED_IN = ["libeigen3-dev", "nlohmann-json3-dev", "libyaml-cpp-dev"]
STATIC = "libboost_program_options.a"  # whose package has its version in its name
LIBRARIES = ["/lib", "/usr/lib"]


def plain_name(library):
    """libjpeg-0123abcd.so.62.3.0 -> libjpeg.so.62.3.0: auditwheel puts a hash in."""
    return re.sub(r"-[0-9a-f]{8}(?=\.so)", "", library)


def package_of(library):
    """The Debian package that has the library, which may be installed with a longer version."""
    found = subprocess.run(["dpkg", "-S", f"*/{library}*"], capture_output=True, text=True,
                           check=False).stdout.splitlines()
    packages = sorted({line.split(":")[0] for line in found
                       if any(folder in line for folder in LIBRARIES)})
    if not packages:
        sys.exit(f"{library} is in the wheel, and no Debian package has it: whose licence is it?")
    return packages[0]


def add_licenses(unpacked):
    """Returns the names of the packages whose licences were added to the unpacked wheel."""
    own = {"_native", "_ops", "libhvd_mpi", "libhvd_nccl"}
    shared = [path.name for path in unpacked.rglob("*.so*") if path.name.split(".")[0] not in own]
    packages = {package_of(plain_name(name)) for name in [*shared, STATIC]} | set(COMPILED_IN)
    (info,) = unpacked.glob("*.dist-info")
    licenses = info / "licenses"
    licenses.mkdir(exist_ok=True)
    for package in packages:
        target = licenses / package
        target.mkdir(exist_ok=True)
        shutil.copyfile(f"/usr/share/doc/{package}/copyright", target / "copyright")
    bindings = importlib.metadata.distribution("pybind11")
    for file in bindings.files or []:
        if "licenses" in file.parts or file.name == "LICENSE":
            (licenses / "pybind11").mkdir(exist_ok=True)
            shutil.copyfile(str(file.locate()), licenses / "pybind11" / file.name)
    return sorted(packages | {"pybind11"})


def main():
    wheel, folder = sys.argv[1:]
    tool = [sys.executable, "-m", "wheel"]
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run([*tool, "unpack", "--dest", temporary, wheel], check=True,
                       stdout=subprocess.DEVNULL)
        (unpacked,) = pathlib.Path(temporary).iterdir()
        names = add_licenses(unpacked)
        subprocess.run([*tool, "pack", "--dest-dir", folder, str(unpacked)], check=True,
                       stdout=subprocess.DEVNULL)
    print("licences:", *names)


if __name__ == "__main__":
    main()
