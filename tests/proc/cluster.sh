# For the scripts of this folder that run a cluster from the command line. Sourced, not run.
. "$(dirname "$0")/../sim/tap.sh"

check() # NAME EXPECTED_CODE EXPECTED_TEXT ARGS...: both streams are searched for the text
{
    local name=$1 want_code=$2 want_text=$3 output code
    shift 3
    output=$(timeout 200 "$TRAM" "$@" 2>&1 </dev/null)
    code=$?
    if [[ $code = "$want_code" && $output == *"$want_text"* ]]; then
        pass "$name"
    else
        fail "$name" "exit code $code, wanted $want_code with '$want_text'; output: $output"
    fi
}

same() # NAME WANTED SEEN
{
    if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "wanted '$2', saw '$3'"; fi
}

wait_for() # COMMAND...: until it succeeds; only a hang takes two minutes
{
    local i
    for ((i = 0; i < 2400; i++)); do
        "$@" && return 0
        sleep 0.05
    done
    return 1
}

pid_of() # HOST: of one that runs; one that is just starting shows none
{
    "$TRAM" status --json | sed -nE "s/.*\"host\": \"$1\", \"state\": \"[a-z]+\", \"pid\": ([1-9][0-9]*),.*/\1/p" | head -1
}

kill_host() # HOST: and waits until it is gone, or who asks next would still see it up
{
    local pid
    pid=$(pid_of "$1")
    kill -KILL "$pid"
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.02
    done
}

# A hundred ports that are this test's while it runs, below what the kernel takes for connections: the first three digits of
# them, from 200 on. Whoever has the lock of their file has them.
take_ports()
{
    local files=${TMPDIR:-/tmp}/tram-test-ports-$UID lock
    mkdir -p "$files"
    for ((ports_taken = 200; ports_taken < 320; ports_taken++)); do
        exec {lock}>"$files/$ports_taken"
        flock -n "$lock" && return
        exec {lock}>&-
    done
    echo "Bail out! all ports of tests are taken, see $files"
    exit 1
}

own_ports() # FILE...: other addresses than those of `tram init`
{
    [ -n "$ports_taken" ] || take_ports
    sed -i -E "s/(127\.0\.0\.1:)71([0-9][0-9])/\1$ports_taken\2/" "$@"
}
