#!/usr/bin/env bash
# Fetches promtool out of Debian's package of Prometheus, without installing that, and prints where it is. Done once
# per machine: ${XDG_CACHE_HOME:-$HOME/.cache}/sexton/promtool. Where there is no apt it says so and changes nothing;
# the tests that need promtool are skipped then.
set -euo pipefail

cache="${XDG_CACHE_HOME:-$HOME/.cache}/sexton/promtool"
if command -v promtool; then exit 0; fi
if [[ ! -x "$cache/promtool" ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cd "$work"
  if ! { apt-get download prometheus && dpkg-deb -x prometheus_*.deb unpacked; } >&2; then
    echo "get-promtool.sh: not to be had with apt-get; install Prometheus to have its checks run" >&2
    exit 0
  fi
  mkdir -p "$cache"
  mv "$work/unpacked/usr/bin/promtool" "$cache/promtool.new"
  mv "$cache/promtool.new" "$cache/promtool"
fi
echo "$cache/promtool"
