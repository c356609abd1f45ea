//! Small text files of the kernel, below a root that tests can choose.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::TopologyError;
use crate::lanes::CpuSet;
use crate::limits::MACHINE_FILE_BYTES_MAX;

/// A root directory with `/sys` and `/proc` below it. A file that is not there is `None`: kernels differ in what they
/// tell. One that cannot be read, or that reads like nothing the kernel writes, is an error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree<'a> {
    root: &'a Path,
}

impl<'a> Tree<'a> {
    pub(super) fn new(root: &'a Path) -> Self {
        Self { root }
    }

    /// Where `file` is, which may begin with a slash and stays below the root all the same.
    pub(super) fn path(self, file: &str) -> PathBuf {
        self.root.join(file.trim_start_matches('/'))
    }

    /// All of `file`, without what is not UTF-8.
    pub(super) fn text(self, file: &str) -> Result<Option<String>, TopologyError> {
        let path = self.path(file);
        let mut bytes = Vec::new();
        match File::open(&path).and_then(|file| file.take(MACHINE_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)) {
            Ok(_) if bytes.len() as u64 > MACHINE_FILE_BYTES_MAX => {
                Err(TopologyError::TooLarge { path, max: MACHINE_FILE_BYTES_MAX })
            }
            Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(TopologyError::Unreadable { path, kind: error.kind() }),
        }
    }

    /// A list such as `0-3,8`, of CPUs or of memory nodes.
    pub(super) fn list(self, file: &str) -> Result<Option<CpuSet>, TopologyError> {
        self.parsed(file, "a list of numbers such as 0-3,8", |text| text.parse().ok())
    }

    /// A number in decimal.
    pub(super) fn number(self, file: &str) -> Result<Option<i64>, TopologyError> {
        self.parsed(file, "a number", |text| text.trim().parse().ok())
    }

    /// What `parse` makes of `file`.
    pub(super) fn parsed<T>(
        self,
        file: &str,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, TopologyError> {
        let Some(text) = self.text(file)? else { return Ok(None) };
        let malformed = || {
            let found = text.trim().chars().take(64).collect();
            TopologyError::Malformed { path: self.path(file), expected, found }
        };
        parse(&text).map(Some).ok_or_else(malformed)
    }
}
