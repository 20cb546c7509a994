#!/usr/bin/env bash
# A Visual Studio Code that a browser opens, for tests/generator/editor/test_code_server.py: code-server
# from npm, without what its own installer fetches from elsewhere. It needs Node.js 24 with its headers,
# which the test requirements bring, and a C++ compiler for its terminals.
set -euo pipefail

readonly version=4.139.1
root="$(cd "$(dirname "$0")/.." && pwd)"
folder="$root/tests/.upstream/code-server-$version"
export PATH="$root/.venv/bin:$PATH"
[ ! -e "$folder/lib/installed" ] || exit 0
mkdir -p "$folder"
cd "$folder"
npm_config_nodedir="$(dirname "$(dirname "$(node -p process.execPath)")")"
export npm_config_nodedir npm_config_audit=false npm_config_fund=false npm_config_ignore_scripts=true
tar -xz --strip-components=1 < "$(npm pack --silent "code-server@$version")"
npm install --omit=dev
cd lib/vscode
# It names one package by a commit on GitHub, and package.json the same one of npm.
rm npm-shrinkwrap.json
npm install --omit=dev
npm_config_ignore_scripts=false npm rebuild node-pty
touch ../installed
