# Where things are and how the scripts speak. Sourced by the others, never run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PROFILE=${PROFILE:-ci}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$ROOT/target}
case $PROFILE in
  dev) OUT=$CARGO_TARGET_DIR/debug ;;
  *) OUT=$CARGO_TARGET_DIR/$PROFILE ;;
esac
APPEND=${APPEND:-$OUT/append}
SHIM_POM=$ROOT/java-shim/pom.xml
# What the scripts leave behind (class path, logs) stands beside cargo's own files, outside git.
WORK=$CARGO_TARGET_DIR/append-work

say() { printf '== %s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# The jar of the shim; there is one after scripts/build-java.
shim_jar() {
  local jar
  for jar in "$ROOT"/java-shim/target/libappend-hadoop-*.jar; do
    case $jar in *-tests.jar | *-sources.jar | *-javadoc.jar) continue ;; esac
    [ -f "$jar" ] && { printf '%s\n' "$jar"; return 0; }
  done
  return 1
}
