# Takes the place of curl on a machine that has none: it knows the options that
# the pages use, and prints the body of the answer.
command -v curl >/dev/null || curl() {
  python3 -c '
import sys, urllib.error, urllib.request
url, method, body, head, words = "", None, None, {}, iter(sys.argv[1:])
for word in words:
    if word == "-X": method = next(words)
    elif word == "-H": name, _, value = next(words).partition(":"); head[name] = value.strip()
    elif word == "-d": body = next(words).encode()
    elif word.startswith("http"): url = word
    elif word != "-s": sys.exit(f"curl: {word} is unknown here")
ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
try:
    answer = ask(urllib.request.Request(url, body, head, method=method))
except urllib.error.HTTPError as refusal:
    answer = refusal
sys.stdout.write(answer.read().decode())
' "$@"
}
