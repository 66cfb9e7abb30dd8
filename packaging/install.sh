#!/bin/sh
# Installs longhaul: downloads the archive for this machine, compares its checksum, and copies the
# binary to ~/.local/bin.
#
#   curl -fsSL URL/install.sh | sh
#   LONGHAUL_VERSION=0.1.0 LONGHAUL_BIN=/usr/local/bin sh install.sh
#
# LONGHAUL_DOWNLOAD names another folder with archives and SHA256SUMS.
set -eu

repository=@REPOSITORY@
version=${LONGHAUL_VERSION:-@VERSION@}
folder=${LONGHAUL_BIN:-$HOME/.local/bin}
download=${LONGHAUL_DOWNLOAD:-$repository/releases/download/v$version}

fail() {
  echo "install.sh: $1" >&2
  exit 1
}

fetch() {
  if command -v curl >/dev/null 2>&1; then
    curl -fsSL --retry 3 --output "$2" "$1"
  elif command -v wget >/dev/null 2>&1; then
    wget -q -O "$2" "$1"
  else
    fail "needs curl or wget"
  fi || fail "cannot download $1"
}

# The static binary if the C library is musl, or is older than the dynamic binary requires.
linux_library() {
  glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed -n 's/^glibc 2\.\([0-9]*\).*/\1/p')
  if [ -n "$glibc" ] && [ "$glibc" -ge 35 ]; then echo gnu; else echo musl; fi
}

case $(uname -m) in
  x86_64 | amd64) machine=x86_64 ;;
  aarch64 | arm64) machine=aarch64 ;;
  *) fail "no archive for $(uname -m); build from source: cargo install --locked --git $repository" ;;
esac
case $(uname -s) in
  Linux) target=$machine-unknown-linux-$(linux_library) ;;
  Darwin) target=$machine-apple-darwin ;;
  *) fail "no archive for $(uname -s); see $repository/releases" ;;
esac
target=${LONGHAUL_TARGET:-$target}

name=longhaul-$version-$target
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fetch "$download/$name.tar.gz" "$work/$name.tar.gz"
fetch "$download/SHA256SUMS" "$work/SHA256SUMS"
grep " [*]\{0,1\}$name.tar.gz\$" "$work/SHA256SUMS" >"$work/expected" || fail "SHA256SUMS has no line for $name.tar.gz"
(
  cd "$work"
  if command -v sha256sum >/dev/null 2>&1; then
    sha256sum -c expected >/dev/null 2>&1
  else
    shasum -a 256 -c expected >/dev/null 2>&1
  fi
) || fail "the checksum of $name.tar.gz is wrong; nothing was installed"
tar -xzf "$work/$name.tar.gz" -C "$work" "$name/longhaul"
"$work/$name/longhaul" -V >/dev/null || fail "the binary does not run on this machine"
mkdir -p "$folder"
# A rename leaves the file of a running longhaul intact.
mv "$work/$name/longhaul" "$folder/.longhaul.new"
mv "$folder/.longhaul.new" "$folder/longhaul"
echo "installed $("$folder/longhaul" -V) in $folder"
case :$PATH: in
  *:"$folder":*) ;;
  *) echo "add $folder to PATH, or start $folder/longhaul" ;;
esac
echo "next: longhaul demo"
