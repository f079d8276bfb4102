#!/usr/bin/env bash
# Installs Debian packages that a target of the Makefile needs, where this user is root and agrees.
#
#   hack/debian_package.sh WHAT PROGRAM PACKAGE...   installs the packages; WHAT needs PROGRAM, as a message says
#   hack/debian_package.sh --consent PROGRAM...      prints yes or no: whether that may be done while suites run unseen
#
# EDGEWRIGHT_APT=yes or =no says so beforehand. Without it a build machine (CI is set, or there is no terminal to ask at)
# means yes, and somebody at a terminal is asked.
set -euo pipefail

can_install() { test "$(id -u)" = 0 && command -v apt-get >/dev/null; }

# Whether packages may be installed; $1 is the question.
agreed() {
    case "${EDGEWRIGHT_APT:-}" in
        yes) return 0 ;;
        no) return 1 ;;
    esac
    if test -n "${CI:-}" || ! test -t 0; then return 0; fi
    local answer=
    read -r -p "$1 [y/N] " answer || true
    [[ "$answer" =~ ^[Yy] ]]
}

if test "${1:-}" = --consent; then
    shift
    for program in "$@"; do
        command -v "$program" >/dev/null && continue
        if can_install && agreed "make: $program and perhaps more is needed: install Debian packages with apt-get?"; then
            echo yes
        else
            echo no
        fi
        exit 0
    done
    echo no
    exit 0
fi

what=$1 program=$2
shift 2
if ! can_install; then
    echo "make $what: $program is needed: install it (on Debian and Ubuntu: apt-get install $*)" >&2
    exit 1
fi
if ! agreed "make $what: $program is needed: install $* with apt-get?"; then
    echo "make $what: $program is needed: apt-get install $*, or let make do that with EDGEWRIGHT_APT=yes" >&2
    exit 1
fi
echo "$what: installing $*"
export DEBIAN_FRONTEND=noninteractive
install=(apt-get install --yes --quiet=2 --no-install-recommends -o DPkg::Lock::Timeout=600)
"${install[@]}" "$@" >/dev/null </dev/null || { apt-get update --quiet=2 && "${install[@]}" "$@" >/dev/null </dev/null; }
