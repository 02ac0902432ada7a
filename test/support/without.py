#!/usr/bin/env python3
"""Runs a command on a machine that lacks something, in a mount namespace of its own.

    without.py THING... -- COMMAND...

THING is mpi, compilers, libraries (those that the wheel brings itself), shm=SIZE (a /dev/shm of that
size, such as 64k), or the pattern of files, such as /usr/bin/ssh*. What is hidden does not exist for
the command; nothing changes for anybody else. Needs root, or a system that gives its users
namespaces; where neither is, it fails and says so.
"""

import ctypes
import fnmatch
import os
import pathlib
import sys
import sysconfig

LIBRARIES = f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}"
PLACE = pathlib.Path("/mnt")  # a folder of every Linux; in this namespace it holds what we mount
_BIND, _REC = 4096, 16384

THINGS = {
    "mpi": [
        *(f"{folder}/{name}" for folder in (LIBRARIES, "/usr/lib", "/usr/local/lib")
          for name in ("libmpi*", "libopen-rte*", "libopen-pal*", "libmca_*", "libpmix*", "openmpi",
                       "pmix*")),
        *(f"{folder}/{name}" for folder in ("/usr/bin", "/usr/local/bin")
          for name in ("mpi*", "orte*", "ompi*", "opal*", "osh*", "prte*", "pmix*", "palloc*")),
    ],
    "compilers": [
        f"/usr/bin/{name}" for name in (
            "gcc*", "g++*", "c++*", "cc", "c89*", "c99*", "clang*", "*-linux-gnu-*", "ccache*",
            "cmake*", "ninja*", "make", "gmake", "ld", "ld.*", "as")
    ],
    "libraries": [
        f"{LIBRARIES}/{name}" for name in (
            "libyaml-cpp*", "libboost*", "libdnnl*", "libjpeg*", "libpng*", "libgomp*", "libOpenCL*")
    ],
}


def mount(source, target, kind, flags=0, data=None):
    libc = ctypes.CDLL(None, use_errno=True)
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    if libc.mount(*words, ctypes.c_ulong(flags), data and data.encode()) != 0:
        sys.exit(f"without.py: mount on {target}: {os.strerror(ctypes.get_errno())}")


def hide(folder, patterns, number):
    """Puts a copy of the folder in its place, made of links, without what matches."""
    real, copy = PLACE / f"real{number}", PLACE / f"copy{number}"
    real.mkdir()
    copy.mkdir()
    mount(folder, real, None, _BIND | _REC)
    for entry in os.listdir(folder):
        if any(fnmatch.fnmatch(entry, pattern) for pattern in patterns):
            continue
        path = pathlib.Path(folder) / entry
        target = os.readlink(path) if path.is_symlink() else real / entry
        (copy / entry).symlink_to(target)
    mount(copy, folder, None, _BIND)


def inside(things):
    folders = {}
    for thing in things:
        if thing.startswith("shm="):
            mount("tmpfs", "/dev/shm", "tmpfs", data="size=" + thing.removeprefix("shm="))
            continue
        for pattern in THINGS.get(thing, [thing]):
            folder, name = os.path.split(pattern)
            if os.path.isdir(folder):
                folders.setdefault(os.path.realpath(folder), []).append(name)
    mount("tmpfs", PLACE, "tmpfs")
    for number, (folder, patterns) in enumerate(folders.items()):
        hide(folder, patterns, number)


def main(arguments):
    if "--" not in arguments or arguments[-1] == "--":
        sys.exit(__doc__)
    border = arguments.index("--")
    things, command = arguments[:border], arguments[border + 1:]
    if things[:1] == ["--inside"]:
        inside(things[1:])
        os.execvp(command[0], command)
    for thing in things:
        if thing not in THINGS and not thing.startswith(("shm=", "/")):
            sys.exit(f"without.py: unknown: {thing}\n{__doc__}")
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    os.execvp("unshare", ["unshare", *user, "--mount", sys.executable, __file__, "--inside", *things,
                          "--", *command])


if __name__ == "__main__":
    main(sys.argv[1:])
