#!/bin/sh
# Brings one peer of the benchmarks to this machine:  sh get.sh postgis | flink | tile38  [CACHE]
# postgis: packages of the system, as root. flink: PyFlink from PyPI in an environment of its own below CACHE, since it
# pins other versions than stqsh. tile38: built from its source by the go command, into CACHE/bin. pyspark is here.
set -eu
peer=${1:?which peer: postgis, flink or tile38}
cache=${2:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/stqsh/peers}
mkdir -p "$cache"

need() { command -v "$1" >/dev/null || { echo "$peer needs $1: $2" >&2; exit 1; }; }

case $peer in
  pyspark*) ;;
  postgis)
    need apt-get "install PostgreSQL and PostGIS with this system's own packages"
    [ "$(id -u)" = 0 ] || { echo "postgis: packages are installed by root: run this script with sudo" >&2; exit 1; }
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    version=$(apt-cache depends postgresql | sed -n 's/.*Depends: postgresql-\([0-9][0-9]*\)$/\1/p' | head -n 1)
    apt-get install -y -qq --no-install-recommends "postgresql-$version" "postgresql-$version-postgis-3"
    ;;
  flink)
    # A Python that PyFlink has wheels for, with pip's word on it: the newest first.
    for python in ${PYTHON:-python3.12 python3.11 python3.10 python3}; do
      command -v "$python" >/dev/null && "$python" -c 'import venv' 2>/dev/null || continue
      rm -rf "$cache/flink"
      "$python" -m venv "$cache/flink" || continue
      "$cache/flink/bin/python" -m pip install --quiet --disable-pip-version-check apache-flink shapely && exit 0
    done
    rm -rf "$cache/flink"
    echo "flink: no Python here can install apache-flink; name one with PYTHON=..." >&2
    exit 1
    ;;
  tile38)
    need go "the Go toolchain builds it"
    GOBIN="$cache/bin" go install github.com/tidwall/tile38/cmd/tile38-server@latest
    ;;
  *) echo "there is no peer $peer: postgis, flink or tile38" >&2; exit 2 ;;
esac
