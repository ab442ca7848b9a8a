#!/bin/sh
# Prints the address in G2_DEBIAN_MIRROR, otherwise the mirror that this machine's apt takes Debian from.
#
#   container/mirror.sh SUITE
set -eu
suite=$1

# What apt has fetched says whose it is. The mirror of another suite has this one, too.
fetched() {
  apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(RELEASE)|$(REPO_URI)' 2>/dev/null |
    sed -n 's/^Debian|Debian|\([^|]*\)|/\1 /p' |
    awk -v suite="$suite" '{ any = any ? any : $2 } $1 == suite { own = $2 } END { print own ? own : any }'
}

# What apt would fetch, where it has fetched nothing yet.
unfetched() {
  apt-get --print-uris update 2>/dev/null | sed -n "s#^'\(.*\)/dists/$suite/main/binary-.*#\1#p" | head -n 1
}

mirror=${G2_DEBIAN_MIRROR:-$(fetched)}
mirror=${mirror:-$(unfetched)}
case $mirror in
  mirror+file:*)
    # A list of mirrors.
    list=${mirror#mirror+file:}
    mirror=$(sed -n 's#^\(https\{0,1\}://[^[:space:]]*\).*#\1#p' "${list%/}" | head -n 1)
    ;;
esac
if [ -z "$mirror" ]; then
  echo "no mirror of Debian is known: apt names none on this machine; set G2_DEBIAN_MIRROR to the address of one" >&2
  exit 1
fi
echo "$mirror"
