#!/usr/bin/env bash
# Debian packages of the output of `make`: `make deb`. They are in BUILD/deb/: samebit (program, man pages,
# completions), libsamebit0 and libsamebit-dev. Needs debhelper; lintian checks the packages where it is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tree=$PWD
build=$(realpath "${BUILD:-build}")
work=$build/deb
command -v dh > /dev/null || { echo "deb: debhelper is missing: apt-get install debhelper" >&2; exit 1; }
version=$(sed -n 's/^.define SAMEBIT_VERSION "\(.*\)"/\1/p' ref/samebit.h)
rm -rf "$work" && mkdir -p "$work/samebit-$version/docs"
cd "$work/samebit-$version"
cp -r "$tree/tools/pack/debian" debian
cp -r "$tree/docs/examples" docs/
# the day of the commit, so that the same commit gives the same bytes
day=$(git -C "$tree" log -1 --format=%cD 2> /dev/null || date -R)
printf 'samebit (%s) unstable; urgency=medium\n\n  * Version %s.\n\n -- samebit maintainers <maintainers@samebit.invalid>  %s\n' \
    "$version" "$version" "$day" > debian/changelog
unset MAKEFLAGS MFLAGS
SAMEBIT_TREE=$tree SAMEBIT_BUILD=$build SOURCE_DATE_EPOCH=$(date -d "$day" +%s) \
    dpkg-buildpackage -b -us -uc > "$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; exit 1; }
cd "$work"
if command -v lintian > /dev/null; then
    lintian --fail-on error,warning ./*.changes
else
    echo "SKIPPED lintian: not installed"
fi
ls "$work"/*.deb
