# Sourced by test/run.sh and examples/quickstart.sh from the repository root: installs what is
# missing and says so. Quick when nothing is.

# explain SCRIPT   prints the comment that it begins with: its --help
explain() {
  sed '1d; /^#/!Q; s/^# \{0,1\}//' "$1"
}

# install_packages NAME...   Debian packages
install_packages() {
  local package missing=() sudo=()
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "ok installed" ||
      missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  echo "installing Debian packages: ${missing[*]}"
  ((EUID == 0)) || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# make_environment FOLDER REQUIREMENTS [OPTION...]   with Debian's own Python; further REQUIREMENTS
# are added by further calls
make_environment() {
  local folder=$1 requirements=$2 stamp
  stamp=$folder/requirements-$(sha256sum "$requirements" | cut -d' ' -f1)
  [[ -e $stamp ]] && return 0
  echo "installing Python packages into $folder:" $(sed 's/[ #>=].*//' "$requirements")
  [[ -x $folder/bin/pip ]] || /usr/bin/python3 -m venv "${@:3}" "$folder" || return
  "$folder/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" &&
    touch "$stamp"
}

# make_venv   build/venv with what the examples and the tests need
make_venv() {
  make_environment build/venv examples/requirements.txt &&
    make_environment build/venv test/requirements.txt
}

# make_torch_venv   build/torch with Debian's PyTorch, which wants an old NumPy
make_torch_venv() {
  install_packages "${torch_packages[@]}" &&
    make_environment build/torch test/torch/requirements.txt --system-site-packages
}

# install_package [ENVIRONMENT...]   this repository, with hvdrun, into build/venv and the others. The
# flags are those of the cpu preset, so that ccache compiles nothing twice where it is installed.
# With pip_verbosity=--verbose it shows the compiler's progress.
install_package() {
  local pip_options=(--disable-pip-version-check --no-deps) environment
  rm -rf build/wheel
  CMAKE_ARGS="-DHVD_WERROR=ON" build/venv/bin/pip wheel "${pip_verbosity---quiet}" \
    "${pip_options[@]}" --no-build-isolation --wheel-dir build/wheel . || return
  for environment in build/venv "$@"; do
    "$environment/bin/pip" install --quiet "${pip_options[@]}" --force-reinstall \
      build/wheel/*.whl || return
  done
}

# write_digits   the digits that scikit-learn ships, where the examples look for them
write_digits() {
  build/venv/bin/python examples/write_digits.py build/data/digits
}

# Open MPI refuses to run as root unless told twice that it is meant.
if ((EUID == 0)); then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# Compilers, libraries and Open MPI: enough to build and train.
build_packages=(g++ cmake ninja-build libopenmpi-dev openmpi-bin libeigen3-dev
                libboost-program-options-dev libyaml-cpp-dev nlohmann-json3-dev zlib1g-dev
                libjpeg-dev libpng-dev libdnnl-dev python3-venv python3-dev)
test_packages=("${build_packages[@]}" libgtest-dev libgmock-dev libbenchmark-dev
               clang clang-format clang-tidy libclang-rt-14-dev ccache iproute2)
# For test/torch. Its linear layers are slow with the reference BLAS.
torch_packages=(python3-torch libopenblas0-pthread)
# For test/mpi/slurm.sh, which needs a whole Slurm.
long_packages=(slurm-wlm munge)
