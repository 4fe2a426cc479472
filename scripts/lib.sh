# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# What scripts/demo, build, test and bench share: the packages the build needs, the build itself, and the private
# Python environments that real jobs run in. Sourced; progress goes to stderr, results to stdout.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/vramshim

# What is needed: Debian's package, and how to see that it is there (a command, a pkg-config name, a library that the
# recorder opens in the job), so that a machine which got it in another way is as good.
packages=(
	'gcc command:cc'
	'pkg-config command:pkg-config'
	'meson command:meson'
	'ninja-build command:ninja'
	'libcmocka-dev module:cmocka'
	'libunwind8 library:libunwind.so.8'
	'libelf-dev module:libelf'
	'libjansson-dev module:jansson'
)

say()
{
	printf '%s\n' "${0##*/}: $*" >&2
}

die()
{
	say "$@"
	exit 1
}

# missing_packages: the names of those that are not there, on one line.
missing_packages()
{
	local row package probe names=()

	for row in "${packages[@]}"; do
		read -r package probe <<<"$row"
		case $probe in
		command:*) command -v "${probe#*:}" >/dev/null || names+=("$package") ;;
		module:*) pkg-config --exists "${probe#*:}" 2>/dev/null || names+=("$package") ;;
		# All of it is read: under pipefail, ldconfig killed by SIGPIPE would count as an absence.
		library:*) PATH=$PATH:/sbin ldconfig -p | grep -F "${probe#*:} " >/dev/null || names+=("$package") ;;
		esac
	done
	echo "${names[*]}"
}

# missing_python: python3-venv where the interpreter cannot make an environment (Debian ships that apart).
missing_python()
{
	command -v "$(python)" >/dev/null || { echo python3 python3-venv; return; }
	"$(python)" -c 'import venv, ensurepip' 2>/dev/null || echo python3-venv
}

python()
{
	echo "${PYTHON:-python3}"
}

