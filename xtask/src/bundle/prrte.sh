# PRRTE, which starts the ranks of Open MPI 5, does so too.
PRTE_PREFIX=$here
PRTE_BINDIR=$here/bin
PRTE_LIBDIR=$here/lib
PRTE_PKGLIBDIR=$here/lib/prte
PRTE_DATADIR=$here/share
PRTE_PKGDATADIR=$here/share/prte
PRTE_SYSCONFDIR=$here/etc
PMIX_DATADIR=$here/share
PMIX_PKGDATADIR=$here/share/pmix
PMIX_SYSCONFDIR=$here/etc
OMPI_PRTERUN=$here/bin/prterun
export PRTE_PREFIX PRTE_BINDIR PRTE_LIBDIR PRTE_PKGLIBDIR PRTE_DATADIR PRTE_PKGDATADIR PRTE_SYSCONFDIR \
    PMIX_DATADIR PMIX_PKGDATADIR PMIX_SYSCONFDIR OMPI_PRTERUN

# It refuses to start even ranks of this host where it finds no ssh to reach others with.
if ! command -v ssh >/dev/null && ! command -v rsh >/dev/null; then
    PRTE_MCA_plm_ssh_agent=${PRTE_MCA_plm_ssh_agent:-$here/etc/no-ssh}
    export PRTE_MCA_plm_ssh_agent
fi

