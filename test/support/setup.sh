# Sourced from the repository root by test/run.sh, examples/quickstart.sh and other scripts: installs
# what is missing and says so. Quick when nothing is.

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

# make_environment FOLDER VERSIONS [OPTION] REQUIREMENTS...   with Debian's own Python. VERSIONS: a file
# of locks/ ; or `newest` or `oldest`, of the ranges in the files REQUIREMENTS. OPTION: of venv. With
# without_installing=1 it fails where there is something to install.
make_environment() {
  local folder=$1 versions=$2 option=() wanted stamp
  shift 2
  [[ $1 != --* ]] || { option=("$1"); shift; }
  wanted=$(cat "$@"; cat "$versions" 2>/dev/null || echo "$versions")
  stamp=$folder/$(tr ' /' '+-' <<<"$*").installed
  is_installed "$stamp" "$wanted" && return 0
  [[ -z ${without_installing-} ]] || return 1
  echo "installing Python packages into $folder:" $(sed 's/[ #>=].*//' "$@")
  rm -f "$folder"/*.installed  # it may end in the middle, and others may share the folder
  [[ -x $folder/bin/pip ]] || /usr/bin/python3 -m venv "${option[@]}" "$folder" || return
  case $versions in
    newest) pip_install "$folder" --upgrade --upgrade-strategy eager "${@/#/-r}" ;;
    oldest) pip_install "$folder" -r <(sed 's/>=/==/' "$@") ;;
    *) install_locked "$folder" "$versions" "$@" ;;
  esac && echo "$wanted" >"$stamp"
}

# is_installed STAMP WANTED   what was installed last
is_installed() {
  [[ -e $1 && $(<"$1") == "$2" ]]
}

# Python compiles a module at its first import, and a tenth of what is installed is ever imported.
pip_install() {
  "$1/bin/pip" install --quiet --disable-pip-version-check --no-compile "${@:2}"
}

# install_locked FOLDER LOCK REQUIREMENTS...   the versions of LOCK; where the registry has one no
# longer, or not for this Python, any that REQUIREMENTS allow
install_locked() {
  local folder=$1 lock=$2 left=$1/locked.txt pin gone=() available
  shift 2
  pip_install "$folder" -c "$lock" "${@/#/-r}" 2>"$folder/locked.log" && return
  : >"$left"
  while IFS= read -r pin; do
    if [[ $pin == *==* ]]; then
      available=$("$folder/bin/pip" index versions --disable-pip-version-check "${pin%%==*}" \
        2>/dev/null </dev/null) || { gone=(); break; }  # no registry
      [[ " $(grep '^Available versions:' <<<"$available")," == *" ${pin#*==},"* ]] ||
        { gone+=("$pin"); continue; }
    fi
    echo "$pin" >>"$left"
  done <"$lock"
  if ((${#gone[@]} == 0)); then
    cat "$folder/locked.log" >&2
    return 1
  fi
  echo "not available: ${gone[*]} ($lock); installing versions that $* allow instead"
  pip_install "$folder" -c "$left" "${@/#/-r}"
}

# make_venv [VERSIONS]   build/venv with what the examples and the tests need; build/venv-VERSIONS
make_venv() {
  make_environment "build/venv${1:+-$1}" "${1-test/locks/venv.txt}" \
    examples/requirements.txt test/requirements.txt
}

# make_torch_venv [VERSIONS]   build/torch with Debian's PyTorch, which wants an old NumPy
make_torch_venv() {
  install_packages "${torch_packages[@]}" &&
    make_environment "build/torch${1:+-$1}" "${1-test/locks/torch.txt}" --system-site-packages \
      test/torch/requirements.txt
}

# make_tf_venv [newest]   build/tf with TensorFlow, Keras and the newest PyTorch; build/tf-newest
make_tf_venv() {
  local folder=build/tf${1:+-$1} torch=torch==2.15.0
  [[ -z ${1-} ]] || torch=torch
  make_environment "$folder" "${1-test/locks/tf.txt}" test/{tensorflow,keras,torch}/requirements.txt &&
    add_torch "$folder" "$torch"
}

# add_torch ENVIRONMENT REQUIREMENT   PyTorch's wheel without the packages of CUDA that it asks for, which
# are four times its size
add_torch() {
  local stamp=$1/torch.installed
  is_installed "$stamp" "$2" && return 0
  [[ -z ${without_installing-} ]] || return 1
  echo "installing $2 into $1"
  pip_install "$1" --no-deps "$2" &&
    python3 test/support/cuda_stubs.py "$1"/lib/python3*/site-packages/torch && echo "$2" >"$stamp"
}

# add_trainers ENVIRONMENT   Lightning and Accelerate, without PyTorch for GPUs, which they ask for
add_trainers() {
  pip_install "$1" -r test/trainers/requirements.txt &&
    pip_install "$1" --no-deps lightning==2.6.6 pytorch-lightning==2.6.6 torchmetrics==1.9.0 accelerate==1.15.0
}

# make_old_tf_venv VERSION   build/tf-VERSION with that TensorFlow, which brings Keras 2, and this package
make_old_tf_venv() {
  rm -rf "build/tf-$1"
  /usr/bin/python3 -m venv "build/tf-$1" &&
    pip_install "build/tf-$1" "tensorflow_cpu==$1" cloudpickle pytest && install_wheel "build/tf-$1"
}

# add_tf_keras ENVIRONMENT   Keras 2 for the TensorFlow that is there, without TensorFlow for GPUs, which it
# asks for
add_tf_keras() {
  local version
  version=$("$1/bin/pip" show --disable-pip-version-check tensorflow_cpu | sed -n 's/^Version: //p') &&
    pip_install "$1" --no-deps "tf-keras==${version%.*}.*"
}

# install_package ENVIRONMENT...   this repository, with hvdrun; the first one has what builds it. It
# is compiled in build/cpu, like the preset of this name. With pip_verbosity=--verbose it shows the
# compiler's progress.
install_package() {
  rm -rf build/wheel build/lib.*  # which keeps modules that were deleted
  HVD_BUILD_FOLDER=build/cpu CMAKE_ARGS="-DHVD_WERROR=ON ${cmake_options-}" "$1/bin/pip" wheel "${pip_verbosity---quiet}" \
    --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir build/wheel . || return
  install_wheel "$@"
}

# install_wheel ENVIRONMENT...   what install_package built last
install_wheel() {
  local environment
  for environment; do
    "$environment/bin/pip" install --quiet --disable-pip-version-check --no-deps --force-reinstall \
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
               clang clang-format clang-tidy libclang-rt-14-dev ccache iproute2 nftables)
# For test/torch. Its linear layers are slow with the reference BLAS.
torch_packages=(python3-torch libopenblas0-pthread)
# For what only --full runs: test/hosts starts ssh servers, each in a network of its own.
full_packages=(openssh-server)
# For test/mpi/slurm.sh, which needs a whole Slurm.
long_packages=(slurm-wlm munge)
