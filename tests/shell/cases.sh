# The cases of tests/shell/run. Sourced; $base is a bucket, $kind the shell.

append_cases() {
  local f=$base/append/f
  # Missing target, parents too; then one file, three files, standard input, a new block.
  expect "append makes a missing file" 0 '' '' fs -appendToFile a "$f"
  expect "append one file" 0 '' '' fs -appendToFile b "$f"
  expect "append three files in order" 0 '' '' fs -appendToFile a b c "$f"
  expect "append standard input" 0 '' '' fs -appendToFile - "$f" < <(printf 'in\n')
  expect "append with a new block" 0 '' '' fs -appendToFile -n a "$f"
  same "everything in order" "$(printf 'aaa\nbbb\naaa\nbbb\nccc\nin\naaa')" "$(content "$f")"
  expect "append an empty file makes the target" 0 '' '' fs -appendToFile empty "$base/append/none"
  same "of length 0" 0 "$(length "$base/append/none")"
  expect "a pattern that matches one file" 0 '' '' fs -appendToFile a "$base/append/no*e"
  same "was appended to" aaa "$(content "$base/append/none")"

  local before
  before=$(length "$f")
  expect "stdin beside a file" 1 '' 'stdin \(-\) must be the sole input argument when present' fs -appendToFile - a "$f" </dev/null
  expect "a file beside stdin" 1 '' 'stdin \(-\) must be the sole input argument when present' fs -appendToFile a - "$f" </dev/null
  same "neither changed the file" "$before" "$(length "$f")"
  expect "a missing source" 1 '' '^appendToFile: .*/nothere' fs -appendToFile a nothere "$f"
  same "what stood before it is there" $((before + 4)) "$(length "$f")"
  expect "a local directory" 1 '' '^appendToFile: Is a directory' fs -appendToFile dir "$f"
  expect "the target is a directory" 1 '' '^appendToFile: .*director' fs -appendToFile a "$base/append"
  expect "the target is below a file" 1 '' '^appendToFile: ' fs -appendToFile a "$f/x"
  expect "no target" 1 '' '^appendToFile: missing destination argument$' fs -appendToFile a
  expect "no argument" 1 '' '^appendToFile: missing destination argument$' fs -appendToFile
  same "the file is as it was" $((before + 4)) "$(length "$f")"

  # An empty file, and appends of nothing: length, modification time and usage stay.
  local e=$base/append/e i
  : >touched
  expect "an empty file" 0 '' '' fs -put touched "$e"
  awk 'BEGIN { for (i = 0; i < 256; i++) printf "%c", 97 + i % 26 }' >az
  expect "256 bytes onto it" 0 '' '' fs -appendToFile az "$e"
  same "are there" "$(cat az)" "$(content "$e")"
  local stat used
  stat=$(fs -stat '%b %Y' "$e") used=$(admin bucket info "$base" | grep '^used')
  for i in 1 2 3 4 5; do expect "append nothing, $i" 0 '' '' fs -appendToFile empty "$e"; done
  same "length and modification time stay" "$stat" "$(fs -stat '%b %Y' "$e")"
  same "usage stays" "$used" "$(admin bucket info "$base" | grep '^used')"
  same "no session is left" 0 "$(open_count "$base")"

  expect "a path below a snapshot" '[1-9]*' '' '^-?appendToFile: ' fs -appendToFile a "$base/.snapshot/s/x"
  same "nothing was opened" 0 "$(open_count "$base")"
}

