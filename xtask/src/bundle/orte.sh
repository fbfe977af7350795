# Open MPI refuses to start even ranks of this host where it finds no ssh to reach others with.
if ! command -v ssh >/dev/null && ! command -v rsh >/dev/null; then
    OMPI_MCA_plm_rsh_agent=${OMPI_MCA_plm_rsh_agent:-$here/etc/no-ssh}
    export OMPI_MCA_plm_rsh_agent
fi

