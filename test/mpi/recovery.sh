#!/usr/bin/env bash
# mpirun that lets ranks go on without one that died. It ends with 0 whatever they end with, or not at
# all, and loses some of their last output, so each leaves both in a file.
#
#   recovery.sh COUNT ARGUMENTS..  mpirun ARGUMENTS; COUNT ranks have to end with 0. Shows what all said
#   recovery.sh rank PROGRAM..     what mpirun starts; HVD_TEST_FOLDER is a folder that the ranks share
set -uo pipefail
if [[ $1 == rank ]]; then
  "${@:2}" >"$HVD_TEST_FOLDER/said.$OMPI_COMM_WORLD_RANK" 2>&1
  echo $? >"$HVD_TEST_FOLDER/code.$OMPI_COMM_WORLD_RANK"
  exit 0
fi
HVD_TEST_FOLDER=$(mktemp -d)
export HVD_TEST_FOLDER OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
trap 'rm -rf "$HVD_TEST_FOLDER"' EXIT
timeout 60 mpirun --enable-recovery --oversubscribe --bind-to none "${@:2}"
cat "$HVD_TEST_FOLDER"/said.*
grep . "$HVD_TEST_FOLDER"/code.*
[[ $(grep -lx 0 "$HVD_TEST_FOLDER"/code.* | wc -l) == "$1" ]]
