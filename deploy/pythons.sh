#!/usr/bin/env bash
# The Pythons from 3.11 to 3.14 that are here (in PATH or of pyenv) and can make an environment.
#   list                 one a line: version and path
#   each TARGET          `make TARGET` under each, each in an environment of its own; fails if one does
#   second VERSION       what interpreters differ in (JSON, text, numbers) under another than VERSION, if there is one
#   second-environment VERSION   makes what that needs
#   lowest               the fast tests with the lowest versions that the product may have, under the oldest
#   freeze DIRECTORY     what pip installs today under each, into DIRECTORY/<version>
set -euo pipefail
cd "$(dirname "$0")/.."

list() {
  local minor candidate
  for minor in 11 12 13 14; do
    for candidate in "$(command -v "python3.$minor" || true)" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor".*/bin/python3; do
      if [ -x "$candidate" ] && [ "$("$candidate" -c 'import ensurepip, sys; print(*sys.version_info[:2], sep=".")' 2> /dev/null)" = "3.$minor" ]; then
        echo "3.$minor $candidate"
        break
      fi
    done
  done
}

each() {
  local version python failed=()
  while read -r version python; do
    echo "== Python $version ($python): make $1"
    MYPY_CACHE_DIR=".venv-$version/mypy" make --no-print-directory VENV=".venv-$version" PYTHON="$python" "$1" < /dev/null || failed+=("$version")
  done < <(list)
  if [ ${#failed[@]} -gt 0 ]; then
    echo "failed under Python ${failed[*]}"
    exit 1
  fi
}

freeze() {
  local version python made
  while read -r version python; do
    made=$(mktemp -d)
    "$python" -m venv "$made"
    "$made/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[dev,spark]' < /dev/null
    "$made/bin/python" -m pip freeze --exclude-editable > "$1/$version"
    rm -rf "$made"
  done < <(list)
}

# Neither needs Spark or linters: the product, what runs its tests, and what some of these need. Made again when what it was made from is newer.
environment() {
  local ready="$1/.ready"
  if [ "$ready" -nt "$3" ] && [ "$ready" -nt pyproject.toml ] && [ "$(cat "$ready")" = "$2" ]; then
    return
  fi
  "$2" -m venv --clear "$1"
  "$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --constraint "$3" --editable . \
    hypothesis pytest pytest-timeout "${@:4}" < /dev/null
  echo "$2" > "$ready"
}

second_to() {
  list | sed "/^$1 /d" | tail -n 1
}

second_environment() {
  local found
  found=$(second_to "$1")
  [ -z "$found" ] || environment .venv-second "${found#* }" constraints.txt
}

second() {
  local found
  found=$(second_to "$1")
  if [ -z "$found" ]; then
    echo "there is only Python $1"
    return
  fi
  echo "Python $found"
  second_environment "$1"
  .venv-second/bin/pytest --hypothesis-profile=fast -m "not real" tests/api tests/ledger tests/node/push/test_target.py tests/node/push_wire/test_head.py tests/node/port
}

lowest() {
  local found bounds
  found=$(list | head -n 1)
  bounds=$(mktemp)
  "${found#* }" deploy/constraints.py lowest > "$bounds"
  echo "Python $found:" $(cat "$bounds")
  environment .venv-lowest "${found#* }" "$bounds" hdrhistogram jinja2 matplotlib promql-parser pyyaml
  rm -f "$bounds"
  .venv-lowest/bin/pytest --hypothesis-profile=fast -m "not real" tests/api tests/cli tests/ledger tests/node \
    tests/replication tests/storage
}

case "$1" in
  list) list ;;
  each) each "$2" ;;
  second) second "$2" ;;
  second-environment) second_environment "$2" ;;
  lowest) lowest ;;
  freeze) freeze "$2" ;;
  *) echo "list, each TARGET, second VERSION, second-environment VERSION, lowest or freeze DIRECTORY"; exit 2 ;;
esac
