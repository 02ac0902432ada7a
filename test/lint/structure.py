#!/usr/bin/env python3
"""Checks what no compiler does: the direction of includes and imports, sizes, and a few fences. No
exception list.

    structure.py [ROOT]      ROOT defaults to the repository this file is in

Prints one line a finding, `FILE:LINE: what`, and exits 1 if there is any.
"""

import ast
import functools
import pathlib
import re
import sys

from classes import check_classes

# `unit: units it may include`, longest prefix wins. A unit may include itself and, transitively,
# whatever its entries may include.
MAY_INCLUDE = {
    "core/base": [],
    "core/system": ["core/base"],
    "core/config": ["core/system"],
    "core/ports": ["core/base"],
    "core/negotiate/messages": ["core/base"],
    "core/negotiate/stall": ["core/negotiate/messages"],
    "core/negotiate": ["core/negotiate/stall"],
    "core/runtime/wake": ["core/ports"],
    "core/observe": ["core/config", "core/negotiate", "core/runtime/wake"],
    "core/tune": ["core/observe"],
    "core/runtime": ["core/tune"],
    "ops/host": ["core/config", "core/ports", "core/runtime/wake"],
    "ops/self": ["ops/host"],
    "ops/shm": ["ops/host"],
    "ops/net": ["ops/host"],
    "ops/mpi": ["ops/host"],
    "ops/hier": ["ops/host"],
    "ops/device": ["core/base"],
    "ops/cuda": ["ops/host", "ops/device"],
    "ops/cuda_ipc": ["ops/host", "ops/cuda"],
    "ops/nccl": ["ops/host", "ops/cuda", "ops/cuda_ipc"],
    "ops/connect": [
        "ops/host", "ops/self", "ops/shm", "ops/net", "ops/mpi", "ops/hier", "ops/nccl",
    ],
    "horovod_cpp/tensor": ["core/config", "ops/device"],
    "horovod_cpp/autograd": ["horovod_cpp/tensor"],
    "horovod_cpp/nn": ["horovod_cpp/autograd"],
    "horovod_cpp/optim": ["horovod_cpp/autograd"],
    "horovod_cpp/data": ["horovod_cpp/autograd"],
    "horovod_cpp/io": ["horovod_cpp/tensor"],
    "horovod_cpp/distributed": [
        "core/runtime", "ops/connect", "horovod_cpp/autograd", "horovod_cpp/nn",
        "horovod_cpp/optim", "horovod_cpp/data",
    ],
    "horovod_cpp": ["horovod_cpp/distributed", "horovod_cpp/io"],
    "bindings/native": ["horovod_cpp"],
    "bindings/tensorflow": ["bindings/native"],
    "runner/plan": ["core/config"],
    "runner/link": ["core/config", "ops/net"],
    "runner/output": ["runner/link"],
    "runner": ["runner/plan", "runner/output", "ops/connect"],
    "examples": ["horovod_cpp"],
    "test/support/sim": ["ops/host", "core/runtime"],
    "test": ["bindings/native", "runner", "horovod_cpp", "examples", "test/support/sim"],
}

# (pattern of an included header, folders that may include it)
FENCED_HEADERS = [
    (re.compile(r"^mpi\.h$"), ["ops/mpi", "test/mpi", "test/bench"]),
    (re.compile(r"^nccl\.h$"), ["ops/nccl", "test/gpu"]),
    (re.compile(r"^cuda.*\.h$"), ["ops/cuda", "ops/cuda_ipc", "ops/nccl", "test/gpu"]),
    (re.compile(r"^pybind11/"), ["bindings/native"]),
]

# (pattern of a line, files that may contain it, what to do instead)
FENCED_TEXT = [
    (re.compile(r"\bgetenv\b"), ["core/config/config.cc"], "read the environment in core/config/config.cc"),
    (re.compile(r"\bHVD_WITH_\w"), [], "what was compiled is found at run time (ops/connect/libraries.h)"),
]

SOURCES = ("core", "ops", "horovod_cpp", "bindings", "runner", "examples", "test")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
FIXED_TOP = {
    "bindings", "build", "cmake", "core", "docs", "examples", "horovod_cpp", "ops", "runner", "test",
}


# What is found in a text is kept for the tests of this script, which check almost the same tree again and again.
memoized = functools.lru_cache(maxsize=None)


