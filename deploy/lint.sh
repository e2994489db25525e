#!/usr/bin/env bash
# Whether what stands here is right, as far as can be told without a container daemon: part of `make check`.
# Its argument is where pip's tools are. Those of Debian (promtool, systemd-analyze) are used where they are; promtool is
# fetched once, unpacked and not installed, since its package would start a server. What was not checked is said.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1

fetch_promtool() {
  command -v apt-get > /dev/null && [ ! -e "$bin/promtool.absent" ] || return 1
  local unpacked
  unpacked=$(mktemp -d)
  (
    cd "$unpacked"
    quick=(timeout 60 apt-get -q -o Acquire::Retries=0 -o Acquire::http::Timeout=10)
    "${quick[@]}" download prometheus || { [ "$(id -u)" = 0 ] && "${quick[@]}" update && "${quick[@]}" download prometheus; }
    dpkg -x prometheus_*.deb .
  ) > "$unpacked/log" 2>&1 && install "$unpacked/usr/bin/promtool" "$bin/promtool" || touch "$bin/promtool.absent"
  rm -rf "$unpacked"
  [ -x "$bin/promtool" ]
}

"$bin/hadolint" deploy/Dockerfile deploy/Dockerfile.spark
"$bin/yamllint" --strict --config-file deploy/.yamllint deploy
"$bin/check-jsonschema" --quiet --builtin-schema vendor.compose-spec deploy/compose.yaml

if promtool=$(command -v promtool "$bin/promtool" | head -n 1) && [ -n "$promtool" ] || { fetch_promtool && promtool=$bin/promtool; }; then
  "$promtool" check config deploy/prometheus.yml > /dev/null
  "$promtool" test rules deploy/alerts_test.yml > /dev/null
else
  echo "deploy: prometheus.yml and alerts.yml were not checked by promtool (Debian: prometheus), which is not here"
fi

if command -v systemd-analyze > /dev/null; then
  copy=$(mktemp -d)
  trap 'rm -rf "$copy"' EXIT
  # It wants the program to be there, which it is on the machines that the unit is for; and it says most things without
  # failing.
  sed 's|^ExecStart=[^ ]*|ExecStart=/bin/true|' deploy/hourwheel.service > "$copy/hourwheel.service"
  said=$(systemd-analyze verify --man=no "$copy/hourwheel.service" 2>&1 | grep -F hourwheel.service) || true
  [ -z "$said" ] || { echo "$said"; exit 1; }
  if systemd-analyze --help | grep -q -- --offline; then  # since systemd 250
    systemd-analyze security --offline=true --threshold=15 --no-pager "$copy/hourwheel.service" > "$copy/exposed" \
      || { tail -n 2 "$copy/exposed"; exit 1; }
  fi
else
  echo "deploy: hourwheel.service was not checked by systemd-analyze (Debian: systemd), which is not here"
fi
