# Steps that count their tests, for scripts/test and scripts/nightly. Sourced behind lib.sh, never run.

mkdir -p "$WORK/logs"
passed=0 failed=0 broken=()

# Runs one step, shows and keeps its output, and adds what it counted. A step that fails without a failed test counts as one.
step() {
  local name=$1 log=$WORK/logs/$1.log rc=0 counts p f started=$SECONDS
  shift
  say "$name"
  "$@" 2>&1 | tee "$log"
  rc=${PIPESTATUS[0]}
  counts=$("$ROOT/scripts/sum-results" <"$log")
  p=${counts% *} f=${counts#* }
  if [ "$rc" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
  if [ "$rc" -eq 0 ] && [ "$p" -eq 0 ] && [ "$f" -eq 0 ]; then
    # Green because nothing ran is not green.
    echo "$name ran no test" >&2
    f=1
  fi
  passed=$((passed + p)) failed=$((failed + f))
  [ "$f" -eq 0 ] || broken+=("$name")
  say "$name: $p passed, $f failed, $((SECONDS - started)) s"
}

# Builds in front of the tests that need what they make; a build that fails ends the run, as nothing after it could mean anything.
need() {
  say "$1"
  shift
  "$@" || { echo "0 passed, 1 failed"; exit 1; }
}

# Runs a command that counts nothing itself: it is one test.
as_one() {
  if "$@"; then echo "1 passed, 0 failed"; else echo "0 passed, 1 failed"; return 1; fi
}

# The last line, and the exit code.
end_of_steps() {
  if [ ${#broken[@]} -gt 0 ]; then echo "failed: ${broken[*]} (logs in $WORK/logs)"; fi
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
}
