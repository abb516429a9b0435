#!/usr/bin/env bash
# Prints the contents of a static program as an SPDX 2.3 document: tools/pack/spdx.sh PROGRAM [--cuda]
# --cuda: of a program for AArch64 with the runtime of CUDA (tools/pack/cross.sh) and without glibc
set -euo pipefail
program=$(realpath "${1:?usage: tools/pack/spdx.sh PROGRAM}")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=$(sed -n 's/^.define SAMEBIT_VERSION "\(.*\)"/\1/p' ref/samebit.h)
sum=$(sha256sum < "$program" | cut -d' ' -f1)
created=$(TZ=UTC0 git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2> /dev/null || echo 1980-01-01T00:00:00Z)
# libgcc-12-dev in contents.def stands for the libgcc of this compiler's version
compiler=$(gcc -dumpversion | cut -d. -f1)

package() { # ID NAME VERSION LICENSE HOME [SHA256]
    printf '    {"SPDXID": "SPDXRef-%s", "name": "%s", "versionInfo": "%s", "licenseConcluded": "%s",\n' "$1" "$2" "$3" "$4"
    printf '     "licenseDeclared": "%s", "copyrightText": "NOASSERTION", "downloadLocation": "%s", "filesAnalyzed": false%s}' \
        "$4" "$5" "${6:+, \"checksums\": [{\"algorithm\": \"SHA256\", \"checksumValue\": \"$6\"\}]}"
}
packages=$(package samebit samebit "$version" Apache-2.0 NOASSERTION "$sum")
relations='    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-samebit"}'
while IFS='|' read -r debian name license home; do
    [[ $debian != '#'* ]] || continue
    [ "${2-}" != --cuda ] || [ "$debian" != libc6-dev ] || continue
    found=$(dpkg-query -W -f '${Version}' "${debian/-12-/-$compiler-}" 2> /dev/null || true)
    packages+=$',\n'$(package "$debian" "$name" "${found:-NOASSERTION}" "$license" "$home")
    relations+=$',\n'"    {\"spdxElementId\": \"SPDXRef-samebit\", \"relationshipType\": \"STATIC_LINK\", \"relatedSpdxElement\": \"SPDXRef-$debian\"}"
done < tools/pack/contents.def
if [ "${2-}" = --cuda ]; then
    cuda=$(sed -n 's/^nvidia-cuda-runtime==\([0-9.]*\).*/\1/p' tools/py/requirements-cuda.txt)
    packages+=$',\n'$(package nvidia-cuda-runtime "CUDA runtime" "$cuda" NOASSERTION https://pypi.org/project/nvidia-cuda-runtime/)
    relations+=$',\n'"    {\"spdxElementId\": \"SPDXRef-samebit\", \"relationshipType\": \"STATIC_LINK\", \"relatedSpdxElement\": \"SPDXRef-nvidia-cuda-runtime\"}"
fi
cat <<EOF
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "samebit-$version",
  "documentNamespace": "https://spdx.org/spdxdocs/samebit-$version-$sum",
  "creationInfo": {"created": "$created", "creators": ["Tool: tools/pack/spdx.sh"]},
  "packages": [
$packages
  ],
  "relationships": [
$relations
  ]
}
EOF
