# Shared by scripts/*: sourced, not run. Installing packages and building, each safe when several
# scripts do it at once in the same clone.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
locks="$root/.cache"

build_packages="build-essential pkg-config meson ninja-build libmicrohttpd-dev libgnutls28-dev libuv1-dev libcjson-dev
    libopenblas-openmp-dev liblapacke-dev libsqlite3-dev libzip-dev libcsv-dev nettle-dev zlib1g-dev libkissfft-dev
    libcurl4-gnutls-dev libjs-chart.js libcmocka-dev python3 python3-yaml curl jq util-linux"
test_packages="openssl python3-pytest python3-numpy python3-scipy python3-requests
    python3-jsonschema python3-venv"
# Checks that are skipped where the distribution has no such package.
optional_packages="faketime clang-format-14 chromium chromium-driver python3-selenium"

say() {
    printf '%s\n' "== $*"
}

die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# with_lock NAME COMMAND...: one at a time in this clone. The command's children do not keep it.
with_lock() {
    local name=$1
    shift
    mkdir -p "$locks"
    (
        if ! flock -n 9; then
            say "waiting for another script ($name)"
            flock 9
        fi
        "$@" 9>&-
    ) 9>"$locks/$name.lock"
}

# The given packages that are not installed, on one line.
missing_packages() {
    local package
    for package in "$@"; do
        case $(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null) in
        [ih]i*) ;;
        *) printf '%s ' "$package" ;;
        esac
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif ! command -v sudo >/dev/null; then
        return 1
    elif [ -t 0 ]; then
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a \
        apt-get -q -y -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@"
}

# apt-get's wait covers the lock of installing, not the one of the package lists.
apt_update() {
    local attempt
    for attempt in 1 2 3 4 5 6; do
        apt_get update && return 0
        say "apt-get update failed (attempt $attempt of 6), again in 10 s"
        sleep 10
    done
    return 1
}

# Those of the given packages that can be installed. Of a name that other packages mention, though no
# package has it, apt-cache says nothing and ends with 0: chromium on Ubuntu.
available_packages() {
    local package
    for package in "$@"; do
        if [ -n "$(apt-cache show "$package" 2>/dev/null)" ]; then
            printf '%s ' "$package"
        else
            say "there is no package $package here; what needs it will be skipped" >&2
        fi
    done
}

# Whether apt knows what there is: a fresh container has no lists.
have_package_lists() {
    [ -n "$(find /var/lib/apt/lists -name '*_Packages*' -print -quit)" ]
}

# The package that a distribution lacks stays missing: without it nobody is asked for root.
install_missing() {
    local required optional
    # shellcheck disable=SC2046,SC2086 # lists of words
    required=$(missing_packages $build_packages $([ "$1" = tests ] && echo $test_packages))
    # shellcheck disable=SC2046,SC2086
    optional=$(missing_packages $([ "$1" = tests ] && echo $optional_packages))
    # shellcheck disable=SC2086 # lists of words, here and below
    [ -n "$required" ] || ! have_package_lists || optional=$(available_packages $optional)
    [ -n "$required$optional" ] || return 0
    if ! as_root true; then
        [ -n "$required" ] || {
            say "installing needs root; what needs these packages will be skipped: $optional"
            return 0
        }
        die "installing needs root; run this as root first:
    apt-get update && apt-get install --no-install-recommends $required" "$(available_packages $optional)"
    fi
    apt_update || die "apt-get update failed; see its messages above"
    # shellcheck disable=SC2086
    optional=$(available_packages $optional)
    [ -n "$required$optional" ] || return 0
    say "installing: $required$optional"
    # shellcheck disable=SC2086
    apt_get install --no-install-recommends $required $optional ||
        die "apt-get install failed; see its messages above"
}

# install_packages build|tests: what is missing of the packages to build (and to test).
install_packages() {
    if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
        say "this machine has no apt-get (Debian 12 and Ubuntu 24.04 have); please install yourself:"
        # shellcheck disable=SC2046,SC2086
        echo $build_packages $([ "$1" = tests ] && echo $test_packages $optional_packages)
        return 1
    fi
    if ! command -v flock >/dev/null; then
        install_missing "$1"
    else
        with_lock install install_missing "$1"
    fi
}

# Fetches tests/requirements.txt into .cache/python, beside the distribution's own packages.
fetch_python_packages() {
    local to="$locks/python" list="$root/tests/requirements.txt" python stamp
    stamp=$(sha256sum <"$list")
    [ "$(cat "$to/stamp" 2>/dev/null)" = "$stamp" ] && [ -x "$to/bin/python" ] && return 0
    python=$(command -v /usr/bin/python3 || command -v python3) || return 0
    say "fetching the packages of tests/requirements.txt from PyPI"
    rm -rf "$to"
    if "$python" -m venv --system-site-packages "$to" >"$locks/python.log" 2>&1 &&
        "$to/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
            --retries 1 --timeout 15 -r "$list" >>"$locks/python.log" 2>&1; then
        printf '%s\n' "$stamp" >"$to/stamp"
    else
        rm -rf "$to"
        say "that failed, so the tests that need them will be skipped: $(tail -n 1 "$locks/python.log")"
    fi
}

# python_packages: what the tests use from PyPI, once for each version of the list.
python_packages() {
    if command -v flock >/dev/null; then
        with_lock python fetch_python_packages
    else
        mkdir -p "$locks" && fetch_python_packages
    fi
}

configure_and_build() {
    local dir=$1 setup=$2
    shift 2
    if [ ! -f "$dir/build.ninja" ]; then
        # shellcheck disable=SC2086 # options are words
        meson setup $setup "$dir" "$root" || return 1
    fi
    # A step that fails to compile must not hide in a log: ninja prints the command and the error.
    ninja -C "$dir" "$@"
}

# build DIR "MESON OPTIONS" [TARGET...]: configures once, then builds the targets (default all).
build() {
    with_lock "$(basename "$1")" configure_and_build "$@" || die "the build in $1 failed"
}
