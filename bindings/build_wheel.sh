#!/usr/bin/env bash
# Builds a wheel for other machines: it brings every library that is not part of the manylinux
# standard, whose number for this machine's glibc is in its name. MPI, CUDA and NCCL stay outside
# and are used where they are.
#
#   bash bindings/build_wheel.sh [FOLDER]    puts it into FOLDER (default: build/wheelhouse)
#
# PYTHON: the interpreter that the wheel is for (default: /usr/bin/python3). CMAKE_ARGS: further
# options of CMake.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source test/support/setup.sh
case ${1-} in -h | --help) explain bindings/build_wheel.sh; exit ;; esac
folder=${1:-build/wheelhouse}
install_packages "${build_packages[@]}"

python=${PYTHON:-/usr/bin/python3}
tools=build/wheel-tools-$("$python" -c 'import sys; print(sys.implementation.cache_tag)')
[[ -x $tools/bin/pip ]] || "$python" -m venv "$tools"
make_environment "$tools" test/locks/wheel.txt bindings/wheel_requirements.txt
rm -rf build/wheel-raw
CMAKE_ARGS="${CMAKE_ARGS-} -DHVD_PORTABLE=ON" "$tools/bin/pip" wheel --quiet \
  --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir build/wheel-raw .

rm -rf build/wheel-repaired
PATH="$PWD/$tools/bin:$PATH" auditwheel repair --wheel-dir build/wheel-repaired \
  --exclude 'libmpi*.so.*' --exclude 'libnccl.so.*' --exclude 'libcuda.so.*' build/wheel-raw/*.whl
mkdir -p "$folder"
rm -f "$folder"/horovod_cpp-*.whl
"$tools/bin/python" bindings/wheel_licenses.py build/wheel-repaired/*.whl "$folder"
wheel=("$folder"/horovod_cpp-*manylinux*.whl)
[[ -f ${wheel[0]} ]] || { echo "no manylinux platform fits what the wheel needs" >&2; exit 1; }
echo "${wheel[0]}"
