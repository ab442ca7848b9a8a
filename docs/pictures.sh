#!/usr/bin/env bash
# Makes the pictures of the page, docs/pictures/*.png, in a real browser. Needs chromium with chromedriver.
set -euo pipefail
cd "$(dirname "$0")/.."
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
G2_REQUIRE_BROWSER=1 G2_PICTURES="$made" cargo test --test it web::look
mkdir -p docs/pictures
for name in now chat usage; do
  cp "$made/$name-light.png" "docs/pictures/$name.png"
done
cp "$made/now-phone.png" docs/pictures/phone.png
