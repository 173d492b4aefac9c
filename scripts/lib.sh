# shellcheck shell=bash
# The set-up that scripts/run, scripts/test and scripts/check share. Sourced, never run.
#
# stdin and stdout may be an MCP client's pipes: the set-up reads nothing and says everything on stderr.

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv

say() { printf 'tmuxmcp: %s\n' "$*" >&2; }

die() {
    say "$@"
    exit 1
}

# --- what the system has ---------------------------------------------------------------------------------------------

# need_commands COMMAND:PACKAGE...: install what is missing where apt or Homebrew can. tmux is a must, the rest is said.
need_commands() {
    local missing
    missing=$(packages_missing "$@")
    if [[ -n $missing ]]; then
        # shellcheck disable=SC2086 # a list of words
        apt_install $missing || brew_install $missing || say "missing, please install:$missing$(brew_hint "$missing")"
        [[ -z $(packages_missing tmux:tmux) ]] || exit 1
        missing=$(packages_missing "$@")
        [[ -z $missing ]] || say "going on without$missing: tests that need them cannot pass"
    fi
    check_tmux_version
} </dev/null >&2

packages_missing() { # COMMAND:PACKAGE...
    local pair
    for pair; do
        # sshd lives where an ordinary user's PATH does not look.
        PATH=$PATH:/usr/sbin:/sbin type -P "${pair%%:*}" >/dev/null || printf ' %s' "${pair##*:}"
    done
}

check_tmux_version() {
    local version
    version=$(tmux -V) || die "tmux -V failed"
    # A development build ("tmux master") has no number and counts as new.
    [[ $version =~ ([0-9]+)\.([0-9]+) ]] || return 0
    ((BASH_REMATCH[1] * 100 + BASH_REMATCH[2] >= 302)) || die "tmux 3.2 or newer is needed, this is: $version"
}

brew_hint() { # PACKAGES
    [[ $OSTYPE != darwin* ]] || printf '%s' " (brew install$1)"
}

# brew_install PACKAGE...: false where Homebrew is not there, or where it fails.
brew_install() {
    command -v brew >/dev/null || return 1
    say "installing with brew: $*"
    HOMEBREW_NO_AUTO_UPDATE=1 brew install --quiet "$@"
}

# apt_install PACKAGE...: false where apt or the right to use it is not there, or where it fails.
apt_install() {
    command -v apt-get >/dev/null || return 1
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300)
    if ((EUID != 0)); then
        sudo -n true 2>/dev/null || return 1
        apt=(sudo -n "${apt[@]}")
    fi
    say "installing with apt: $*"
    [[ " $* " != *" openssh-server "* ]] || say "note: Debian starts an SSH server with openssh-server; the tests run their own"
    (
        # Of several at once, one: apt waits for its turn to install, but not to refresh its lists.
        ! command -v flock >/dev/null || flock 8
        install() { "${apt[@]}" install -y --no-install-recommends "$@" 8<&-; } # what it starts may stay
        # The package lists are often fresh enough, and always missing in a new container.
        install "$@" || {
            say "refreshing apt's package lists"
            "${apt[@]}" update 8<&- && install "$@"
        }
    ) 8<"$root/requirements"
}

# Where a Debian gets its own packages from.
debian_mirror() {
    sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | grep -m 1 . ||
        sed -n 's/^deb \(\[.*\] \)\?\([^ ]*\) .*/\2/p' /etc/apt/sources.list 2>/dev/null | grep -m 1 .
}

find_python() {
    local name
    for name in python3.14 python3.13 python3.12 python3.11 python3; do
        # A name can exist and lead nowhere (version managers), so it is asked rather than believed.
        "$name" -I -c 'import sys; sys.version_info >= (3, 11) or sys.exit(1); print(sys.executable)' && return
    done 2>/dev/null
    return 1
}

# --- .venv -----------------------------------------------------------------------------------------------------------

