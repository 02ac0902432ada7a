#!/usr/bin/env bash
# Builds and runs every test.  bash test/run.sh [--long]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
packages=(g++ cmake ninja-build libopenmpi-dev openmpi-bin libeigen3-dev libboost-program-options-dev
          libgtest-dev libgmock-dev libbenchmark-dev nlohmann-json3-dev python3-venv python3-dev
          clang-format clang-tidy)
missing=()
for package in "${packages[@]}"; do
  dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
if ((${#missing[@]})); then
  echo "installing Debian packages: ${missing[*]}"
  sudo=$([[ $EUID == 0 ]] || echo sudo)
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi
python3 test/lint/structure.py
cmake --preset cpu && cmake --build build/cpu
ctest --test-dir build/cpu -j"$(nproc)" --output-on-failure