@memoized
def includes_of(text):
    """(line, quote, header) of each."""
    return [(number, *match.group(1, 2)) for number, line in enumerate(text.splitlines(), 1)
            if (match := INCLUDE.match(line))]


@memoized
def matches_by_line(patterns, text):
    """(line, pattern) of each that is found in a line."""
    if not any(pattern.search(text) for pattern in patterns):
        return []
    return [(number, pattern) for number, line in enumerate(text.splitlines(), 1)
            for pattern in patterns if pattern.search(line)]


def unit_of(path):
    """The longest key of MAY_INCLUDE that is a folder above `path`."""
    folder = pathlib.PurePosixPath(path).parent
    for candidate in (folder, *folder.parents):
        if str(candidate) in MAY_INCLUDE:
            return str(candidate)
    return None


def reachable(unit):
    """Itself and what it may include, directly or not."""
    seen, todo = set(), [unit]
    while todo:
        current = todo.pop()
        if current not in seen:
            seen.add(current)
            todo.extend(MAY_INCLUDE[current])
    return seen


def cycle_in(edges):
    """A list of nodes, each with an edge to the next and the last to the first; empty if there is
    none. `edges`: for each node those that it leads to."""
    done, way = set(), []

    def visit(node):
        if node in way:
            return way[way.index(node):]
        if node not in done:
            way.append(node)
            for other in sorted(edges.get(node, ())):
                if found := visit(other):
                    return found
            done.add(way.pop())
        return []

    for start in sorted(edges):
        if found := visit(start):
            return found
    return []


def check_cycle(edges, what, findings):
    """`edges`: for each node those that it leads to, each with the file that says so."""
    if cycle := cycle_in(edges):
        for node, other in zip(cycle, [*cycle[1:], cycle[0]]):
            findings.append(f"{edges[node][other]}: {what}: {' -> '.join([*cycle, cycle[0]])}")


def check_include_cycles(root, files, findings):
    """Between folders; the table above is about libraries, which may have several."""
    edges = {}
    for path in files:
        name = path.relative_to(root).as_posix()
        if name.startswith("test/"):
            continue
        folder = path.parent.relative_to(root).as_posix()
        for number, _, header in includes_of(path.read_text(encoding="utf-8")):
            if (root / header).is_file():
                other = pathlib.PurePosixPath(header).parent.as_posix()
                if other != folder:
                    edges.setdefault(folder, {}).setdefault(other, f"{name}:{number}")
    check_cycle(edges, "folders include each other", findings)


