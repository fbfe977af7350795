# Sourced by the programs beside it, which set $here to the folder of the bundle.
#
# Everything comes from the bundle but the C library: the host's own is used unless it is older than the one
# that the bundle was built with, or there is none.

built_with=@GLIBC@
loader=@LOADER@

LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
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
export LD_LIBRARY_PATH OPAL_PREFIX OPAL_BINDIR OPAL_LIBDIR OPAL_PKGLIBDIR OPAL_DATADIR OPAL_PKGDATADIR \
    OPAL_SYSCONFDIR PMIX_PREFIX PMIX_LIBDIR PMIX_PKGLIBDIR

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
    if host_is_new_enough; then
        exec "$program" "$@"
    fi
    exec "$here/lib/glibc/$loader" --library-path "$here/lib/glibc:$LD_LIBRARY_PATH" "$program" "$@"
}
