#!/usr/bin/env bash
# Runs test files many times beside a load: PYTEST TIMES LOAD FILE... Says which failed how often, and what they said.
set -uo pipefail
pytest=$1 times=$2 load=$3
shift 3
burners=()
for ((burner = 0; burner < load; burner++)); do
  nice -n 19 bash -c 'while :; do :; done' &
  burners+=($!)
done
said=$(mktemp)
trap 'kill "${burners[@]}" 2> /dev/null; rm -f "$said"' EXIT
failed=0
for file in "$@"; do
  wrong=0
  for ((run = 1; run <= times; run++)); do
    "$pytest" "$file" > "$said" 2>&1
    ended=$?
    if [ $ended != 0 ] && [ $ended != 5 ]; then
      wrong=$((wrong + 1))
      tail -n 60 "$said"
    fi
  done
  echo "$file: $wrong of $times failed"
  failed=$((failed + wrong))
done
[ $failed = 0 ]
