#!/usr/bin/env bash
# A headless Chromium for the tests of the report: the one that is here, else Playwright's, else the distribution's when root.
# Without any of them the tests are skipped, and both this script and pytest's summary say so.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
starts() { .venv/bin/python tests/browser.py > /dev/null 2>&1; }
starts && exit 0
echo "Fetching a headless Chromium for the tests of the report."
timeout 180 .venv/bin/playwright install --only-shell chromium > /dev/null 2>&1 && starts && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq > /dev/null 2>&1
  for package in chromium-headless-shell chromium; do
    apt-get install -y -qq --no-install-recommends "$package" > /dev/null 2>&1 && starts && exit 0
  done
fi
echo "WARNING: no Chromium could be installed, so every browser test will be SKIPPED: apt-get install chromium." >&2
