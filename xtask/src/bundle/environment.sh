# Sourced by the programs beside it, which set $here to the folder of the bundle.
#
# Everything comes from the bundle but the C library: the host's own is used unless it is older than the one
# that the bundle was built with, or there is none. The loader is told where the libraries are, and not the
# environment: what the programs start of the host's own, such as ssh, is to have the host's libraries.

built_with=@GLIBC@
loader=@LOADER@

# Open MPI and PMIx look for their parts here instead of where they were installed.
OPAL_PREFIX=$here
OPAL_BINDIR=$here/bin
OPAL_LIBDIR=$here/lib
OPAL_PKGLIBDIR=$here/lib/openmpi
OPAL_DATADIR=$here/share
OPAL_PKGDATADIR=$here/share/openmpi
OPAL_SYSCONFDIR=$here/etc
PMIX_PREFIX=$here
PMIX_LIBDIR=$here/lib
PMIX_PKGLIBDIR=$here/lib/pmix
export OPAL_PREFIX OPAL_BINDIR OPAL_LIBDIR OPAL_PKGLIBDIR OPAL_DATADIR OPAL_PKGDATADIR \
    OPAL_SYSCONFDIR PMIX_PREFIX PMIX_LIBDIR PMIX_PKGLIBDIR

# Open MPI refuses to start even ranks of this host where it finds no ssh to reach others with.
if ! command -v ssh >/dev/null && ! command -v rsh >/dev/null; then
    OMPI_MCA_plm_rsh_agent=${OMPI_MCA_plm_rsh_agent:-$here/etc/no-ssh}
    export OMPI_MCA_plm_rsh_agent
fi

# Whether the host's C library is as new as the bundle's.
host_is_new_enough() {
    host=$(getconf GNU_LIBC_VERSION 2>/dev/null) || return 1
    host=${host#glibc }
    [ "${host%%.*}" -gt "${built_with%%.*}" ] && return 0
    [ "${host%%.*}" -eq "${built_with%%.*}" ] && [ "${host#*.}" -ge "${built_with#*.}" ]
}

# Becomes a program of the bundle.
become() {
    program=$here/libexec/$1
    shift
    path=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    if host_is_new_enough; then
        for folder in /lib64 /lib /usr/lib64 /usr/lib; do
            if [ -x "$folder/$loader" ]; then
                exec "$folder/$loader" --library-path "$path" "$program" "$@"
            fi
        done
    fi
    exec "$here/lib/glibc/$loader" --library-path "$here/lib/glibc:$path" "$program" "$@"
}
