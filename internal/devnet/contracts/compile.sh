#!/bin/sh
# Recompiles TestToken.sol into TestToken.json with one exact compiler.
#
#   compile.sh          writes TestToken.json
#   compile.sh --check  fails unless TestToken.json is what the source compiles to
#
# Needs node, npm, openssl. The compiler is fetched once into $SOLC_CACHE.
set -eu
version=0.8.30
sha512=9Srk/gndtBmoUbg4CE6ypAzPQlElv8ntbnl6SigUBAzgXKn35v87sj04uZeoZWjtDkdzT0qKFcIo/wl63UMxdw==

cd "$(dirname "$0")"
cache=${SOLC_CACHE:-../../../.cache/solc}/$version
soljson=$cache/package/soljson.js
if [ ! -f "$soljson" ]; then
	mkdir -p "$cache"
	npm pack --silent --pack-destination "$cache" "solc@$version" >/dev/null
	if [ "$(openssl dgst -sha512 -binary "$cache/solc-$version.tgz" | openssl base64 -A)" != "$sha512" ]; then
		echo "compile.sh: solc@$version is not the package that was pinned" >&2
		rm -r "$cache"
		exit 1
	fi
	tar -xzf "$cache/solc-$version.tgz" -C "$cache" package/soljson.js
fi

out=$(mktemp)
trap 'rm -f "$out"' EXIT
node compile.mjs "$soljson" >"$out"
if [ "${1:-}" = --check ]; then
	cmp "$out" TestToken.json
else
	cat "$out" >TestToken.json
fi