copy_cases() {
  local d=$base/copy
  expect "mkdir" 0 '' '' fs -mkdir "$d"
  expect "put" 0 '' '' fs -put a "$d/f"
  expect "put onto a file" 1 '' "^put: \`$d/f': File exists\$" fs -put b "$d/f"
  expect "put -f" 0 '' '' fs -put -f b "$d/f"
  same "replaced" bbb "$(content "$d/f")"
  expect "put from stdin" 0 '' '' fs -put - "$d/stdin" < <(printf 'piped')
  same "piped in" piped "$(content "$d/stdin")"
  expect "put -t and -q" 0 '' '' fs -put -f -t 2 -q 10 b "$d/f"
  expect "put -t that is no number" 255 '' 'For input string: "many"' fs -put -f -t many a "$d/f"
  expect "cat -ignoreCrc" 0 bbb '' fs -cat -ignoreCrc "$d/f"
  expect "get -ignoreCrc, -t and -q" 0 '' '' fs -get -f -ignoreCrc -t 2 -q 10 "$d/f" unchecked
  same "got whatever" bbb "$(cat unchecked)"
  expect "put -d" 0 '' '' fs -put -d a "$d/direct"
  same "directly" aaa "$(content "$d/direct")"
  expect "put into a directory" 0 '' '' fs -put a c "$d"
  same "both" "$(printf 'aaa\nccc')" "$(content "$d/[ac]")"
  expect "put several onto a file" 1 '' "^put: \`$d/f': Is not a directory\$" fs -put a b "$d/f"
  expect "put several onto nothing" 1 '' "^put: \`$d/no': No such file or directory" fs -put a b "$d/no"
  expect "put below nothing" 1 '' "^put: \`$d/no/f': No such file or directory" fs -put a "$d/no/f"
  expect "put nothing" 1 '' "^put: \`nothere': No such file or directory\$" fs -put nothere "$d/x"
  expect "put a tree" 0 '' '' fs -put dir "$d/dir"
  same "with what is in it" deep "$(content "$d/dir/sub/f")"
  same "no temporary file is left" "" "$(fs -ls -C "$d" | grep COPYING)"

  rm -rf got && mkdir got
  expect "get" 0 '' '' fs -get "$d/f" got/f
  same "got" bbb "$(cat got/f)"
  expect "get onto a file" 1 '' "^get: \`got/f': File exists\$" fs -get "$d/a" got/f
  expect "get -f" 0 '' '' fs -get -f "$d/a" got/f
  same "got again" aaa "$(cat got/f)"
  expect "get a tree" 0 '' '' fs -get "$d/dir" got
  same "all of it" deep "$(cat got/dir/sub/f)"
  expect "get nothing" 1 '' "^get: \`$d/no': No such file or directory\$" fs -get "$d/no" got/x

  # More than one buffer, and a tail that is less than a kilobyte from its start.
  head -c 9000000 /dev/zero | tr '\0' 'x' >big
  printf 'the end\n' >>big
  expect "put 9 MB" 0 '' '' fs -put big "$d/big"
  same "read back" "$(sha256sum <big)" "$(fs -cat "$d/big" | sha256sum)"
  same "tail" "$(tail -c 1024 big)" "$(fs -tail "$d/big")"
  same "tail of a short file" aaa "$(fs -tail "$d/a")"
  expect "tail of a directory" 1 '' "^tail: \`$d': Is a directory\$" fs -tail "$d"
  expect "cat of nothing" 1 '' "^cat: \`$d/no': No such file or directory\$" fs -cat "$d/no"
  expect "cat of a directory and a file" 1 aaa "^cat: \`$d/dir': Is a directory\$" fs -cat "$d/dir" "$d/a"
}

