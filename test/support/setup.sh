# Sourced by test/run.sh and examples/quickstart.sh from the repository root: installs what is
# missing and says so. Quick when nothing is.

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

# make_venv   build/venv with test/requirements.txt, from Debian's own Python
make_venv() {
  local stamp wanted
  wanted=$(sha256sum test/requirements.txt | cut -d' ' -f1)
  stamp=build/venv/requirements-$wanted
  [[ -e $stamp ]] && return 0
  echo "making build/venv with the Python packages of test/requirements.txt"
  [[ -x build/venv/bin/pip ]] || /usr/bin/python3 -m venv build/venv
  build/venv/bin/pip install --quiet --disable-pip-version-check -r test/requirements.txt
  touch "$stamp"
}

# install_package   this repository into build/venv, with hvdrun. The flags are those of the cpu
# preset, so that ccache compiles nothing twice where it is installed.
install_package() {
  CMAKE_ARGS="-DHVD_WERROR=ON" build/venv/bin/pip install --quiet --disable-pip-version-check --no-build-isolation .
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
# For test/mpi/slurm.sh, which needs a whole Slurm.
long_packages=(slurm-wlm munge)
