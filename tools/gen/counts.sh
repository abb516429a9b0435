# For scripts that compare with real programs: prints a line per comparison and counts them. To be sourced.

passed=0 failed=0 skipped=0

report() { # status, what, a log whose end is printed after a failure
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok      $2"
    else
        failed=$((failed + 1))
        echo "FAILED  $2"
        [ -z "${3-}" ] || tail -n 20 "$3"
    fi
}

skip() { # what, why
    skipped=$((skipped + 1))
    echo "SKIPPED $1: $2"
}

# Says what comes next, and how many seconds the section before took.
title="" begun=0
section() { # what, or nothing at the end
    [ -z "$title" ] || echo "time    $title: $((SECONDS - begun)) seconds"
    title=${1-} begun=$SECONDS
    [ -z "$title" ] || echo "begin   $title"
}

# Runs a script that counts for itself, and adds up its last line, "N passed, N failed, N skipped".
counted() { # name of the log in $work, script, arguments
    local log=$work/$1.log script=$2 status p f s
    shift 2
    echo "note    progress: $log"
    bash "$script" "$@" >"$log" 2>&1
    status=$?
    grep -a -E '^(ok|FAILED|SKIPPED|time) ' "$log"
    read -r p f s <<<"$(sed -n '$s/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$log")"
    passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0})) skipped=$((skipped + ${s:-0}))
    if [ $status -ne 0 ] && [ "${f:-0}" -eq 0 ]; then
        report 1 "$script: exit status $status"
        tail -n 20 "$log"
    fi
}

# Ends the script: "N passed, N failed, N skipped".
counts() { # further words
    section
    echo "$passed passed, $failed failed, $skipped skipped${1-}"
    [ "$failed" -eq 0 ]
}
