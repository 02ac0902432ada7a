#!/usr/bin/env python3
"""Lets PyTorch's wheel for CUDA be imported where none of the packages with CUDA's libraries is, which
are four times its size: puts libraries beside it that have the functions it was linked with, and
report that there is no device.

    cuda_stubs.py FOLDER     the folder torch/ of an environment

Needs gcc, nm and readelf.
"""

import collections
import pathlib
import re
import subprocess
import sys

CUDA = re.compile(r"lib(cu|nccl|nv)")
# How the functions of libraries that have no symbol versions begin.
PREFIXES = {"libcuda": "cu[A-Z]", "libcufile": "cuFile", "libcusparseLt": "cusparseLt",
            "libnccl": "nccl", "libnvJitLink": "nvJitLink", "libnvshmem_host": "nvshmem"}
# They return text, which callers print: a number would end them. (Those of the driver and of CUPTI
# return a number, and the text by a pointer.)
TEXTS = re.compile(r"(?!cu[A-Z]|cupti)\w+((Error|Status|Result)_?(String|Name)|(?<!cuda)GetLastError)$")
NO_DEVICE = 35  # cudaErrorInsufficientDriver


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed_of(libraries):
    """Names of CUDA's libraries that these need and that are not among them."""
    names = {name for library in libraries
             for name in re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-d", library))}
    return sorted(name for name in names - {library.name for library in libraries}
                  if CUDA.match(name))


def undefined_of(libraries):
    """Functions that these do not have themselves, by symbol version ("": none)."""
    functions = collections.defaultdict(set)
    for library in libraries:
        for line in output("nm", "-D", "--undefined-only", library).splitlines():
            name, _, version = line.split()[-1].partition("@")
            functions[version.lstrip("@")].add(name)
    return functions


def source_of(functions):
    return "".join(
        f'const char *{name}(void) {{ return "no CUDA here"; }}\n' if TEXTS.match(name) else
        f"int {name}(void) {{ return {NO_DEVICE}; }}\n" for name in sorted(functions)
    ) or "int none;\n"


def make(path, versioned, plain):
    """The library ``path`` with functions of versions, and others without."""
    script = path.with_suffix(".map")
    options = []
    if versioned:
        script.write_text("".join(f"{version} {{ global: {'; '.join(sorted(names))}; }};\n"
                                  for version, names in versioned.items()))
        options = [f"-Wl,--version-script={script}"]
    subprocess.run(["gcc", "-x", "c", "-", "-shared", "-fPIC", "-w", "-nostdlib", "-fno-builtin",
                    f"-Wl,-soname,{path.name}", *options, "-o", path],
                   input=source_of(plain.union(*versioned.values())), text=True, check=True)
    script.unlink(missing_ok=True)


def main():
    folder = pathlib.Path(sys.argv[1]) / "lib"
    libraries = [path for path in folder.glob("lib*.so*") if not CUDA.match(path.name)]
    if not libraries:
        sys.exit(f"cuda_stubs.py: no libraries in {folder}")
    undefined = undefined_of(libraries)
    for name in needed_of(libraries):
        library = name.partition(".so")[0]
        prefix = PREFIXES.get(library)
        plain = {each for each in undefined[""] if prefix and re.match(prefix, each)}
        versioned = {version: names for version, names in undefined.items()
                     if version == name or (version == "NVSHMEM" and library == "libnvshmem_host")}
        make(folder / name, versioned, plain)


if __name__ == "__main__":
    main()
