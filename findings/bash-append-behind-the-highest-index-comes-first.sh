#!/usr/bin/env bash
# What: bash 5.2.15 (Debian package bash 5.2.15-2+b13), indexed arrays.
# Expected: `P+=(y)`, where P has an element at the highest index (2^63 - 1), is an error: there is no index behind it.
# Instead: y gets the index -2^63, below zero, and is the first of "${P[@]}". The slice ${P[*]:0:1} still begins with
#   element 0.
# Seen:
#   declare -a P=([-9223372036854775808]="y" [0]="u" [9223372036854775807]="x")
#   all: y u x
#   slice: u
# When it matters: whoever keeps code in an array that users change, such as PROMPT_COMMAND, can run before their element 0.
# Wants apt-get, and a Debian that has this version; no root.
set -euo pipefail

version=5.2.15-2+b13
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq "bash=$version"
dpkg -x bash_*.deb .

cat >trial <<'TRIAL'
P=([0x7fffffffffffffff]=x)
P+=(y)
P[0]=u
declare -p P
echo "all: ${P[*]}"
echo "slice: ${P[*]:0:1}"
TRIAL
timeout 20 ./bin/bash --norc --noprofile trial | tee seen

diff - seen <<'EXPECTED'
declare -a P=([-9223372036854775808]="y" [0]="u" [9223372036854775807]="x")
all: y u x
slice: u
EXPECTED
echo "as stated: bash $version"
