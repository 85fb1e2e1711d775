#!/usr/bin/env bash
# Rules of the tree that no compiler checks: the order of layers, pure folders, sizes of files.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
export LC_ALL=C.UTF-8

layers=(runtime chunk collectives offload models train cli)
max_lines=500
max_columns=100
# Plans are functions of their inputs: no threads, files, clock or randomness of the system.
pure='^(offload/policy/|offload/lower|offload/simulat|chunk/layout)'
impure='#include <(thread|mutex|atomic|condition_variable|chrono|random|fstream|filesystem)>'

failed=0
report() {
  echo "$*" >&2
  failed=1
}

existing() {
  git ls-files --cached --others --exclude-standard -- "$@" | sort -u | while read -r file; do
    [[ ! -f $file ]] || echo "$file"
  done
}

check_layer() {
  local layer=$1 allowed=$2 line
  while read -r line; do
    report "$line: $layer may include only from: $allowed, by a path from the root"
  done < <(existing "$layer/*.hpp" "$layer/*.cpp" "$layer/*.cc" |
    xargs -r grep -HnE '^\s*#\s*include\s+"' | grep -vE "include\s+\"(${allowed// /|})/" || true)
}

allowed=""
for layer in "${layers[@]}"; do
  allowed="${allowed:+$allowed }$layer"
  check_layer "$layer" "$allowed"
done

while read -r line; do
  report "$line: this file must be pure"
done < <(existing '*.hpp' '*.cpp' | grep -E "$pure" | xargs -r grep -HnE "$impure" || true)

code=('*.hpp' '*.cpp' '*.cc' '*.cu' '*.cuh' '*.cmake' '*CMakeLists.txt' '*.sh' '*.py' dev .ci/run)
while read -r lines file; do
  [[ $file == total ]] || ((lines <= max_lines)) ||
    report "$file: $lines lines, more than $max_lines: split it"
done < <(existing "${code[@]}" | xargs -r wc -l)

while IFS=: read -r file line _; do
  report "$file:$line: longer than $max_columns columns"
done < <(existing "${code[@]}" | xargs -r grep -HnE "^.{$((max_columns + 1))}" || true)

while read -r file; do
  head -n 20 "$file" | grep -q '^#pragma once' || report "$file: no #pragma once"
done < <(existing '*.hpp' | grep -vE '[-_]inl\.hpp$' || true)

exit $failed
