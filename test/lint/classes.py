"""Classes have at most 30 methods and 20 data members; structure.py runs this.

Constructors, destructors, operators and constants are not counted, in Python not the methods whose
names begin and end with "__". It reads text, no compiler: macros and templates are cut out.
"""

import ast
import functools
import re

METHODS = 30
MEMBERS = 20

# Those that are larger: (methods, data members). The numbers only go down.
LARGER = {
    "core/config/config.h: Config": (1, 41),  # the settings
    "horovod_cpp/distributed/gradients/tensor_gradients.h: TensorGradients": (31, 7),
    "horovod_cpp/nn/module.h: Module": (44, 7),  # PyTorch's names
    "horovod_cpp/tensor/tensor.h: Tensor": (65, 3),  # PyTorch's names
    "ops/nccl/api.h: NcclApi": (1, 26),  # NCCL's functions
}

HEAD = re.compile(r"\b(?:class|struct)\s+(?:HVD_\w+(?:\([^)]*\))?\s+|\[\[\w+\]\]\s*|alignas\([^)]*\)\s*)*"
                  r"([\w:]+)(?:\s+final)?\s*(?::[^;{}]*)?\{")
# What a declaration may have in parentheses besides its parameters.
MARKS = re.compile(r"\b(HVD_\w+|alignas|noexcept|requires|decltype)\s*\((?:[^()]|\([^()]*\))*\)")
NOT_COUNTED = re.compile(r"(using|friend|typedef|static_assert|enum|class|struct|union)\b")


def blank(text):
    """C++ without comments, literals and lines of the preprocessor."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"'(?:[^'\\\n]|\\.)'", "0", text)
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
    return re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)


def cut(pattern, instead, text):
    """Until nothing is left that matches, from the inside to the outside."""
    count = 1
    while count:
        text, count = re.subn(pattern, instead, text)
    return text


def body_from(text, brace):
    depth = 0
    for at in range(brace, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[brace + 1:at]
    return text[brace + 1:]


def without_classes(body):
    while match := HEAD.search(body):
        end = match.end() + len(body_from(body, match.end() - 1)) + 1
        body = body[:match.start()] + body[end:]
    return body


def count(name, body):
    """Methods and data members of a C++ class."""
    body = cut(r"\{[^{}]*\}", "@", without_classes(body))
    body = re.sub(r"\b(public|private|protected)\s*:", "", body)
    body = cut(r"<[^<>;@]*>", "", MARKS.sub("", body))
    methods = members = 0
    for declaration in re.split(r";|@(?!\s*[;,:])", body):
        declaration = declaration.strip()
        if not declaration or NOT_COUNTED.match(declaration):
            continue
        head = declaration if "operator" in declaration else declaration.split("=")[0]
        if "(" in head:
            called = re.search(r"(\w+|operator\s*\S+?)\s*\(", head)
            methods += not (called and (called[1] == name or called[1].startswith("operator")))
        else:
            members += not re.search(r"\b(static|constexpr)\b", declaration)
    return methods, members


def classes_of_cpp(text):
    text = blank(text)
    for match in HEAD.finditer(text):
        name = match[1]
        yield name, *count(name.rpartition("::")[2], body_from(text, match.end() - 1))


def classes_of_python(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            functions = [each for each in node.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
            members = {target.attr for function in functions for target in ast.walk(function)
                       if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store)
                       and isinstance(target.value, ast.Name) and target.value.id == "self"}
            methods = [each for each in functions if not re.fullmatch("__.*__", each.name)]
            yield node.name, len(methods), len(members)


@functools.lru_cache(maxsize=None)
def classes_of(suffix, text):
    return list((classes_of_python if suffix == ".py" else classes_of_cpp)(text))


def check_classes(root, folders, findings):
    rows = set(LARGER)
    for path in (path for folder in folders for path in sorted((root / folder).rglob("*"))):
        if path.suffix not in (".h", ".cc", ".cu", ".py"):
            continue
        for name, *sizes in classes_of(path.suffix, path.read_text(encoding="utf-8")):
            where = f"{path.relative_to(root)}: {name}"
            rows.discard(where)
            fits = sizes[0] <= METHODS and sizes[1] <= MEMBERS
            limits = LARGER.get(where, (METHODS, MEMBERS))
            has = f"{where} has {sizes[0]} methods and {sizes[1]} data members"
            if any(size > limit for size, limit in zip(sizes, limits)):
                findings.append(f"{has}, at most {limits[0]} and {limits[1]}; divide it by responsibility")
            elif where in LARGER and tuple(sizes) != limits:
                todo = "take its row out of" if fits else "write that into its row of"
                findings.append(f"{has}: {todo} test/lint/classes.py")
    findings += [f"{row} is not there: take its row out of test/lint/classes.py" for row in sorted(rows)]