name_cases() {
  local d=$base/names user
  expect "mkdir without parent" 1 '' "^mkdir: \`.*$d': No such file or directory\$" fs -mkdir "$d/sub"
  expect "mkdir -p" 0 '' '' fs -mkdir -p "$d/sub/sub"
  expect "mkdir of a directory" 1 '' "^mkdir: \`$d': File exists\$" fs -mkdir "$d"
  expect "mkdir -p of a directory" 0 '' '' fs -mkdir -p "$d"
  fs -put a "$d/f"
  expect "mkdir of a file" 1 '' "^mkdir: \`$d/f': Is not a directory\$" fs -mkdir -p "$d/f"
  expect "mkdir below a file" 1 '' '^mkdir: .*(ot a directory|is a file)' fs -mkdir -p "$d/f/x"

  expect "ls" 0 '*' '' fs -ls "$d"
  same "ls counts" "Found 2 items" "$(head -1 .out)"
  user=$(fs -stat %u "$d/f")
  # Mode, copies, owner, group, length, date, time, path, in the columns of Hadoop's shell.
  local line="-rw-rw-rw-   1 $user [^ ]+ +4 20[0-9][0-9]-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-5][0-9] $d/f"
  grep -qE "^$line\$" .out && pass || fail "ls line of a file: $(cat .out)"
  grep -qE "^drwxrwxrwx   - .* +0 20.* $d/sub\$" .out && pass || fail "ls line of a directory: $(cat .out)"
  expect "ls -R" 0 "$(printf '%s\n' "$d/f" "$d/sub" "$d/sub/sub")" '' fs -ls -C -R "$d"
  expect "ls -d" 0 "$d" '' fs -ls -C -d "$d"
  expect "ls of a pattern" 0 "$(printf '%s\n' "$d/f" "$d/sub/sub")" '' fs -ls -C "$d/{f,s?b}"
  expect "ls of nothing" 1 '' "^ls: \`$d/no': No such file or directory\$" fs -ls "$d/no"
  expect "ls of a pattern without a match" 1 '' "^ls: \`$d/no\\*': No such file or directory\$" fs -ls "$d/no*"
  expect "stat" 0 "regular file 4 f" '' fs -stat '%F %b %n' "$d/f"
  expect "stat of a directory" 0 "directory 0 names" '' fs -stat '%F %b %n' "$d"
  expect "stat of nothing" 1 '' "^stat: \`$d/no': No such file or directory\$" fs -stat "$d/no"

  expect "mv" 0 '' '' fs -mv "$d/f" "$d/g"
  expect "mv into a directory" 0 '' '' fs -mv "$d/g" "$d/sub"
  same "moved" aaa "$(content "$d/sub/g")"
  fs -put b "$d/h"
  expect "mv onto a file" 1 '' "^mv: \`$d/h': File exists\$" fs -mv "$d/sub/g" "$d/h"
  expect "mv of nothing" 1 '' "^mv: \`$d/no': No such file or directory\$" fs -mv "$d/no" "$d/x"
  expect "mv below nothing" 1 '' "^mv: \`$d/no/x': No such file or directory" fs -mv "$d/h" "$d/no/x"
  expect "mv below itself" 1 '' "^mv: .*is a subdirectory of itself\$" fs -mv "$d/sub" "$d/sub/sub"
  expect "mv of a tree" 0 '' '' fs -mv "$d/sub" "$d/tree"
  same "with what is in it" aaa "$(content "$d/tree/g")"

  expect "rm of a directory" 1 '' "^rm: \`$d/tree': Is a directory\$" fs -rm "$d/tree"
  expect "rm of nothing" 1 '' "^rm: \`$d/no': No such file or directory\$" fs -rm "$d/no"
  expect "rm -f of nothing" 0 '' '' fs -rm -f "$d/no"
  expect "rm" 0 "Deleted $d/h" '' fs -rm "$d/h"
  expect "rm -r" 0 "Deleted $d/tree" '' fs -rm -r -skipTrash "$d/tree"
  expect "the directory is empty" 0 '' '' fs -ls "$d"
}

writer_cases() {
  local f=$base/held rc
  fs -put a "$f"

  # A second appender is refused while the first one lives, and nothing else happens to the first.
  start_writer -appendToFile - "$f"
  feed 'first'
  until_true has_writer "$base"
  expect "a held file" 1 '' "^appendToFile: .*$f" fs -appendToFile b "$f"
  rc=0
  end_writer || rc=$?
  same "the first appender ends well" 0 $rc
  same "with its bytes alone" "$(printf 'aaa\nfirst')" "$(content "$f")"
  expect "the file is free again" 0 '' '' fs -appendToFile b "$f"

  # Replacing a file whose appender lives: the appender fails, the new file stays.
  start_writer -appendToFile - "$f"
  feed 'late'
  until_true has_writer "$base"
  expect "put -f over an open file" 0 '' '' fs -put -f c "$f"
  rc=0
  end_writer || rc=$?
  same "its appender fails" 1 $rc
  same "the new file stays" ccc "$(content "$f")"

  # A put that is killed in mid-write can be run again at once.
  start_writer -put - "$base/killed"
  head -c 5000000 big >&9
  until_true fs -ls "$base/killed._COPYING_"
  signal_writer KILL
  rc=0
  reap_writer || rc=$?
  same "a put is killed" 137 $rc
  expect "a killed put runs again" 0 '' '' fs -put big "$base/killed"
  same "and is whole" "$(sha256sum <big)" "$(fs -cat "$base/killed" | sha256sum)"
  start_writer -put -d - "$base/direct"
  head -c 5000000 big >&9
  until_true fs -ls "$base/direct"
  signal_writer KILL
  rc=0
  reap_writer || rc=$?
  same "a direct put is killed" 137 $rc
  expect "a killed direct put runs again" 0 '' '' fs -put -d -f big "$base/direct"
  same "and is whole, too" "$(sha256sum <big)" "$(fs -cat "$base/direct" | sha256sum)"

  if [ "$kind" = ours ]; then
    # An interrupted command leaves nothing held and nothing half done.
    fs -put -f a "$f"
    start_writer -appendToFile - "$f"
    feed 'gone'
    until_true has_writer "$base"
    signal_writer TERM
    rc=0
    reap_writer || rc=$?
    same "an interrupted append says so" 143 $rc
    same "and published nothing" aaa "$(content "$f")"
    expect "and holds nothing" 0 '' '' fs -appendToFile b "$f"
    start_writer -put - "$base/interrupted"
    feed 'gone'
    until_true fs -ls "$base/interrupted._COPYING_"
    signal_writer TERM
    reap_writer
    same "an interrupted put leaves nothing" "" "$(fs -ls -C "$base" | grep interrupted)"
  fi
}

