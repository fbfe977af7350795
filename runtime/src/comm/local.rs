//! One rank, no MPI.

use std::sync::Arc;

use isochron_devices::internal::HomeProcess;

use super::contract::{Comm, InFlight, MessageSpan, check_rank};
use crate::error::Error;

/// The communicator of a single rank: collectives return at once.
#[derive(Debug)]
pub struct LocalComm {
    host: String,
    home: HomeProcess,
}

impl LocalComm {
    /// Creates the one rank of this process.
    pub fn new() -> Self {
        Self { host: find_host_name(), home: HomeProcess::current() }
    }
}

/// Returns the name that this host gives itself.
pub(super) fn find_host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| "localhost".to_string(), |name| name.trim().to_string())
}

impl LocalComm {
    /// Checks that this process has made the communicator.
    fn check_process(&self) -> Result<(), Error> {
        Ok(self.home.check("communicator")?)
    }
}

impl Default for LocalComm {
    fn default() -> Self {
        Self::new()
    }
}

impl From<LocalComm> for Arc<dyn Comm> {
    fn from(comm: LocalComm) -> Self {
        Arc::new(comm)
    }
}

impl Comm for LocalComm {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn host(&self) -> &str {
        &self.host
    }

    fn implementation(&self) -> &str {
        "none (one process)"
    }

    fn barrier(&self) -> Result<(), Error> {
        self.check_process()
    }

    fn broadcast(&self, root: usize, _data: &mut Vec<u8>) -> Result<(), Error> {
        self.check_process()?;
        check_rank("root", root, self.size())
    }

    fn all_gather(&self, data: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.check_process()?;
        Ok(vec![data.to_vec()])
    }

    fn sum_f64(&self, _values: &mut [f64]) -> Result<(), Error> {
        self.check_process()
    }

    fn sum_u64(&self, _values: &mut [u64]) -> Result<(), Error> {
        self.check_process()
    }

    fn split(&self, number: Option<usize>) -> Result<Option<Arc<dyn Comm>>, Error> {
        self.check_process()?;
        Ok(number.map(|_| Self::new().into()))
    }

    #[allow(unsafe_code, reason = "the caller keeps the contract; there is no message")]
    unsafe fn start(
        &self,
        sends: &[MessageSpan],
        recvs: &[MessageSpan],
    ) -> Result<Box<dyn InFlight + '_>, Error> {
        self.check_process()?;
        match sends.first().or(recvs.first()) {
            None => Ok(Box::new(NoMessages)),
            Some(span) => {
                let reason = "a single rank has no other rank to exchange messages with";
                Err(Error::parameter("rank", span.rank, reason))
            }
        }
    }
}

/// No message under way.
pub(super) struct NoMessages;

impl InFlight for NoMessages {
    fn progress(&mut self) -> Result<bool, Error> {
        Ok(true)
    }
}
