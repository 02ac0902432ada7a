"""Every name of the C++ model layer is there in Python, and is documented."""

import importlib
import inspect
import pathlib
import re
import types

import pytest
from public_names import public_modules, public_objects

import horovod_cpp as hvd

HEADERS = pathlib.Path(__file__).parents[2] / "horovod_cpp"
# Bases and parts that a user of Python meets under another name, or makes by a function.
OTHERWISE = {
    "nn": {"BatchNorm": "BatchNorm1d", "Convolution": "Conv2d", "FunctionLoss": "Loss",
           "NumberedModules": "ModuleList", "Recurrent": "LSTM",
           "SkipInit": "the argument init_weights"},
    "optim": {"RuleOptimizer": "Optimizer", "BuiltInOptimizer": "Optimizer"},
    "data": {},
}


def text_of(*parts):
    paths = [path for part in parts for path in sorted(HEADERS.glob(part))]
    assert paths, parts
    return "\n".join(path.read_text() for path in paths)


def classes_deriving(text, *bases):
    """Names of classes that derive from one of `bases`, directly or not, and of templates that do."""
    pairs = re.findall(r"^class (\w+)(?: final)? : public (?:[\w:]+::)?(\w+)", text, re.MULTILINE)
    pairs += re.findall(r"^using (\w+) = (\w+)<", text, re.MULTILINE)
    found = set(bases)
    while True:
        more = {name for name, base in pairs if base in found} - found
        if not more:
            return found - set(bases)
        found |= more


def missing(names, module, other=()):
    return sorted(name for name in names if not hasattr(module, name) and name not in other)


def test_every_layer_and_loss_has_its_name():
    names = classes_deriving(text_of("nn/*.h", "nn/layers/*.h", "nn/losses/*.h"), "Module")
    assert {"Linear", "LSTM", "CrossEntropyLoss", "Sequential"} <= names
    assert missing(names, hvd.nn, OTHERWISE["nn"]) == []


def test_every_model_has_its_name():
    text = text_of("nn/models/*.h")
    names = set(re.findall(r"^inline std::shared_ptr<\w+> (\w+)\(", text, re.MULTILINE))
    rows = re.findall(r"^inline constexpr \w+Variant (.*);", text, re.MULTILINE)
    names |= set(re.findall(r"(\w+)\{", " ".join(rows)))
    assert {"alexnet", "vgg11_bn", "resnet50"} <= names
    assert missing(names, hvd.models) == []


@pytest.mark.parametrize("header, module", [
    ("nn/init.h", hvd.nn.init), ("nn/functional.h", hvd.nn.functional)])
def test_every_function_of_layers_and_initialisers_has_its_name(header, module):
    text = text_of(header)
    names = set(re.findall(r"^(?:Tensor|void|double) (\w+)\(", text, re.MULTILINE))
    names |= {name for name in re.findall(r"^using (?:hvd::)?(\w+);", text, re.MULTILINE)}
    names -= {"layer_default_"}  # what layers do when they are made
    assert len(names) > 3
    assert missing(names, module) == []


def test_every_optimizer_has_its_name():
    names = classes_deriving(text_of("optim/*.h"), "Optimizer")
    assert {"SGD", "Adam", "LAMB"} <= names
    assert missing(names, hvd.optim, OTHERWISE["optim"]) == []
    clipping = set(re.findall(r"^\w+ (clip_\w+)\(", text_of("optim/clip_grad_norm.h"), re.MULTILINE))
    assert clipping and missing(clipping, hvd.optim) == []


def test_every_schedule_has_its_name():
    text = text_of("optim/lr_scheduler.h")
    names = classes_deriving(text, "LRScheduler", "FormulaLR") | {"ReduceLROnPlateau"}
    assert {"StepLR", "OneCycleLR", "LearningRateWarmup"} <= names
    assert missing(names, hvd.optim.lr_scheduler) == []


def test_every_dataset_sampler_and_transform_has_its_name():
    text = text_of("data/*.h")
    names = classes_deriving(text, "Dataset", "Sampler") | {"BatchSampler", "DataLoader"}
    assert {"MNIST", "ImageFolder", "DistributedSampler"} <= names
    assert missing(names, hvd.data, OTHERWISE["data"]) == []
    transforms = classes_deriving(text, "Transform")
    assert {"Compose", "Resize", "ColorJitter"} <= transforms
    assert missing(transforms, hvd.data.transforms) == []


def test_every_function_for_files_has_its_name():
    text = text_of("io/checkpoint.h", "io/safetensors.h")
    names = set(re.findall(r"^[\w:]+(?:<.*>)? (\w+)\(", text, re.MULTILINE))
    assert {"save", "load", "save_checkpoint", "load_checkpoint"} <= names
    assert missing(names, hvd.io, {"integers": "ints are taken as they are"}) == []


