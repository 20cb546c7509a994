#!/usr/bin/env bash
# The programs that tests look at the product with, where they are missing and may be installed:
# a browser and an editor, from Debian's or Ubuntu's packages.
set -euo pipefail

declare -A package=([chromium]=chromium [nvim]=neovim)
missing=()
for program in "${!package[@]}"; do
  command -v "$program" > /dev/null || missing+=("${package[$program]}")
done
[ "${#missing[@]}" -gt 0 ] || exit 0
sudo=()
[ "$(id -u)" -eq 0 ] || sudo=(sudo)
"${sudo[@]}" apt-get update --quiet=2
DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install --quiet=2 --yes --no-install-recommends "${missing[@]}"