# install_packages NAME...: by apt, as root or where sudo asks no password; otherwise says what to install and ends.
install_packages()
{
	local as=()

	(($#)) || return 0
	command -v apt-get >/dev/null || die "missing: $* (Debian's names): install them and run this again"
	if ((EUID)); then
		sudo -n true 2>/dev/null || die "missing packages: run 'apt-get install $*' as root, then this again"
		as=(sudo -n)
	fi
	say "installing $*"
	"${as[@]}" apt-get update -qq >&2
	"${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

# prepare: everything the build and the Python environments need from the system.
prepare()
{
	local names

	read -ra names <<<"$(missing_packages) $(missing_python)"
	install_packages "${names[@]}"
}

targets=() # of build_into; none: all

# build_into FOLDER [MESON OPTION...]: configures it once, builds its `targets`,
# prints nothing but errors.
build_into()
{
	local folder=$1 log
	shift

	log=$(mktemp)
	if [[ ! -f $folder/build.ninja ]]; then
		meson setup "$folder" "$root" "$@" >"$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; return 1; }
	fi
	ninja -C "$folder" ${targets[@]+"${targets[@]}"} >"$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; return 1; }
	rm -f "$log"
}

# python_env TORCH: the interpreter of an environment with that PyTorch.
python_env()
{
	[[ -f $root/scripts/requirements/torch-$1.txt ]] ||
		die "PyTorch $1: there are those of $(cd "$root/scripts/requirements" && echo torch-*.txt)"
	environment "torch-$1" "PyTorch $1" 'about 5 GB, some minutes, once'
}

# jax_env: the interpreter of an environment with JAX.
jax_env()
{
	environment jax-0.10.2 'JAX 0.10.2' 'about 1.2 GB, some minutes, once'
}

# environment NAME WHAT COST: the interpreter of the environment scripts/requirements/NAME.txt describes, made where it
# is missing, incomplete or of other versions. It grows under another name and is renamed when whole; the stamp, the
# hash of its requirements, is written last; a lock keeps two runs from making it at once.
environment()
{
	local requirements=$root/scripts/requirements/$1.txt what=$2 cost=$3 version name folder partial hash

	version=$("$(python)" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
	case $version in
	3.11 | 3.12 | 3.13 | 3.14) ;;
	*) die "Python $version: the tests' packages need 3.11 to 3.14: set PYTHON=/path/to/python3.11" ;;
	esac
	name=python$version-$1
	folder=$cache/$name
	partial=$cache/partial-$name
	hash=$(sha256sum <"$requirements" | cut -d' ' -f1)
	mkdir -p "$cache"
	(
		flock 9
		if env_complete "$folder" "$hash" "$requirements"; then
			exit 0
		fi
		say "installing $what into $folder ($cost)"
		make_env "$partial" "$folder" "$requirements" && echo "$hash" >"$partial/complete" &&
			rm -rf "$folder" && mv "$partial" "$folder"
	) 9>"$cache/lock-$name" || die "the environment $folder could not be made: see above, then run this again"
	echo "$folder/bin/python"
}

# zoo_env: the interpreter of an environment with PyTorch 2.15.0's packages, unchanged, and those of
# scripts/requirements/zoo-2.15.0.txt beside them.
zoo_env()
{
	local base requirements folder hash site

	base=$(python_env 2.15.0) || return 1
	requirements=$root/scripts/requirements/zoo-2.15.0.txt
	folder=${base%/bin/python}-zoo
	hash=$(sha256sum <"$requirements" | cut -d' ' -f1)
	(
		flock 9
		[[ $(cat "$folder/complete" 2>/dev/null) != "$hash" ]] || exit 0
		say "installing the zoo's packages into $folder"
		rm -rf "$folder" && "$base" -m venv "$folder" &&
			site=$("$base" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') &&
			echo "$site" >"$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/_base.pth" &&
			# DeepSpeed is a source package: none of its CUDA operators are built.
			DS_BUILD_OPS=0 "$folder/bin/python" -m pip install --disable-pip-version-check --no-compile --no-deps \
				--no-build-isolation -r "$requirements" >&2 &&
			echo "$hash" >"$folder/complete"
	) 9>"$folder.lock" || { say "the environment $folder could not be made: see above, then run this again"; return 1; }
	echo "$folder/bin/python"
}

# make_env PARTIAL FOLDER REQUIREMENTS: at PARTIAL, to be renamed to FOLDER. Chained by &&: errexit is off in here,
# the caller tests the outcome.
make_env()
{
	local partial=$1 folder=$2 requirements=$3

	rm -rf "$partial" && "$(python)" -m venv "$partial" &&
		"$partial/bin/python" -m pip install --disable-pip-version-check --no-compile --no-deps \
			-r "$requirements" >&2 &&
		# Scripts and activate name the folder they were made in.
		grep -rlIF "$partial" "$partial/bin" "$partial/pyvenv.cfg" | xargs sed -i "s|$partial|$folder|g"
}

# env_complete FOLDER HASH REQUIREMENTS: whole and of these versions. One without a stamp (made by hand) counts, and
# gets its stamp, when it holds every package at the version asked for.
env_complete()
{
	local folder=$1 hash=$2 requirements=$3

	[[ -x $folder/bin/python ]] && "$folder/bin/python" -c '' 2>/dev/null || return 1
	[[ $(cat "$folder/complete" 2>/dev/null) != "$hash" ]] || return 0
	"$folder/bin/python" - "$requirements" <<-'END' || return 1
		import importlib.metadata as metadata, sys
		for line in open(sys.argv[1]):
		    name, _, version = line.split("#")[0].strip().partition("==")
		    if name and name != "setuptools":  # the interpreter brings one of its own
		        try:
		            found = metadata.version(name)
		        except metadata.PackageNotFoundError:
		            sys.exit(1)
		        if found != version:
		            sys.exit(1)
	END
	echo "$hash" >"$folder/complete"
}
