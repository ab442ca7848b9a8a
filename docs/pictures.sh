#!/usr/bin/env bash
# Makes the pictures of the page in a real browser: docs/pictures/*.png, and of every page docs/pictures/pages/*.webp.
# Needs chromium with chromedriver.
set -euo pipefail
cd "$(dirname "$0")/.."
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
G2_REQUIRE_BROWSER=1 G2_PICTURES="$made" cargo test --test it web::look::each_page
mkdir -p docs/pictures
for name in now chat usage; do
  cp "$made/$name-light.png" "docs/pictures/$name.png"
done
cp "$made/now-phone.png" docs/pictures/phone.png
rm -rf docs/pictures/pages
mkdir docs/pictures/pages
cp "$made"/*.webp docs/pictures/pages/
