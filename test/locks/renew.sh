#!/usr/bin/env bash
# Writes the files of this folder: the exact versions that quickstart.sh, the tests, the benchmarks
# and build_wheel.sh install. They are the newest that the ranges in the requirements files allow.
#
#   bash test/locks/renew.sh
#
# Works with Debian 12's Python. Run test/run.sh before the result is committed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source test/support/setup.sh
case ${1-} in
  -h | --help) explain test/locks/renew.sh; exit ;;
  ?*) echo "renew.sh: unknown argument '$1'; bash test/locks/renew.sh --help" >&2; exit 2 ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# lock NAME [OPTION] REQUIREMENTS...   writes NAME.txt. OPTION: of venv
lock() {
  make_environment "$folder/$1" newest "${@:2}"
  {
    echo "# Written by test/locks/renew.sh."
    "$folder/$1/bin/pip" freeze --disable-pip-version-check --local --all --exclude pip
  } >"$folder/$1.txt"
  mv "$folder/$1.txt" test/locks
}

install_packages "${build_packages[@]}" "${torch_packages[@]}"
lock venv examples/requirements.txt test/requirements.txt
lock torch --system-site-packages test/torch/requirements.txt
lock tf test/{tensorflow,keras,torch}/requirements.txt
lock wheel bindings/wheel_requirements.txt
git --no-pager diff --stat test/locks
