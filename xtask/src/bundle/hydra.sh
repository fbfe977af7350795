# Libraries of fast networks look for their plugins here instead of where they were installed.
if [ -d "$here/lib/libfabric" ]; then
    FI_PROVIDER_PATH=$here/lib/libfabric
    export FI_PROVIDER_PATH
fi

