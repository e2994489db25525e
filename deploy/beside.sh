#!/usr/bin/env bash
# Runs commands side by side: each argument is NAME=COMMAND. Says what each said when all before it have ended, and
# fails if one failed. Ctrl-C ends them all.
set -uo pipefail
names=() said=() running=()
trap 'kill "${running[@]}" 2> /dev/null; rm -f "${said[@]}"; exit 130' INT TERM
for each in "$@"; do
  names+=("${each%%=*}")
  said+=("$(mktemp)")
  bash -c "exec ${each#*=}" > "${said[-1]}" 2>&1 &
  running+=($!)
done
failed=()
for place in "${!names[@]}"; do
  wait "${running[place]}" || failed+=("${names[place]}")
  echo "== ${names[place]}"
  cat "${said[place]}"
  rm -f "${said[place]}"
done
[ ${#failed[@]} = 0 ] || { printf 'failed: %s\n' "${failed[@]}"; exit 1; }