def test_all_lists_what_is_public_and_nothing_else():
    modules = public_modules()
    for name, module in modules.items():
        assert missing(module.__all__, module) == [], name
        assert len(module.__all__) == len(set(module.__all__)), name
    listed = set(hvd.__all__)
    hidden = {"abs", "all", "any", "max", "min", "pow", "sum", "bool", "float", "int",
              "typing", "load_ipython_extension", "unload_ipython_extension"}  # of import *
    internal = {value for value, module in vars(hvd).items() if isinstance(module, types.ModuleType)
                and f"horovod_cpp.{value}" not in modules}
    present = {name for name in vars(hvd) if not name.startswith("_")}
    assert present - listed - hidden - internal == set()


@pytest.mark.parametrize("name", sorted(public_modules()))
def test_every_public_module_can_be_imported_by_its_name(name):
    assert importlib.import_module(name) is public_modules()[name]


# -- docstrings


def split_doc(value):
    """(signature or None, documentation) of what pybind11 or Python defined."""
    doc = inspect.getdoc(value) or ""
    value = inspect.unwrap(value) if callable(value) else value
    if isinstance(value, (property, type, types.ModuleType)) or inspect.isfunction(value):
        return None, doc
    lines = doc.splitlines()
    signatures = [line for line in lines if re.match(r"(\d+\. )?\w+\(.*\) -> ", line)]
    text = "\n".join(line for line in lines if line not in signatures
                     and not line.endswith("(*args, **kwargs)") and line != "Overloaded function.")
    return (signatures[0] if signatures else None), text.strip()


def arguments_of(value, signature):
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    value = inspect.unwrap(value)
    if signature is None:
        if not inspect.isfunction(value):
            return []
        names = list(inspect.signature(value).parameters)
    else:
        inside = signature[signature.index("(") + 1:signature.rindex(") -> ")]
        depth, parts = 0, [""]
        for character in inside:
            depth += (character in "([{") - (character in ")]}")
            if character == "," and depth == 0:
                parts.append("")
            else:
                parts[-1] += character
        names = [part.strip().lstrip("*").split(":")[0].split("=")[0].strip() for part in parts]
    return [name for name in names if name not in ("", "/", "self", "cls", "ctx", "args", "kwargs")
            and not re.fullmatch(r"arg\d+", name)]


def is_documented_kind(value):
    if hasattr(value, "__origin__") or type(value).__module__ in ("typing", "types"):  # an alias
        return False
    return callable(value) or isinstance(value, (property, staticmethod, classmethod,
                                                 types.ModuleType))


def test_every_public_name_has_a_docstring():
    without = [name for name, value in public_objects().items()
               if is_documented_kind(value) and len(split_doc(value)[1]) < 8]
    assert without == []


def public_functions():
    """(name, function, signature or None, documentation) of each."""
    for name, value in public_objects().items():
        if callable(value) and not isinstance(value, type):
            yield name, value, *split_doc(value)


def test_docstrings_name_every_argument():
    faults = []
    for name, value, signature, text in public_functions():
        unsaid = [argument for argument in arguments_of(value, signature)
                  if not re.search(rf"\b{argument}\b", text)]
        if unsaid:
            faults.append(f"{name}: {', '.join(unsaid)}")
    assert faults == []


def test_classes_name_every_argument_of_their_constructor():
    faults = []
    for name, value in public_objects().items():
        if not isinstance(value, type) or "__init__" not in vars(value):
            continue
        signature, text = split_doc(vars(value)["__init__"])
        unsaid = [argument for argument in arguments_of(vars(value)["__init__"], signature)
                  if not re.search(rf"\b{argument}\b", text + (inspect.getdoc(value) or ""))]
        if unsaid:
            faults.append(f"{name}: {', '.join(unsaid)}")
    assert faults == []


def test_docstrings_with_arguments_say_what_comes_back():
    assert [name for name, _, signature, text in public_functions()
            if signature is not None and "Args:" in text and not signature.endswith("-> None")
            and "Returns" not in text] == []


def test_functions_of_tensors_say_shapes_and_errors():
    faults = []
    for name, _, signature, text in public_functions():
        given = re.sub(r"self: [\w.]+", "", (signature or "").split(" -> ")[0])
        if "Tensor" not in given:
            continue
        shape = re.search(r"\[|shape|scalar|element|axis|axes", text)
        error = re.search(r"Error|[Rr]aises", text)
        if not shape or not error:
            faults.append(f"{name}: {'' if shape else 'shape '}{'' if error else 'errors'}")
    assert faults == []
