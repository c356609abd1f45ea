//! One message of a relay's stream, as both ends of it understand it.

use std::time::Duration;

use crate::admission::SnapshotPart;
use crate::relay::{Chunk, Heartbeat, LoadSample, Relayed};
use crate::{Batch, Delivery, Follower, Incarnation};

/// One message of a relay's stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The rank.
    pub rank: u32,
    /// The life of the rank's publisher.
    pub incarnation: Incarnation,
    /// The number of the batch; of the last batch that the snapshot covers; of the last batch that was sent.
    pub sequence: u64,
    /// It is not known whether the publisher is the one whose batches were sent before.
    pub doubted: bool,
    /// The rank's load, where it is known.
    pub load: Option<LoadSample>,
    /// What it says.
    pub news: News,
}

/// What a message says of a rank's cache.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// A batch as it was published.
    Published {
        /// Batches directly before it that nobody has any more.
        missed: u64,
        /// What it says.
        batch: Batch,
    },
    /// A piece of a snapshot.
    Chunk {
        /// Its place among the pieces, from 0.
        index: u64,
        /// How many pieces there are.
        count: u64,
        /// Physical copies in the whole snapshot.
        total: u64,
        /// Batches from before what the relay knows, which hide blocks.
        unknown_before: u64,
        /// Batches lost since: what is told may be gone.
        lost: u64,
        /// What it says.
        batch: Batch,
    },
    /// Nothing new.
    Heartbeat {
        /// Whether the engine has nothing behind the last batch, as far as the relay can know.
        vouched: bool,
    },
}

impl Update {
    /// Tells `follower`, whose source is this relay. `bytes` is the length of the message, which steps carry on as their cost. A piece
    /// of a snapshot of more than `u32::MAX` pieces is passed over, and what follows it finds the snapshot unfinished.
    pub fn hand_to(self, now: Duration, bytes: usize, follower: &mut Follower) {
        let Self { incarnation, sequence, doubted, news, .. } = self;
        follower.handle_doubt(now, doubted);
        match news {
            News::Published { batch, .. } => {
                let incarnation = Some(incarnation);
                follower.handle_live(now, Delivery { sequence, incarnation, fingerprint: None, bytes, batch });
            }
            News::Chunk { index, count, unknown_before, lost, batch, .. } => {
                let (Ok(index), Ok(count)) = (u32::try_from(index), u32::try_from(count)) else { return };
                let part = SnapshotPart { incarnation, through: sequence, index, count, unknown_before, lost, bytes, batch };
                follower.handle_snapshot(now, part);
            }
            News::Heartbeat { vouched } => follower.handle_heartbeat(now, incarnation, sequence, vouched),
        }
    }
}

impl From<Relayed> for Update {
    /// Decodes the batch, which may take a while.
    fn from(relayed: Relayed) -> Self {
        let Relayed { rank, incarnation, missed, doubted, batch, load } = relayed;
        let (sequence, news) = (batch.sequence, News::Published { missed, batch: batch.decode() });
        Self { rank, incarnation, sequence, doubted, load, news }
    }
}

impl From<Chunk> for Update {
    fn from(chunk: Chunk) -> Self {
        let Chunk { rank, incarnation, index, count, through, total, unknown_before, lost, doubted, load, batch } = chunk;
        let news = News::Chunk { index, count, total, unknown_before, lost, batch };
        Self { rank, incarnation, sequence: through, doubted, load, news }
    }
}

impl From<Heartbeat> for Update {
    fn from(beat: Heartbeat) -> Self {
        let Heartbeat { rank, incarnation, sequence, vouched, doubted, load } = beat;
        Self { rank, incarnation, sequence, doubted, load, news: News::Heartbeat { vouched } }
    }
}
