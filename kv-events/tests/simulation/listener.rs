//! Who listens to the engines: the gateways themselves, or a relay for them.

use std::time::Duration;

use crate::engine::Engine;
use crate::plan::Op;
use crate::random::Random;
use crate::source::{Answer, Live, Source};

/// Why a run failed.
pub(crate) type Failure = String;

/// One rank of the engine, and what has happened to it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) source: Source,
    pub(crate) replays: bool,
    /// The listener's process: what was sent to a former one does not reach it.
    pub(crate) process: u64,
    /// A fault has touched the stream since its listener began.
    pub(crate) touched: bool,
    /// All that its link may lose can be had from the replay socket, at any time.
    pub(crate) keeps_all: bool,
    /// When the engine last changed.
    pub(crate) changed: Duration,
}

/// A question to a rank's replay socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) rank: usize,
    pub(crate) session: u64,
    pub(crate) from: u64,
}

/// What an action on the listener means for its connections to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    Nothing,
    /// The process that listens to this rank is another one now.
    Rank,
    /// One process listens to all of them, and is another one after this time.
    All {
        down: Duration,
    },
}

/// Something that follows the engine's ranks in virtual time.
pub(crate) trait Listener {
    /// Something comes over the link of a rank.
    fn live(&mut self, now: Duration, rank: usize, live: &Live, random: &mut Random);
    /// Something comes from its replay socket.
    fn answer(&mut self, now: Duration, rank: usize, session: u64, answer: &Answer, random: &mut Random);
    /// When it wants to be woken.
    fn next_timeout(&self) -> Option<Duration>;
    fn timeout(&mut self, now: Duration, random: &mut Random);
    /// The next question. Asked for after every call.
    fn question(&mut self) -> Option<Question>;
    /// Something happens to it.
    fn act(&mut self, now: Duration, rank: usize, op: Op, random: &mut Random) -> Ends;
    /// The faults stop.
    fn heal(&mut self);
    /// What must hold at every moment.
    fn check(&mut self, now: Duration, sites: &[Site]) -> Result<(), Failure>;
    /// What must hold after a long silence.
    fn check_quiet(&self, now: Duration, sites: &[Site]) -> Result<(), Failure>;
    /// What must hold when the faults are over for long.
    fn check_end(&self, now: Duration, sites: &[Site]) -> Result<(), Failure>;
}

impl Site {
    pub(crate) fn engine(&self) -> &Engine {
        &self.source.engine
    }

    /// Whether everything has had the time to show.
    pub(crate) fn is_silent(&self, now: Duration) -> bool {
        now.saturating_sub(self.changed) >= QUIET
    }
}

/// A silence in which everything that can show has shown: a quiet stream is asked after 5 s, a replay takes 30 s at most.
pub(crate) const QUIET: Duration = Duration::from_secs(45);
