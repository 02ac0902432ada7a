#!/usr/bin/env python3
"""Plants violations in a copy of the tree and sees structure.py report them."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import structure

HERE = pathlib.Path(__file__).resolve()
ROOT = HERE.parents[2]
COPIED = ("cmake", "core", "ops", "horovod_cpp", "bindings", "runner", "examples", "test")


class StructureTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls._folder.name)
        ignore = shutil.ignore_patterns("build", "__pycache__", "*.egg-info", "*.safetensors")
        for folder in COPIED:
            shutil.copytree(ROOT / folder, cls.root / folder, ignore=ignore)

    @classmethod
    def tearDownClass(cls):
        cls._folder.cleanup()

    def setUp(self):
        self.planted = {}  # what was there before; None: nothing

    def tearDown(self):
        for file, before in self.planted.items():
            if before is not None:
                file.write_text(before, encoding="utf-8")
                continue
            file.unlink()
            for folder in file.parents:
                if any(folder.iterdir()):
                    break
                folder.rmdir()

    def check(self):
        """Returns the findings, a line each."""
        return "\n".join(structure.findings_of(self.root)[1])

    def plant(self, path, text):
        """Appends text to a file, which is made if it is not there."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        self.planted.setdefault(file, file.read_text(encoding="utf-8") if file.exists() else None)
        with file.open("a", encoding="utf-8") as out:
            out.write(text)

    def assert_reported(self, *words):
        findings = self.check()
        for word in words:
            self.assertIn(word, findings)

    def run_script(self):
        """Returns (exit code, findings)."""
        run = subprocess.run([sys.executable, structure.__file__, str(self.root)],
                             capture_output=True, text=True, check=False)
        return run.returncode, run.stdout

    def test_the_tree_as_it_is_has_no_findings(self):
        self.assertEqual(self.run_script(), (0, ""))

    def test_the_script_prints_findings_and_fails(self):
        self.plant("utils/planted.txt", "x\n")
        code, findings = self.run_script()
        self.assertEqual((code, findings.strip()), (1, self.check()))

    def test_an_include_against_the_table_is_reported_with_its_line(self):
        self.plant("core/base/planted.cc", "\n#include \"core/ports/fence.h\"\n")
        self.assert_reported("core/base/planted.cc:2: core/base may not include core/ports")

    def test_one_backend_may_not_know_another(self):
        self.plant("ops/shm/planted.cc", '#include "ops/self/self_backend.h"\n')
        self.assert_reported("ops/shm may not include ops/self")

    def test_the_engine_may_not_know_the_model_layer(self):
        self.plant("core/runtime/planted.h", '#include "horovod_cpp/tensor/tensor.h"\n')
        self.assert_reported("core/runtime may not include horovod_cpp/tensor")

    def test_angle_brackets_do_not_hide_an_include(self):
        self.plant("core/base/planted.cc", "#include <core/ports/fence.h>\n")
        self.assert_reported("core/base may not include core/ports")

    def test_a_path_that_is_not_from_the_root_is_reported(self):
        self.plant("core/base/planted.cc", '#include "dtype.h"\n')
        self.assert_reported('"dtype.h" is not a file below the repository root')

    def test_mpi_outside_its_folder_is_reported(self):
        self.plant("core/runtime/planted.cc", "#include <mpi.h>\n")
        self.assert_reported("core/runtime/planted.cc:1: <mpi.h> belongs to ops/mpi")

    def test_cuda_and_nccl_outside_their_folders_are_reported(self):
        self.plant("ops/shm/planted.cc", "#include <cuda_runtime.h>\n#include <nccl.h>\n")
        self.assert_reported("<cuda_runtime.h> belongs to", "<nccl.h> belongs to")

    def test_getenv_outside_config_is_reported(self):
        self.plant("runner/planted.cc", 'const char* x = std::getenv("X");\n')
        self.assert_reported("runner/planted.cc:1", "getenv")

    def test_hvd_with_outside_backends_is_reported(self):
        self.plant("ops/shm/planted.cc", "#ifdef HVD_WITH_MPI\n#endif\n")
        self.assert_reported("ops/shm/planted.cc:1", "HVD_WITH_")

    def test_a_bool_that_takes_any_object_of_python_is_reported(self):
        for text in ('m.def("f", [=](const Tensor& t,\n  const Function<int(int)>& g, bool keep) {});',
                     "cls.def(py::init<Integer, bool>());"):
            with self.subTest(text):
                self.plant("bindings/native/tensor/planted.cc", f"{text}\n")
                self.assert_reported("bindings/native/tensor/planted.cc:1: a bool from Python")
                self.tearDown()
                self.setUp()

    def test_old_words_in_texts_for_people_are_reported(self):
        texts = ("'x' is no device", "a frame that is none", "sent what is no message",
                 "the farewell of rank 1")
        for text in texts:
            self.plant("runner/planted.cc", f'const char* text = "{text}";\n')
            self.plant("bindings/horovod_cpp/planted.py", f'TEXT = "{text}"\n')
        self.assert_reported("in a text for people", *(
            f"{file}:{line}:" for file in ("runner/planted.cc", "bindings/horovod_cpp/planted.py")
            for line in range(1, len(texts) + 1)))

    def test_words_that_are_gone_are_reported_anywhere(self):
        texts = ("it waits for ever", "equal but for one", "kStrangers", "has the driver seat")
        for text in texts:
            self.plant("core/base/planted.h", f"// {text}\n")
            self.plant("docs/planted.md", f"{text}\n")
        self.assert_reported(*(f"{file}:{line}:" for file in ("core/base/planted.h", "docs/planted.md")
                               for line in range(1, len(texts) + 1)))

    def test_a_new_folder_at_the_top_is_reported(self):
        self.plant("utils/planted.txt", "x\n")
        self.assert_reported("utils/: the top level is fixed")

    def test_what_pip_leaves_at_the_top_is_accepted(self):
        self.plant("horovod_cpp.egg-info/PKG-INFO", "x\n")
        self.assertEqual(self.check(), "")

    def test_a_source_folder_in_no_row_of_the_table_is_reported(self):
        self.plant("core/utils/planted.cc", "int planted;\n")
        self.assert_reported("core/utils/planted.cc:1: this folder is in no row")

    def test_folders_that_include_each_other_are_reported(self):
        self.plant("horovod_cpp/autograd/planted.cc",
                   '#include "horovod_cpp/autograd/functions/functions.h"\n')
        self.assert_reported("horovod_cpp/autograd/planted.cc:1: folders include each other",
                             "horovod_cpp/autograd -> horovod_cpp/autograd/functions")

    def test_python_modules_that_import_each_other_are_reported_however_they_do(self):
        module = "from horovod_cpp.cluster.{} import planted\n"
        self.plant("bindings/horovod_cpp/cluster/planted_a.py", module.format("planted_b"))
        self.plant("bindings/horovod_cpp/cluster/planted_b.py",
                   "def planted():\n    " + module.format("planted_a"))
        self.assert_reported("cluster/planted_b.py:2: modules import each other")

    def test_a_library_that_is_linked_with_what_it_may_not_include_is_reported(self):
        self.plant("core/CMakeLists.txt", "hvd_add_room(core/base ROOMS core/runtime)\n")
        self.assert_reported("core/base may not be linked with core/runtime")

    def test_a_folder_of_too_many_files_is_reported(self):
        for number in range(41):
            self.plant(f"core/base/planted_{number}.h", "#pragma once\n")
        self.assert_reported("core/base/: ", "at most 40; divide it")

    def test_tests_may_be_many(self):
        for number in range(41):
            self.plant(f"test/core/base/planted_{number}_test.cc", "int planted;\n")
        self.assertEqual(self.check(), "")

    def test_a_comment_that_names_no_file_is_reported(self):
        self.plant("core/base/planted.cc", "int planted;  // see core/base/clock.h, base/gone.h.\n")
        self.assert_reported("core/base/planted.cc:1: there is no file base/gone.h")

    def test_a_source_that_cmake_names_and_that_is_not_there_is_reported(self):
        self.plant("test/CMakeLists.txt", "target_sources(planted PRIVATE ${PROJECT_SOURCE_DIR}/ops/gone.cc)\n")
        self.assert_reported("there is no file ops/gone.cc")

    def test_a_long_file_is_reported(self):
        self.plant("core/base/planted.cc", "int planted();\n" * 601)
        self.assert_reported("core/base/planted.cc:601: over 600 lines")

    def test_a_large_class_of_cpp_is_reported(self):
        methods = "".join(f"  int method_{n}(const std::function<void()>& call) const {{ return {n}; }}\n"
                          for n in range(31))
        self.plant("core/base/planted.h", f"class Planted {{\n  Planted();\n{methods}  int one_ = 1;\n}};\n")
        self.assert_reported("core/base/planted.h: Planted has 31 methods and 1 data members, at most 30 and 20")

    def test_a_large_class_of_python_is_reported(self):
        body = "".join(f"        self.member_{n} = {n}\n" for n in range(21))
        self.plant("bindings/horovod_cpp/planted.py", f"class Planted:\n    def __init__(self):\n{body}")
        self.assert_reported("planted.py: Planted has 0 methods and 21 data members")

    def test_a_class_that_became_smaller_than_its_row_is_reported(self):
        header = self.root / "core/config/config.h"
        self.planted[header] = header.read_text(encoding="utf-8")
        header.write_text(self.planted[header].replace("  bool stats = false;\n", ""), encoding="utf-8")
        self.assert_reported("Config has 1 methods and 40 data members: write that into its row")

    def test_a_long_function_is_reported_with_its_first_line(self):
        body = "  planted();\n" * 70
        self.plant("core/base/planted.cc", f"namespace hvd {{\n\nvoid planted() {{\n{body}}}\n\n}}\n")
        self.assert_reported("core/base/planted.cc:3: a function of 72 lines")

    def test_a_long_namespace_class_or_table_is_no_long_function(self):
        members = "  static int planted;\n" * 70  # methods are counted by another check
        rows = "    {1, 2},\n" * 70
        self.plant("core/base/planted.cc",
                   f"namespace hvd {{\nclass Planted {{\n{members}}};\n"
                   f"constexpr Row kRows[] = {{\n{rows}}};\n}}\n")
        self.assertEqual(self.check(), "")

    def test_a_type_of_the_engine_in_the_namespace_of_users_is_reported(self):
        self.plant("core/runtime/planted.h", "#pragma once\n\nnamespace hvd {\nstruct Planted {};\n}\n")
        self.assert_reported("core/runtime/planted.h:3: what the engine defines is in namespace hvd::engine")

    def test_the_namespace_of_users_is_fine_in_the_base(self):
        self.plant("core/base/planted.h", "#pragma once\n\nnamespace hvd {\nstruct Planted {};\n}\n")
        self.assertEqual(self.check(), "")

    def test_a_test_file_that_no_target_takes_is_reported(self):
        self.plant("test/planted/planted_test.cc", "int planted;\n")
        self.assert_reported("test/planted/planted_test.cc:1: in no test target")

    def test_a_test_file_beside_the_sources_is_reported(self):
        self.plant("core/base/planted_test.cc", "int planted;\n")
        self.assert_reported("core/base/planted_test.cc:1: in no test target")

    def test_a_python_test_that_pytest_does_not_collect_is_reported(self):
        self.plant("test/core/test_planted.py", "def test_planted(): pass\n")
        self.assert_reported("test/core/test_planted.py:1: in no test target")


if __name__ == "__main__":
    unittest.main()
