#!/bin/sh
# Make a token for each broker that has none, and one for a first client of the gateway; in the current directory.
set -eu
umask 077

line() { # NAME FILE: what is known of the token in FILE, for the scope `write`
    printf '%s write sha256:%s\n' "$1" "$(sha256sum <"$2" | cut -d' ' -f1)"
}

for each in broker-0 broker-1 broker-2 client; do
    [ -e "$each.token" ] || openssl rand -hex 32 | tr -d '\n' >"$each.token"
done
for each in broker-0 broker-1 broker-2; do
    # `write` is enough, unless clients of the gateway that have `admin` are to have it on the brokers as well.
    line gateway "$each.token" >"$each.tokens"
done
[ -e gateway.tokens ] || line client client.token >gateway.tokens
