# For the scripts of this folder: cases in the form of ../README.md. Sourced, not run.
cases=0

pass() # NAME [COMMENT]
{
    cases=$((cases + 1))
    echo "ok $cases - $1"
    [ -z "${2-}" ] || comment "$2"
}

fail() # NAME WHAT_WAS_SEEN
{
    cases=$((cases + 1))
    echo "not ok $cases - $1"
    comment "$2"
}

comment() # TEXT, of any number of lines
{
    printf '%s\n' "$1" | sed 's/^/# /'
}

plan() # the last line of a script: without it whoever counts knows that the script died
{
    echo "1..$cases"
}

# The number before WORD in a line such as "2000 seeds in 3.6 s: 38.6 million events, 12 faults".
figure() # WORD LINE
{
    sed -nE "s/.*[ (]([0-9]+) $1.*/\1/p" <<<" $2"
}
