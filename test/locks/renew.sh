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
case ${1-} in -h | --help) explain test/locks/renew.sh; exit ;; esac

# lock NAME REQUIREMENTS... [-- OPTION...]   writes NAME.txt
lock() {
  local file=test/locks/$1.txt folder requirements=()
  folder=$(mktemp -d)
  shift
  while (($#)) && [[ $1 != -- ]]; do requirements+=("$1"); shift; done
  local list
  for list in "${requirements[@]}"; do
    make_environment "$folder" newest "$list" "${@:2}"
  done
  {
    echo "# Written by test/locks/renew.sh from ${requirements[*]}."
    "$folder/bin/pip" freeze --disable-pip-version-check --local --all --exclude pip
  } >"$file.new"
  mv "$file.new" "$file"
  rm -rf "$folder"
}

install_packages "${build_packages[@]}" "${torch_packages[@]}"
lock venv examples/requirements.txt test/requirements.txt
lock torch test/torch/requirements.txt -- --system-site-packages
lock wheel bindings/wheel_requirements.txt
git --no-pager diff --stat test/locks
