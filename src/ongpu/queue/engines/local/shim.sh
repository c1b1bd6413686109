# One run of a job, in a session of its own: it outlives the daemon, and leaves the command's true exit code.
#
#     sh shim.sh RUN BOOT FOLDER OUTPUT COMMAND...
#
# In the folder RUN it makes: `start` (its own pid, and BOOT, the boot's id), `exit` (the code, 128 + n for signal n; complete when it ends
# in a newline), and `error` (a word) where the command could not be started. Only builtins are used: a job costs the machine one small
# shell. Its variables have names that no job exports.
ongpu_run=$1 ongpu_boot=$2 ongpu_folder=$3 ongpu_output=$4
shift 4
trap : HUP INT QUIT USR1 USR2 ALRM TERM VTALRM PROF IO XCPU # caught, not ignored: the command gets them as they were
ongpu_end() {
    until printf '%s\n' "$1" >"$ongpu_run/exit"; do # a full disk: until there is room
        [ -d "$ongpu_run" ] && command -p sleep 1 || exit "$1"
    done
    exit "$1"
}
ongpu_no() {
    printf '%s\n' "$1" >"$ongpu_run/error"
    ongpu_end "$2"
}
cd -- "$ongpu_folder" || ongpu_no no-folder 126
true >>"$ongpu_output" || ongpu_no no-output 126
ongpu_path=$1
case $1 in
*/*) ;;
*)
    ongpu_path=/dev/null/$1
    set -f # the command itself and not a builtin of that name: its path, as exec(3) finds it
    IFS=:
    for ongpu_path in ${PATH-/usr/local/bin:/usr/bin:/bin}; do
        ongpu_path=${ongpu_path:-.}/$1
        [ -f "$ongpu_path" ] && [ -x "$ongpu_path" ] && break
    done
    unset IFS
    set +f
    ;;
esac
[ -e "$ongpu_path" ] || ongpu_no not-found 127
[ ! -d "$ongpu_path" ] || ongpu_no is-folder 126
[ -x "$ongpu_path" ] || ongpu_no no-run-bit 126
shift
# The one point at which a run begins: whoever makes this file first, the shim or a daemon that gives the run up.
set -C
printf '%s %s\n' "$$" "$ongpu_boot" >"$ongpu_run/start" || exit 125
set +C
(
    trap 'printf "%s\n" cannot-run >"$ongpu_run/error"' EXIT # only where there is nothing to become: its interpreter is missing
    exec "$ongpu_path" "$@"
) >>"$ongpu_output" 2>&1
ongpu_end $?
