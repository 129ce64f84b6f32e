# To be sourced at the root of the repository.

# start_stack DIRECTORY starts a stack on free ports, whose log is
# DIRECTORY/remit.log, and waits until it is ready. REMIT_URL says where it is.
# It ends with the script.
start_stack() {
  local log=$1/remit.log
  mkdir -p "$1"
  go build -o .cache/bin/remit ./cmd/remit
  : >"$log" # so that it is there to be read
  .cache/bin/remit local --listen 127.0.0.1:0 --chain-listen 127.0.0.1:0 --block-time 500ms >"$log" 2>&1 &
  stack=$!
  trap 'kill $stack 2>/dev/null; wait $stack 2>/dev/null || true' EXIT
  REMIT_URL=
  for _ in $(seq 150); do
    REMIT_URL=$(awk '/^ *API / {print $2; exit}' "$log")
    [[ -n $REMIT_URL ]] && break
    kill -0 "$stack" 2>/dev/null || break
    sleep 0.2
  done
  [[ -n $REMIT_URL ]] || {
    echo "the stack did not start:" >&2
    cat "$log" >&2
    exit 1
  }
  export REMIT_URL
}