# need_venv run|test: .venv with the packages of requirements/KIND.txt. Costs milliseconds when it is up to date.
need_venv() {
    is_ready "$1" || (
        # Clients may start several of us at once; the lock is on an open file, so no crash can leave it locked.
        if command -v flock >/dev/null && ! flock -n 9; then
            say "waiting for another set-up of this checkout"
            flock 9
        fi
        is_ready "$1" || make_ready "$1"
    ) 9<"$root/pyproject.toml"
} </dev/null >&2

fingerprint() {
    cd "$root" && cksum pyproject.toml requirements/{run,test}.txt && pwd -P
}

is_ready() { # run|test
    [[ -x $venv/bin/python && -f $venv/.ready-$1 && $(<"$venv/.ready-$1") == "$(fingerprint)" ]]
}

make_ready() { # run|test
    local python
    # A checkout that was moved or copied has programs in .venv that name the old place.
    if [[ -e $venv ]] && ! { [[ -x $venv/bin/python ]] && grep -qF "$venv" "$venv/bin/activate"; }; then
        rm -rf "$venv"
    fi
    rm -f "$venv"/.ready-*
    if ! python=$(find_python); then
        apt_install python3 python3-venv || brew_install python3 || true
        python=$(find_python) || die "Python 3.11 or newer is needed: install python3 and python3-venv"
    fi
    say "setting up .venv for $1 with $("$python" -V) (once; about a minute)"
    # uv does not read pip's settings (mirrors, certificates): where it gets nowhere, pip has its turn.
    if ! { command -v uv >/dev/null && install_with_uv "$1" "$python"; }; then
        install_with_pip "$1" "$python" || die "the packages of requirements/$1.txt could not be installed"
    fi
    # Where the environment says PYTHONDONTWRITEBYTECODE, each start would compile 200 files: half of its time.
    "$venv/bin/python" -m compileall -q "$root/tmuxmcp" || say "going on without compiled modules: each start takes longer"
    fingerprint >"$venv/.ready-run"
    [[ $1 == run ]] || fingerprint >"$venv/.ready-$1" # test.txt holds all of run.txt
}

# Both install the pinned files first, then this checkout with the pinned build backend and nothing from outside.

install_with_uv() { # run|test PYTHON
    if [[ ! -x $venv/bin/python ]]; then
        uv venv --quiet --python "$2" "$venv" || return
    fi
    local install=(uv pip install --quiet --python "$venv/bin/python")
    "${install[@]}" --require-hashes -r "$root/requirements/$1.txt" &&
        "${install[@]}" --no-deps --no-build-isolation -e "$root"
}

install_with_pip() { # run|test PYTHON
    if ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
        rm -rf "$venv"
        need_ensurepip "$2"
        "$2" -m venv "$venv" || return
    fi
    local install=("$venv/bin/python" -m pip --no-input --disable-pip-version-check install --progress-bar off)
    "${install[@]}" --require-hashes -r "$root/requirements/$1.txt" | say_progress "$(grep -c == "$root/requirements/$1.txt")" &&
        "${install[@]}" --quiet --no-deps --no-build-isolation -e "$root"
}

# say_progress PACKAGES: reads what pip says; one line that changes at a terminal, else a line now and then.
say_progress() {
    local line done=0 name
    while read -r line; do
        [[ $line == Collecting* ]] || continue
        done=$((done + 1)) name=${line#Collecting } name=${name%%[=<> ]*}
        if [[ -t 2 ]]; then
            printf '\r\e[Ktmuxmcp: package %d of %d: %s' "$done" "$1" "$name" >&2
        elif ((done % 20 == 0)); then
            say "package $done of $1: $name"
        fi
    done
    [[ ! -t 2 ]] || printf '\r\e[K' >&2
    ((done == 0)) || say "installing $done packages"
}

need_ensurepip() { # PYTHON
    local package
    # Debian and Ubuntu ship it apart from Python itself.
    "$1" -c 'import ensurepip' 2>/dev/null && return
    package=$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    apt_install "$package"
    "$1" -c 'import ensurepip' 2>/dev/null || die "$1 cannot make environments: install $package (or uv)"
}
