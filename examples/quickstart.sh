#!/usr/bin/env bash
# Trains a small network on real handwritten digits on two ranks, in C++ and then in Python.
#
#   bash examples/quickstart.sh
#
# Works on a fresh Debian 12 as root or with sudo: it installs what is missing, and says so. The
# first time takes 3 to 8 minutes on two cores, most of it for compiling; later ones less than one.
# Ends with an error unless both reach a test accuracy of 0.97 with equal parameters on both ranks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source test/support/setup.sh
case ${1-} in
  -h | --help) explain examples/quickstart.sh; exit ;;
  ?*) echo "quickstart.sh: unknown argument '$1'; bash examples/quickstart.sh --help" >&2; exit 2 ;;
esac

say() { printf '\n==> %s\n' "$*"; }

# compile LOG COMMAND...   shows how far the compiler is; all that was said is in the log
compile() {
  local log=$1
  shift
  NINJA_STATUS='[%f/%t %e s] ' "$@" 2>&1 | tee "$log" | show_progress && return
  tail -n 40 "$log" >&2
  echo "quickstart: '$*' failed; $log has all that it said" >&2
  exit 1
}

# show_progress   of Ninja, for each twentieth of the steps. Not by awk: Debian's reads blocks of lines.
show_progress() {
  local line ended all twentieth shown=0
  while IFS= read -r line; do
    [[ $line =~ ^\ *\[([0-9]+)/([0-9]+)\ ([0-9]+)\.?[0-9]*\ s\] ]] || continue
    ended=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
    twentieth=$((20 * ended / all))
    ((twentieth != shown)) || continue
    shown=$twentieth
    printf '%4d of %d compiled, about %d s left\n' "$ended" "$all" $((BASH_REMATCH[3] * (all - ended) / ended))
  done
}

# train NAME COMMAND...   runs a training, shows it, and checks what it says
train() {
  local name=$1 log=build/quickstart-$1.log best
  shift
  say "$*"
  "$@" 2>&1 | tee "$log"
  # The last "accuracy 0.98" of the log, whatever stands between the word and the number.
  best=$(tr '\r' '\n' <"$log" | grep -oiE 'accuracy[^0-9]*[01]\.[0-9]+' | tail -n 1 |
    grep -oE '[01]\.[0-9]+$' || true)
  if [[ -z $best ]] || ! awk -v a="$best" 'BEGIN { exit !(a >= 0.97) }'; then
    echo "quickstart: $name: the test accuracy is '${best:-not printed}', expected 0.97" >&2
    exit 1
  fi
  if ! grep -q 'parameters equal on all ranks' "$log"; then
    echo "quickstart: $name: the ranks do not say that their parameters are equal" >&2
    exit 1
  fi
  summary+=("$name: test accuracy $best, parameters equal on all ranks")
}

summary=()
say "1 of 5: packages of Debian and of Python (the first time a minute)"
install_packages "${build_packages[@]}" ccache
make_environment build/venv test/locks/venv.txt examples/requirements.txt

# Wheels have kernels for every processor; these are for this one alone.
say "2 of 5: building the library, hvdrun and the Python package (the first time 2 to 6 minutes)"
pip_verbosity=--verbose cmake_options=-DHVD_ISA=native \
  compile build/quickstart-package.log install_package build/venv
export PATH="$PWD/build/venv/bin:$PATH"

say "3 of 5: building the C++ example against it (seconds)"
compile build/quickstart-example.log \
  cmake --build build/cpu --parallel "$(nproc)" --target train_digits

say "4 of 5: training in C++ on scikit-learn's digits (seconds)"
write_digits
train "C++" hvdrun -np 2 build/cpu/examples/train_digits --data build/data/digits

say "5 of 5: the same training in Python (seconds)"
train "Python" hvdrun -np 2 python examples/train_digits.py

say "done"
printf '%s\n' "${summary[@]}" ""
cat <<'NEXT'
Next: `. build/venv/bin/activate` puts hvdrun and the package into your shell. README.md has programs
to start from: one in PyTorch, which `pip install torch` installs beside the package, and one in C++.
`python -m horovod_cpp.doctor` checks this machine.
NEXT
