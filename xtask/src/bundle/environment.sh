# Sourced by the programs beside it, which set $here to the folder of the bundle.
#
# Everything comes from the bundle but the C library: the host's own is used unless it is older than the one
# that the bundle was built with, or there is none. The loader is told where the libraries are, and not the
# environment: what the programs start of the host's own, such as ssh, is to have the host's libraries.

built_with=@GLIBC@
loader=@LOADER@

# hwloc would load plugins of the host's own hwloc, which are of another version.
HWLOC_PLUGINS_PATH=$here/lib/hwloc
export HWLOC_PLUGINS_PATH

# The program is started by a script of this folder, and the system would name the loader.
ISOCHRON_BUNDLE=$here
export ISOCHRON_BUNDLE

@MPI@
# Whether the host's C library is as new as the bundle's.
host_is_new_enough() {
    host=$(getconf GNU_LIBC_VERSION 2>/dev/null) || host=
    host=${host#glibc }
    case $host in
        [0-9]*.[0-9]*) ;;
        *) host=; return 1 ;;
    esac
    [ "${host%%.*}" -gt "${built_with%%.*}" ] && return 0
    [ "${host%%.*}" -eq "${built_with%%.*}" ] && [ "${host#*.}" -ge "${built_with#*.}" ]
}

# Says once for all ranks of a host, and not for the programs that start them, whose C library is used.
tell_whose() {
    case $1 in orted | prted | prterun | hydra/hydra_pmi_proxy) return ;; esac
    [ -n "$ISOCHRON_BUNDLE_TOLD" ] && return
    ISOCHRON_BUNDLE_TOLD=1
    export ISOCHRON_BUNDLE_TOLD
    if [ -n "$host" ]; then
        whose="the C library of this host, $host, is older than $built_with"
    else
        whose="this host has no GNU C library"
    fi
    echo "isochron: $whose: the bundle's own is used" >&2
}

# Becomes a program of the bundle.
become() {
    name=$1
    program=$here/libexec/$1
    shift
    # CUDA's installers put libraries where a loader need not look.
    cuda=${CUDA_HOME:-/usr/local/cuda}/lib64:/usr/local/nvidia/lib64
    path=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}:$cuda
    if host_is_new_enough; then
        for folder in /lib64 /lib /usr/lib64 /usr/lib; do
            if [ -x "$folder/$loader" ]; then
                exec "$folder/$loader" --library-path "$path" "$program" "$@"
            fi
        done
    else
        tell_whose "$name"
    fi
    exec "$here/lib/glibc/$loader" --library-path "$here/lib/glibc:$path" "$program" "$@"
}