# Beside the writer of `held`, whose session lives: pages of what is open, and a recovery that an operator forces.
recovery_cases() {
  local d=/$vol/fso i token='' page names='' pids=() n
  for i in 1 2 3; do
    mkfifo "$tmp/pipe$i"
    "$APPEND" fs -fs "$APPEND_URI" -appendToFile - "$d/many$i" <"$tmp/pipe$i" >/dev/null 2>"$tmp/many$i.err" &
    pids+=($!)
    eval "exec $((i + 2))>\"$tmp/pipe$i\""
  done
  until_true eval '[ "$(admin lof --json --prefix many "$d" | jq ".openKeys | length")" = 3 ]'
  # One file of the prefix a page, behind each other, each once.
  for n in 1 2 3; do
    page=$(admin lof --json --length 1 --prefix many ${token:+--token "$token"} "$d")
    names+=$(jq -r '.openKeys[].keyInfo.keyName' <<<"$page")' '
    token=$(jq -r '.contToken // empty' <<<"$page")
    [ -n "$token" ] || break
  done
  same "pages of a prefix" 'many1 many2 many3' "$(tr ' ' '\n' <<<"$names" | sort | xargs)"
  admin lof --length 1 --prefix many "$d" >.out
  grep -qE '^More: append admin lof --length 1 --token [0-9a-f]+ --prefix '"'many' $d\$" .out && pass || fail "no way on: $(cat .out)"
  expect "recovery beside a live writer" 1 '' 'may be recovered in' admin recover-lease "$d/many1"
  expect "a recovery that is forced" 0 'closed' '' admin recover-lease --force "$d/many1"
  same "ends the session" 2 "$(admin lof --json --prefix many "$d" | jq '[.openKeys[] | select(.phase == "ACTIVE")] | length')"
  printf 'late' >&3
  for i in 1 2 3; do eval "exec $((i + 2))>&-"; done
  local rcs=''
  for i in 0 1 2; do n=0; wait "${pids[i]}" || n=$?; rcs+="$n "; done
  same "its writer fails, the others end well" '1 0 0 ' "$rcs"
  grep -qE "^appendToFile: .*many1" "$tmp/many1.err" && pass || fail "the fenced writer said: $(cat "$tmp/many1.err")"
  same "and nothing of it is there" aaa "$(content "$d/many1")"
}

