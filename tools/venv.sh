# Makes .venv with the newest python3 that is 3.11 or later, and installs this checkout into it. Sourced by tools/doctor and tools/check.
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

find_python() {
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo "$name"; return; fi
    done
    echo "ongpu needs Python 3.11 or newer; none was found on PATH" >&2
    exit 2
}

make_venv() { # what to install, as pip takes it: "." or ".[test]"
    python=$(find_python)
    if [ ! -x .venv/bin/pip ]; then
        rm -rf .venv
        "$python" -m venv .venv 2>/dev/null || {
            rm -rf .venv # Debian and Ubuntu ship venv as a package of its own
            as_root apt-get update -qq
            as_root apt-get install -y -qq python3-venv >/dev/null
            "$python" -m venv .venv
        }
    fi
    .venv/bin/pip install --quiet --disable-pip-version-check --editable "$1"
}
