#!/usr/bin/env bash
# Builds kube-apiserver, kubectl and etcd at the versions pinned in go.mod and
# prints, as the last line of stdout, a directory laid out as KUBEBUILDER_ASSETS.
#
#   build.sh [CACHE_ROOT]
#
# CACHE_ROOT defaults to ${XDG_CACHE_HOME:-$HOME/.cache}/sexton/kube-apiserver.
# A complete directory is reused, without Go. A KUBEBUILDER_ASSETS that already
# holds the three executables wins over everything. Progress goes to stderr.
#
# Exit status: 0 built or found; 2 wrong usage; 3 Go is needed and missing; any
# other status is the failing command's own.
set -euo pipefail

readonly binaries=(etcd kube-apiserver kubectl)

say() { printf 'build.sh: %s\n' "$*" >&2; }

complete() {
  local name
  for name in "${binaries[@]}"; do
    [[ -f "$1/$name" && -x "$1/$name" ]] || return 1
  done
}

# stage LABEL COMMAND...: the command's own stdout is kept off ours, whose last
# line is the result, and the lock (9, see below) is kept from outliving us in it.
stage() {
  local label=$1 started=$SECONDS
  shift
  say "$label ..."
  "$@" >&2 9>&-
  say "$label: $((SECONDS - started)) s"
}

if (($# > 1)); then
  say "usage: build.sh [CACHE_ROOT]"
  exit 2
fi

if [[ -n "${KUBEBUILDER_ASSETS:-}" ]]; then
  if complete "$KUBEBUILDER_ASSETS"; then
    printf '%s\n' "$KUBEBUILDER_ASSETS"
    exit 0
  fi
  say "KUBEBUILDER_ASSETS lacks one of: ${binaries[*]}; using the cache instead"
fi

root=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/sexton/kube-apiserver}
mkdir -p "$root"
root=$(cd -- "$root" && pwd)
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"

version=$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ { print $2; exit }' go.mod)
if [[ ! "$version" =~ ^v([0-9]+)\.([0-9]+)\.[0-9]+$ ]]; then
  say "go.mod does not require k8s.io/kubernetes at a release (got '$version')"
  exit 1
fi
major=${BASH_REMATCH[1]}
minor=${BASH_REMATCH[2]}
hash=$(cat go.mod go.sum build.sh | openssl dgst -sha256 -r)
target=$root/$version-${hash:0:12}

if complete "$target"; then
  printf '%s\n' "$target"
  exit 0
fi

if ! command -v go >/dev/null 2>&1; then
  say "Go is not on PATH, and $target is not built yet"
  exit 3
fi

# Two builds at once would only halve each other; the second waits and then
# finds the directory complete. Without flock both build, and either result is
# as good as the other.
if command -v flock >/dev/null 2>&1; then
  exec 9>"$root/.lock"
  flock 9
  if complete "$target"; then
    printf '%s\n' "$target"
    exit 0
  fi
fi

work=$(mktemp -d "$root/.build.XXXXXX")
trap 'rm -rf -- "$work"' EXIT

# The servers refuse to work out feature gates and emulation versions from the
# placeholder v0.0.0-master+$Format that unstamped source carries.
ldflags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  ldflags+=" -X $package.gitMajor=$major -X $package.gitMinor=$minor"
  ldflags+=" -X $package.gitVersion=$version -X $package.gitCommit= -X $package.gitTreeState="
done

export CGO_ENABLED=0 GOWORK=off
go_build() {
  go build -mod=readonly -buildvcs=false -p 2 -trimpath -ldflags "$ldflags" \
    -o "$work/$1" "$2"
}
fetch() {
  go list -mod=readonly -deps "$@" >/dev/null
}

etcd=go.etcd.io/etcd/server/v3
kubernetes=k8s.io/kubernetes/cmd
stage "fetch modules" fetch "$etcd" "$kubernetes/kube-apiserver" "$kubernetes/kubectl"
stage "build etcd" go_build etcd "$etcd"
stage "build kubectl" go_build kubectl "$kubernetes/kubectl"
stage "build kube-apiserver" go_build kube-apiserver "$kubernetes/kube-apiserver"

chmod 755 "$work"
if ! complete "$target"; then
  rm -rf -- "$target"
  mv -- "$work" "$target"
fi
say "done in $SECONDS s"
printf '%s\n' "$target"
