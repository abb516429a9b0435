#!/usr/bin/env bash
# A machine with a device for tests/device/check.sh, without a device: tests/gpu/device_check.sh puts this file into a
# bundle under the name of each program that the command calls. It computes nothing. It answers what these programs
# say when all is well, or makes the fault that FAKE_FAULT names:
#
#   hang:WORDS   says one line and then nothing, if the command line has WORDS
#   fail:WORDS   says that something differs, with status 1, if the command line has WORDS
#   atom:NAME    the atom NAME differs
#   digest       the sixth digest of `device_ops told` is another one
#   race         compute-sanitizer finds a race
#   heat         the device gets hot, and slows down
#
# FAKE_CALLS names a file to which it appends the command line of each call. FAKE_DIGESTS is golden/device.
name=${0##*/}
call="$name $*"
[ -z "${FAKE_CALLS-}" ] || echo "$call" >> "$FAKE_CALLS"
fault=${FAKE_FAULT-}
case $fault in
    hang:*) if [[ $call == *"${fault#hang:}"* ]]; then echo "begins: $call" && exec sleep 600; fi ;;
    fail:*) if [[ $call == *"${fault#fail:}"* ]]; then echo "[  FAILED  ] $call: 1 differs" && exit 1; fi ;;
esac
told() { # PROFILE FOLDER PROMPT
    local file
    file=$FAKE_DIGESTS/$(basename "$2" | sed 's/-/_/')_$1.txt
    [ "$3" = 4 ] || { echo 'prompt 0+1 layer -1 embed 01234567' && echo '1 ops' && return; }
    if [ "$fault" = digest ]; then sed '6s/[0-9a-f]*$/01234567/' "$file"; else cat "$file"; fi
}
case $name in
    nvidia-smi)
        case $* in
            *driver_version*) echo 'A fake device, 12.1, 1.0' ;;
            *-l*)
                slow=0x0000000000000000
                [ "$fault" != heat ] || slow=0x0000000000000040
                echo "2400, [N/A], 60.5, 71, $slow" && exec sleep 600 ;;
        esac ;;
    compute-sanitizer)
        [[ $call == *racecheck* && $fault = race ]] && echo 'RACECHECK: 1 hazard' && exit 9
        echo 'ERROR SUMMARY: 0 errors' ;;
    device_atoms)
        if [ "${fault%:*}" = atom ]; then
            echo "[  FAILED  ] atom ${fault#atom:}: 9 fragments, 1 elements differ"
            echo '19 passed, 1 failed, 0 skipped' && exit 1
        fi
        echo '20 passed, 0 failed, 0 skipped' ;;
    device_math) echo '8 passed, 0 failed, 0 skipped' ;;
    device_ops*)
        case $* in
            'twin gpu gpu sm121 '*' 0 0') exit 2 ;; # no prompt: there is a device
            told*) told "${@:3}" ;;
            *) echo "[       OK ] $1: the same" ;;
        esac ;;
    samebit)
        [ "$1" != make ] || exec mkdir -p "$2"
        echo "$1: done" ;;
    ncu) echo 'one kernel' ;;
esac