@memoized
def imports_of(text):
    """(line, module or what may be one) of each."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found += [(node.lineno, name) for name in (
                node.module, *(f"{node.module}.{alias.name}" for alias in node.names))]
    return found


def check_import_cycles(root, findings):
    """Between the modules of the Python package, also where an import waits inside a function or is
    for types alone."""
    top = root / "bindings"
    modules = {}
    for path in (top / "horovod_cpp").rglob("*.py"):
        if "packages" not in path.parts:  # names of Horovod's, a package of their own
            name = ".".join(path.relative_to(top).with_suffix("").parts)
            modules[name.removesuffix(".__init__")] = path
    edges = {}
    for name, path in modules.items():
        for line, other in imports_of(path.read_text(encoding="utf-8")):
            # A package gathers what is in it, which is imported by way of it.
            if other in modules and not f"{name}.".startswith(f"{other}."):
                where = f"{path.relative_to(root).as_posix()}:{line}"
                edges.setdefault(name, {}).setdefault(other, where)
    check_cycle(edges, "modules import each other", findings)


FOLDER_LIMIT = 40


def check_folders(root, findings):
    """Tests may be as many as there are."""
    for top in SOURCES:
        folders = {}
        for pattern in ("*.h", "*.cc", "*.cu", "*.py"):
            for path in (root / top).rglob(pattern):
                folders.setdefault(path.parent.relative_to(root).as_posix(), []).append(path)
        for folder, files in sorted(folders.items()):
            if len(files) > FOLDER_LIMIT and top != "test":
                findings.append(f"{folder}/: {len(files)} files, at most {FOLDER_LIMIT}; divide it "
                                "into rooms by subject")


def check_file(root, path, findings):
    name = path.relative_to(root).as_posix()
    unit = unit_of(name)
    if unit is None:
        findings.append(f"{name}:1: this folder is in no row of MAY_INCLUDE")
        return
    allowed = reachable(unit)
    text = path.read_text(encoding="utf-8")
    if not name.startswith("test/"):
        fences = {pattern: (files, instead) for pattern, files, instead in FENCED_TEXT}
        for number, pattern in matches_by_line(tuple(fences), text):
            files, instead = fences[pattern]
            if name not in files:
                findings.append(f"{name}:{number}: {pattern.pattern}: {instead}")
    for number, quote, header in includes_of(text):
        for pattern, folders in FENCED_HEADERS:
            if pattern.search(header) and not any(name.startswith(f + "/") for f in folders):
                findings.append(f"{name}:{number}: <{header}> belongs to {', '.join(folders)}")
        if (root / header).is_file():
            target = unit_of(header)
            if target not in allowed:
                findings.append(f"{name}:{number}: {unit} may not include {target} ({header})")
        elif quote == '"':
            findings.append(f'{name}:{number}: "{header}" is not a file below the repository root')


# A line that opens a function's body (and no class, namespace, table or control flow).
CONTROL = re.compile(r"^\s*(namespace|class|struct|union|enum|extern|if|for|while|switch|do|else|try|catch)\b")
FUNCTION_LINES = 60
# "Around 60": a function may be a little longer when a cut would hurt, never much.
FUNCTION_LIMIT = FUNCTION_LINES + 5


@memoized
def function_bodies(text):
    """(first line, number of lines) of each body that opens at column 0: namespaces are not indented in
    our style, so these are the functions outside classes."""
    lines, bodies, start = text.splitlines(), [], None
    for number, line in enumerate(lines, 1):
        if start is None:
            if line and not line[0].isspace() and line.rstrip().endswith("{"):
                head = line
                back = number - 1
                while "(" not in head and back > 0 and lines[back - 1].startswith(" "):
                    back -= 1
                    head = lines[back - 1] + head
                if "(" in head and "= {" not in head and not CONTROL.match(head):
                    start = number
            elif line.startswith("    ") and line.rstrip().endswith(") {"):
                # parameters on continuation lines: the body still ends at column 0
                back = number - 1
                while back > 0 and lines[back - 1].startswith("    "):
                    back -= 1
                opener = lines[back - 1] if back > 0 else ""
                if opener and not opener[0].isspace() and "(" in opener and ")" not in opener:
                    start = back
        elif line.startswith("}"):
            bodies.append((start, number - start + 1))
            start = None
    return bodies


def check_functions(root, path, findings):
    name = path.relative_to(root)
    for start, length in function_bodies(path.read_text(encoding="utf-8")):
        if length > FUNCTION_LIMIT:
            findings.append(f"{name}:{start}: a function of {length} lines; aim at {FUNCTION_LINES}")


ROOM = re.compile(r"^hvd_add_(training_)?room\((\S+)\s+[^)]*?\bROOMS\s+([^)A-Z]+)", re.MULTILINE)


# Parameters of a lambda, or the types of a py::init<>.
BOUND = re.compile(r"\[[\w&=, :]*\]\(((?:[^()]|\([^()]*\))*)\)|py::init<((?:[^;()])*)>\(\)")
PLAIN_BOOL = re.compile(r"(?:^|[,<(])\s*(?:const )?bool\b")


def check_flags(root, findings):
    """pybind11 takes any object for a bool, so 1 and NaN are True and sum(0, 1) keeps an axis."""
    for path in sorted((root / "bindings/native").rglob("*.[ch]*")):
        text = path.read_text(encoding="utf-8")
        for bound in BOUND.finditer(text):
            if PLAIN_BOOL.search(bound.group(1) or bound.group(2) or ""):
                number = text.count("\n", 0, bound.start()) + 1
                findings.append(f"{path.relative_to(root)}:{number}: a bool from Python: take a Flag "
                                "(bindings/native/numbers.h)")


# Parts of the engine that stay in namespace hvd: metrics, which programs read, and what templates of core/base
# find by the namespace of their argument.
OF_USERS = {"core/negotiate/messages/message.cc", "core/negotiate/messages/message.h", "core/observe/metrics.cc",
            "core/observe/metrics_snapshot.h", "core/observe/metrics_text.cc"}
OUTSIDE_ENGINE = re.compile(r"^(?:inline )?namespace hvd\b(?!::engine\b)", re.MULTILINE)


def check_engine_namespace(root, findings):
    """A program that says `using namespace hvd` meets no types of the engine: they are in hvd::engine."""
    for path in sorted([*(root / "core").rglob("*.[ch]*"), *(root / "ops").rglob("*.[ch]*")]):
        name = path.relative_to(root).as_posix()
        if name.startswith(("core/base/", "core/config/")) or name in OF_USERS:
            continue
        text = path.read_text(encoding="utf-8")
        for found in OUTSIDE_ENGINE.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            findings.append(f"{name}:{line}: what the engine defines is in namespace hvd::engine")


def check_rooms(root, findings):
    """A library is linked with no more than its folder may include; that it is no less, the linker
    sees."""
    for top in ("core", "ops", "horovod_cpp"):
        lists = root / top / "CMakeLists.txt"
        for training, folder, rooms in ROOM.findall(lists.read_text(encoding="utf-8")):
            folder = f"horovod_cpp/{folder}" if training else folder
            for room in rooms.split():
                if room not in reachable(folder):
                    findings.append(f"{top}/CMakeLists.txt:1: {folder} may not be linked with {room}")


TEST_TARGET = re.compile(r"hvd_add_test\([^)]*?\bDIR\s+([a-z_/\s]+)")
TEST_SOURCE = re.compile(r"\b(\w+_test\.cc)\b")
PYTEST_FOLDERS = ("bindings", "gpu/python", "hosts", "keras", "lint", "mpi", "tensorflow", "torch",
                  "trainers")


def check_tests_belong(root, findings):
    """Every *_test.cc and test_*.py lies where a target or pytest collects it."""
    text = ""
    listed = set()  # sources that a folder's own CMakeLists.txt names
    for lists in sorted((root / "test").rglob("CMakeLists.txt")):
        content = lists.read_text(encoding="utf-8")
        text += content
        folder = lists.parent.relative_to(root).as_posix()
        listed |= {f"{folder}/{name}" for name in TEST_SOURCE.findall(content)}
    targets = tuple(f"test/{folder}/" for match in TEST_TARGET.findall(text) for folder in match.split())
    collected = tuple(f"test/{folder}/" for folder in PYTEST_FOLDERS)
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*_test.cc")):
            name = path.relative_to(root).as_posix()
            if not name.startswith(targets) and name not in listed:
                findings.append(f"{name}:1: in no test target (see test/CMakeLists.txt)")
        for path in sorted((root / folder).rglob("test_*.py")):
            name = path.relative_to(root).as_posix()
            if not name.startswith(collected):
                findings.append(f"{name}:1: in no test target (pytest runs {', '.join(collected)})")


def check_top_level(root, findings):
    for entry in sorted(root.iterdir()):
        if entry.name.startswith(".") or entry.name.endswith(".egg-info"):  # pip's, git ignores it
            continue
        if entry.is_dir() and entry.name not in FIXED_TOP:
            findings.append(f"{entry.name}/: the top level is fixed; put it in a folder that is there")


# In texts for people: (what a native speaker would not say, what to say instead).
OLD_WORDS = [
    (re.compile(r"(?<!here )\bis no (?!longer\b|more\b|such\b)\w"), "is not a ..."),
    (re.compile(r"\b(that|which) (is|are) none\b"), "invalid, malformed"),
    (re.compile(r"\bwhat is no\b"), "invalid, malformed"),
    (re.compile(r"\bfarewell\b"), "shutdown"),
]
# In comments, names and pages too: (a word that was replaced everywhere, what it was replaced by).
GONE_WORDS = [
    (re.compile(r"\bfor[ _]ever\b"), "forever"),
    (re.compile(r"\bbut for\b"), "except"),
    (re.compile(r"[Ss]tranger"), "unauthenticated peer"),
    (re.compile(r"[Ss]ighting\b"), "rank status"),
    (re.compile(r"\blast words\b"), "last output, shutdown"),
    (re.compile(r"\b[Dd]river[ _]?[Ss]eat|\b[Ss]eats?\b|\bDrivable\b"), "loop ownership"),
    (re.compile(r"\b[Nn]eighbourhood\b"), "host topology"),
    (re.compile(r"\b[Tt]ally\b"), "readiness tracker"),
    (re.compile(r"\bcores_a_rank\b"), "cores_per_rank"),
]
LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"')


@memoized
def gone_words_in(text):
    return [(text.count("\n", 0, found.start()) + 1, f"'{found.group()}'; say: {instead}")
            for pattern, instead in GONE_WORDS for found in pattern.finditer(text)]


@memoized
def old_words_in(text):
    return [(number, f"'{found.group()}' in a text for people; say: {instead}")
            for number, line in enumerate(text.splitlines(), 1) for literal in LITERAL.findall(line)
            for pattern, instead in OLD_WORDS if (found := pattern.search(literal))]


def check_words(root, findings):
    """Old words in error texts, --help and other literals, and words that are gone anywhere."""
    paths = [path for folder in (*SOURCES, "docs") for path in sorted((root / folder).rglob("*"))]
    for path in (*paths, *sorted(root.glob("*.md"))):
        name = path.relative_to(root).as_posix()
        if path.suffix not in (".h", ".cc", ".cu", ".py", ".sh", ".md") or name.startswith("test/lint/"):
            continue
        text = path.read_text(encoding="utf-8")
        findings += [f"{name}:{number}: {what}" for number, what in gone_words_in(text)]
        if path.suffix not in (".md", ".sh") and not name.startswith("test/"):
            findings += [f"{name}:{number}: {what}" for number, what in old_words_in(text)]


NAMED_FILE = re.compile(r"(?<![\w./-])\w[\w./-]*\.(?:h|cc|cu)\b(?![\w./-]\w)")
# Of other projects, and of a program that a comment gives as an example.
FOREIGN_FILES = {"Python.h", "dnnl.h", "jpeglib.h", "mpi.h", "nccl.h", "train.cc"}


def check_named_files(root, findings):
    """What comments, READMEs and CMake call files of this tree is there: nothing else notices where
    one goes, CMake only where that part of the build is switched on."""
    paths = [path for folder in (*SOURCES, "cmake") for path in sorted((root / folder).rglob("*"))]
    known = set(FOREIGN_FILES)
    for path in paths:
        parts = path.relative_to(root).parts
        known |= {"/".join(parts[i:]) for i in range(len(parts))}
    for path in paths:
        is_cmake, is_source = path.name == "CMakeLists.txt", path.suffix in (".h", ".cc", ".cu")
        if not (is_cmake or is_source or path.name == "README.md"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            text = line.partition("//")[2] if is_source else line.replace("${PROJECT_SOURCE_DIR}/", "")
            for name in NAMED_FILE.findall(text):
                if name not in known and not (is_cmake and "/" not in name):
                    findings.append(f"{path.relative_to(root)}:{number}: there is no file {name}")


def check_sizes(root, path, findings):
    lines = path.read_text(encoding="utf-8").count("\n")
    if lines > 600 and "test" not in path.relative_to(root).parts:
        findings.append(f"{path.relative_to(root)}:{lines}: over 600 lines; split it by subject")


def findings_of(root):
    """The number of sources, and the findings."""
    findings = []
    files = [path for folder in SOURCES for pattern in ("*.h", "*.cc", "*.cu")
             for path in sorted((root / folder).rglob(pattern))]
    for path in files:
        check_file(root, path, findings)
        check_sizes(root, path, findings)
        check_functions(root, path, findings)
    check_include_cycles(root, files, findings)
    check_import_cycles(root, findings)
    check_folders(root, findings)
    if cycle := cycle_in(MAY_INCLUDE):
        findings.append(f"test/lint/structure.py: MAY_INCLUDE has a cycle: {' -> '.join(cycle)}")
    check_rooms(root, findings)
    check_engine_namespace(root, findings)
    check_flags(root, findings)
    check_tests_belong(root, findings)
    check_top_level(root, findings)
    check_words(root, findings)
    check_named_files(root, findings)
    check_classes(root, SOURCES[:5], findings)
    return len(files), findings


def main():
    default = pathlib.Path(__file__).resolve().parents[2]
    files, findings = findings_of(pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else default)
    for finding in findings:
        print(finding)
    print(f"structure: {files} files, {len(findings)} findings", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
