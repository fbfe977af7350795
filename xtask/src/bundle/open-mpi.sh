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

