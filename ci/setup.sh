# Sourced by the commands beside it: installs what is missing, configures and builds. Says what it does, in a few lines.
#
#   JOBS              parallel compilations (default: all cores)
#   PLUMBLINE_TORCH   OFF builds all that needs no LibTorch
#   BUILD             build folder (default: build)
set -euo pipefail
case ${1-} in
  --help | -h)
    sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."
JOBS=${JOBS:-$(nproc)}
BUILD=${BUILD:-build}
PLUMBLINE_TORCH=${PLUMBLINE_TORCH:-AUTO}
TORCH_PIN=2.13.0
WEAVER=(tree-sitter==0.26.1 tree-sitter-cpp==0.23.4 "tomli; python_version<'3.11'")
weaver=()  # how CMake is told of a Python that has them
started=$SECONDS

say() { printf '[%3ds] %s\n' $((SECONDS - started)) "$*"; }
die() { printf 'plumbline: %s\n' "$1" >&2; exit "${2:-3}"; }

case $JOBS in *[!0-9]* | '' | 0) die "JOBS='$JOBS' is not a whole number from 1 on" 2 ;; esac
case $PLUMBLINE_TORCH in AUTO | ON | OFF) ;; *) die "PLUMBLINE_TORCH='$PLUMBLINE_TORCH'; it is AUTO, ON or OFF" 2 ;; esac

# Runs a command, shows its output only when it fails.
quietly() {
  local log
  log=$(mktemp)
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    rm -f "$log"
    die "this failed: $*"
  fi
  rm -f "$log"
}

packages=(cmake ninja-build ccache mold pkg-config libopenmpi-dev openmpi-bin prometheus-cpp-dev libgtest-dev libgmock-dev
  libbenchmark-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libfmt-dev)

# Installs those of the packages that are missing.
install_packages() {
  command -v dpkg-query >/dev/null || { say 'no dpkg here: what is missing will show when configuring'; return; }
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then return; fi
  local root=()
  if ((EUID != 0)); then
    sudo -n true 2>/dev/null || die "these packages are missing, and only root can install them: apt-get install ${missing[*]}"
    root=(sudo -n)
  fi
  say "installing ${#missing[@]} packages: ${missing[*]}"
  quietly "${root[@]}" apt-get update -qq
  quietly "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

configure() {
  quietly cmake -S . -B "$BUILD" -G Ninja "-DPLUMBLINE_TORCH=$PLUMBLINE_TORCH" "${weaver[@]}" "$@"
}

make_venv() {
  .venv/bin/python -m pip --version >/dev/null 2>&1 && return
  python3 -m venv .venv 2>/dev/null || { install_packages python3-venv && quietly python3 -m venv .venv; }
}

# What weaves mutants into the sources that they edit (harness/weave).
install_weaver() {
  local weave=harness/weave/weave.py
  python3 -B $weave --check 2>/dev/null && return
  make_venv
  weaver=("-DPLUMBLINE_WEAVE_PYTHON=$PWD/.venv/bin/python")
  .venv/bin/python -B $weave --check 2>/dev/null && return
  say "installing ${WEAVER[*]} into .venv"
  quietly .venv/bin/python -m pip install --quiet "${WEAVER[@]}"
}

# The user's own LibTorch comes first, then the project's environment, which is made where CMake finds no other.
configure_with_torch() {
  say 'configuring'
  configure "$@"
  [[ $PLUMBLINE_TORCH == AUTO ]] && ! grep -q '^PLUMBLINE_FOUND_TORCH:INTERNAL=TRUE' "$BUILD/CMakeCache.txt" || return 0
  say "no LibTorch here: installing torch==$TORCH_PIN into .venv"
  make_venv
  quietly .venv/bin/python -m pip install --quiet "torch==$TORCH_PIN" numpy
  say 'configuring again'
  configure "$@"
}

# Of ninja's lines "[edges done/edges]": one whenever another tenth is done. All of them go to the file.
tenths_of_build() {
  local line done_tenths=0
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$1"
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    ((BASH_REMATCH[1] * 10 / BASH_REMATCH[2] > done_tenths)) || continue
    done_tenths=$((BASH_REMATCH[1] * 10 / BASH_REMATCH[2]))
    say "  ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]} steps"
  done
}

build() {
  configure_with_torch "$@"
  say "building with $JOBS jobs"
  if [[ -t 1 ]]; then
    cmake --build "$BUILD" --parallel "$JOBS" || die 'the build failed'
  else
    local log
    log=$(mktemp)
    if ! NINJA_STATUS='[%f/%t] ' cmake --build "$BUILD" --parallel "$JOBS" 2>&1 | tenths_of_build "$log"; then
      tail -n 40 "$log" >&2
      rm -f "$log"
      die 'the build failed'
    fi
    rm -f "$log"
  fi
  say 'built'
}

prepare() {
  install_packages "${packages[@]}"
  case $* in *-DPLUMBLINE_TESTS=ON*) install_weaver ;; esac
  build "$@"
}
