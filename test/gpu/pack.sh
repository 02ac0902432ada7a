#!/usr/bin/env bash
# Gathers what test/gpu/run.sh needs on a machine with a GPU, CUDA's toolkit and NCCL, but without
# package registries, MPI, Eigen, GoogleTest or Boost:
#
#   build/box          what is missing there; run.sh looks for it
#   build/box.tar.gz   the same with the sources: unpack it anywhere, then bash test/gpu/run.sh
#
# Says how large they are; fails above 64 MiB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source test/support/setup.sh
install_packages libeigen3-dev libgtest-dev libgmock-dev python3-venv zlib1g-dev libjpeg-dev \
  libpng-dev nlohmann-json3-dev
box=build/box
limit=$((64 << 20))

rm -rf "$box" "$box.tar.gz"
mkdir -p "$box/prefix/include" "$box/prefix/share" "$box/tools"
cp -r /usr/include/eigen3 "$box/prefix/include/"
cp -r /usr/share/eigen3 "$box/prefix/share/"
cp -r /usr/src/googletest "$box/googletest"
rm -rf "$box"/googletest/*/{docs,samples,test} "$box/prefix/include/eigen3/unsupported"

# nccl.h: NCCL as a Python package brings none for the compiler to find.
nccl=
for folder in "${CUDAToolkit_ROOT:-/usr/local/cuda}/include" /usr/include; do
  [[ ! -e $folder/nccl.h ]] || { nccl=$folder/nccl.h; break; }
done
[[ -n $nccl ]] || { echo "pack.sh: nccl.h is neither in CUDA's include folder nor in /usr/include" >&2; exit 1; }
cp "$nccl" "$box/prefix/include/"

# For the Python package, which is built there, for the Python that has PyTorch. Debian's static
# libraries cannot become part of a shared one.
machine=$(gcc -print-multiarch)
mkdir -p "$box/prefix/lib" "$box/prefix/share/cmake"
cp /usr/include/{zlib,zconf,jpeglib,jmorecfg,jerror,png,pngconf,pnglibconf}.h \
  "/usr/include/$machine/jconfig.h" "$box/prefix/include/"
cp -r /usr/include/nlohmann "$box/prefix/include/"
cp -r /usr/share/cmake/nlohmann_json "$box/prefix/share/cmake/"
for name in z jpeg png16; do
  file=$(readlink -f "/usr/lib/$machine/lib$name.so")
  cp "$file" "$box/prefix/lib/lib$name.so"
  cp "$file" "$box/prefix/lib/$(objdump -p "$file" | awk '$1 == "SONAME" { print $2 }')"
done

# CMake and Ninja as Python packages are archives that need nothing else, and so are headers.
/usr/bin/python3 -m venv "$box.venv"
"$box.venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
  --dest "$box/tools" cmake ninja 'pybind11>=3' cloudpickle
rm -rf "$box.venv"

{ git ls-files --cached --others --exclude-standard; find "$box" -type f; } |
  while IFS= read -r file; do [[ ! -e $file ]] || printf '%s\n' "$file"; done |
  tar -czf "$box.tar.gz" --transform 's,^,horovod_cpp/,' -T -
for part in "$box" "$box.tar.gz"; do
  bytes=$(du -sb "$part" | cut -f1)
  echo "$part: $((bytes >> 10)) KiB"
  ((bytes < limit)) || { echo "pack.sh: $part is larger than $((limit >> 20)) MiB" >&2; exit 1; }
done