once_cases() {
  expect "an unknown scheme" 1 '' '^appendToFile: No FileSystem for scheme "nofs"$' fs -appendToFile a nofs://x/y
  expect "an unknown option" 255 '' '^-ls: Illegal option -x$' fs -ls -x /
  expect "too few arguments" 255 '' '^-mv: Not enough arguments: expected 2 but got 1$' fs -mv /x
  expect "too many arguments" 255 '' '^-tail: Too many arguments: expected 1 but got 2$' fs -tail /x /y
  expect "an unknown command" 255 '' '^-nosuch: Unknown command$' fs -nosuch
  expect "a command without its dash" 255 '' '^Did you mean -ls\?  This command begins with a dash\.$' fs ls /
  expect "ls of the root" 0 '*' '' fs -ls -C /
  grep -qx "/$vol" .out && pass || fail "the volume is not listed: $(cat .out)"
  expect "ls of a volume" 0 "$(printf '%s\n' "/$vol/fso" "/$vol/legacy" "/$vol/obs")" '' fs -ls -C "/$vol"
  expect "a URI is shown as one" 0 "$APPEND_URI/$vol/fso/held" '' fs -ls -C "$APPEND_URI/$vol/fso/held"
  expect "a relative path is below the home directory" 0 '' '' fs -appendToFile a "rel-$kind"
  same "there" aaa "$(content "/user/$(fs -stat %u "rel-$kind")/rel-$kind")"

  # A bucket of opaque keys takes no append, and nothing is left of the attempt.
  expect "append in an object store bucket" '[1-9]*' '' '^-?appendToFile: ' fs -appendToFile a "/$vol/obs/key"
  same "left no session" 0 "$(open_count "/$vol/obs")"

  if [ "$kind" = ours ]; then
    expect "ls -h" 0 '*' '' fs -ls -h "/$vol/fso/copy/big"
    grep -qE ' 8\.6 M ' .out && pass || fail "size for people: $(cat .out)"
    # On a terminal, a transfer that takes a moment shows how far it is; a short command shows nothing of the kind.
    expect "ls on a terminal" 0 "/$vol/fso/held" '' terminal "$APPEND fs -fs $APPEND_URI -ls -C /$vol/fso/held"
    expect "a long transfer on a terminal" 0 '*' '' \
      terminal "(cat big; sleep 3; cat big) | $APPEND fs -fs $APPEND_URI -put - /$vol/fso/long"
    grep -q ' MiB' .out && pass || fail "no progress was shown: $(cat .out)"
    same "and arrives whole" "$(cat big big | sha256sum)" "$(fs -cat "/$vol/fso/long" | sha256sum)"
    expect "usage" 0 'Usage: append fs [generic options] -mv <src> ... <dst>' '' fs -usage mv
    expect "no server" 1 '' '^ls: ' "$APPEND" fs -fs ofs://127.0.0.1:1 -ls /
    expect "a malformed server" 1 '' '^ls: ' "$APPEND" fs -fs ofs://127.0.0.1:notaport -ls /
    expect "recovery of a closed file" 0 'closed' '' admin recover-lease "/$vol/fso/held"
    expect "recovery of nothing" 1 '' 'File does not exist' admin recover-lease "/$vol/fso/none"
    expect "recovery of a directory" 1 '' 'not a file' admin recover-lease "/$vol/fso"
    expect "the layout of a new folder" 0 'finalized' '' admin finalize --status
    expect "finalizing it again" 0 'already finalized' '' admin finalize
    expect "finalizing a path" 1 '' 'as a whole' admin finalize "/$vol"
    expect "a volume twice" 1 '' '/?'"$vol" admin volume create "$vol"
    expect "volume info" 0 '*' '' admin volume info "$vol"
    grep -qE '^buckets +3$' .out && pass || fail "volume info: $(cat .out)"
    expect "bucket info" 0 '*' '' admin bucket info "$vol/legacy"
    grep -qE '^layout +LEGACY$' .out && pass || fail "bucket info: $(cat .out)"
    expect "bucket list" 0 '*' '' admin bucket list "$vol"
    same "all layouts" "FILE_SYSTEM_OPTIMIZED LEGACY OBJECT_STORE" "$(awk 'NR > 1 { print $3 }' .out | xargs)"
    expect "volume list" 0 '*' '' admin volume list
    grep -q "^$vol " .out && pass || fail "volume list: $(cat .out)"
    expect "deleting a full bucket" 1 '' . admin bucket delete "$vol/fso"
    expect "deleting a bucket" 0 '' '' admin bucket delete "$vol/obs"
    expect "a deleted bucket" 1 '' . admin bucket info "$vol/obs"
    start_writer -appendToFile - "/$vol/fso/held"
    until_true has_writer "/$vol/fso"
    same "an open file in JSON" "\"$vol/fso/held APPEND ACTIVE\"" "$(admin lof --json "/$vol/fso" |
      jq '.openKeys[] | select(.phase != "INVALIDATED") | "\(.keyInfo.volumeName)/\(.keyInfo.bucketName)/\(.keyInfo.keyName) \(.writerKind) \(.phase)"')"
    feed 'first'
    local all=/$vol/fso other
    for other in 1 2 3; do fs -put a "$all/many$other"; done
    # Everything that there is to tell of the one writer; others are none of its prefix.
    same "what JSON tells of a session" '["APPEND","ACTIVE",true,true,0,"LEASED",true,false]' \
      "$(admin lof --json --prefix held "$all" | jq -c '.openKeys[] | select(.phase != "INVALIDATED") |
        [.writerKind, .phase, .sessionId == .clientId, .owner != "", .publishedLength - .prefixLength, .recoveryState, .leaseRemainingMillis > 0,
         has("blockedReason")]')"
    same "no key with this prefix" 0 "$(admin lof --json --prefix no-such "$all" | jq '.openKeys | length')"
    recovery_cases
    end_writer
    "$APPEND" fs -fs "$APPEND_URI" -cat "/$vol/fso/copy/big" 2>"$tmp/.err" | head -c 1 >/dev/null
    same "a closed pipe is no complaint" "" "$(cat "$tmp/.err")"
  fi
}
