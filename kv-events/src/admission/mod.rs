//! Which batches of a stream are applied, what is asked for, and what the result is worth.
//!
//! Admission comes before everything that keeps state: a batch that was applied already must not touch copies or index, a gap is
//! closed from the replay socket or owned up to, and a publisher that starts again starts the stream again. A [`Follower`]
//! follows one rank of one worker. Its caller tells it what the sockets bring, and makes the [`Step`]s that it returns; each
//! brings the [`Trust`] that holds once it is made, so that whoever reads the index reads beside it what it is worth.
//!
//! ```
//! use std::time::Duration;
//!
//! use kv_events::admission::{Change, Request};
//! use kv_events::wire::frame::Message;
//! use kv_events::{Delivery, Follower, ReplayOutcome, Source, Trust};
//!
//! let mut follower = Follower::new(Source::EngineWithReplay, 7);
//! let now = Duration::ZERO;
//! follower.handle_connected(now);
//! assert_eq!(follower.poll_request(), Some(Request::Replay { session: 1, from: 0 }));
//! let first = Message { topic: b"", sequence: 0, payload: b"\x92\x01\x90" };
//! follower.handle_replayed(now, 1, Delivery::decode(&first));
//! assert!(matches!(follower.poll_step().unwrap().change, Change::Apply { sequence: 0, .. }));
//! follower.handle_replay_end(now, 1, ReplayOutcome::Complete);
//! // The end is believed when it comes right behind the last batch.
//! assert_eq!(follower.poll_request(), Some(Request::Replay { session: 2, from: 0 }));
//! assert_eq!(follower.trust(), Trust::ExactAsOf { sequence: 0 });
//! follower.handle_replayed(now, 2, Delivery::decode(&first));
//! follower.handle_replay_end(now, 2, ReplayOutcome::Complete);
//! assert_eq!((follower.poll_step().unwrap().change, follower.trust()), (Change::Nothing, Trust::Exact));
//! ```
//!
//! # The life of a publisher
//! Numbers start at 0 in each life of a publisher, and no wire says when one ends. What does:
//!
//! * **Payloads.** Each holds the time of its publication, so two lives say different things under one number. The fingerprints
//!   of the last batches are kept, and whatever comes again is compared: live, and in every replay, which therefore begins at a
//!   batch that is known (the *anchor*), not behind it. That finds a restart that a disconnection hid, also where the new life's
//!   numbers are past ours.
//! * **What is missing.** A publisher keeps its last batch the longest. One that has told all it has, without ours, is
//!   another life.
//! * **Numbers.** Without a fingerprint to compare, a live batch at or below the last is a restart if it clears the rank, is the
//!   first of its connection, is number 0 or 1, or lies 1,024 below; what a replay brought ahead of the live socket is not
//!   ([`Cursor`]).
//!
//! A connection is *proven* once it has shown a batch of the life that is followed. Until then no batch of it is applied if the
//! replay socket can be asked first: what was published before a question is answered by it, so that a batch it does not show is
//! of an earlier life, still under way on an old connection. It costs one small question for each connection.
//!
//! Taken for granted is that a connection ends with its publisher's life, or that the first batch of the next life arrives on it;
//! and that the replay socket is the publisher's own. A socket that contradicts its publisher three times is left alone, and the
//! stream says that its life is not verified.
//!
//! # Asking
//! ```text
//!               connected · gap · first batch of a connection · 5 s of silence · lag · pause over
//!             +------------------------------------------------------------------------------+
//!             |                                                                              v
//!       +-----------+   end marker: release what was held, confirm                    +-----------+
//!       | following | <-------------------------------------------------------------- | replaying | <-+ hole, broke off,
//!       |           |                                                                 |   held    | --+ or news at its
//!       +-----------+ <-----------+                                    +------------- +-----------+     end: at most 8 times
//!             |                   | pause over (0.25 s to 30 s)        |                    |
//!             | gaps are owned    |                                    | no end marker in   | another life: restart,
//!             | up to at once   +---------+                            | 5 s of silence     | and from 0 (counts as
//!             +---------------> | resting | <--------------------------+ or 30 s            | one of the 8)
//!                               +---------+                                                v
//! ```
//! * Live batches that come while a replay is under way are held, within bounds, and judged after it. What finds no
//!   room is a gap.
//! * A gap is asked for once. A hole in the answers is asked for once more, because publishers' sockets drop answers to slow
//!   readers. What is missing then is lost: up to 1,024 batches, and the stream goes on degraded; more, and what it held is
//!   thrown away.
//! * An end marker is the end only right behind our last batch. Behind news it proves little: the socket may have dropped the
//!   last answers and not the marker. So it is asked once more, unless the connection has shown the last batch itself.
//! * A degraded stream is repaired by a replay that reaches back to batch 0, or to a clear of the rank: only when such a batch
//!   has come is the stream cleared and rebuilt from it. If the publisher has kept neither, it is not tried again before
//!   something new is missing.
//! * A clear of the whole rank makes a stream whole again, whatever was missing before it.
//!
//! # Trust
//! | what is known | replay socket | none |
//! |---|---|---|
//! | everything came, and the publisher said that this is the last, or has shown it live | exact | |
//! | everything came up to the last | exact as of it: disconnected, or not asked yet | exact as of it |
//! | batches are missing in the middle or before the first; parts could not be read; stores wait, found no room or were refused | degraded | degraded |
//! | a new connection to perhaps another life | asked at once; degraded (unverified) if it does not answer | degraded (unverified) |
//! | cleared, and replayed from the start, without a loss so far | resyncing | |
//! | nothing yet | unheard: a publisher that keeps nothing answers as one that has published nothing | unheard |
//!
//! Degraded streams say since when, by how many batches, why, and whether asking can still repair them ([`Degraded`]).
//!
//! # A relay
//! With a relay as the [`Source`] lives have names, and there is no replay socket: a gap ends the stream, which is resumed once
//! behind the last batch; what the relay does not have either is lost, and then everything is asked for once, which brings a
//! snapshot. Its parts stand outside of the rules; half of one is worth nothing. Heartbeats (`load_only`) enter no cursor; they
//! confirm the last batch, if the relay says that it is its engine's. With every message the relay says whether it doubts that its
//! publisher is still the same; while it does, the stream is degraded and not verified, and only the relay can end that.

mod clock;
mod cursor;
mod delivery;
mod follower;
mod held;
mod live;
mod orders;
mod pause;
mod recent;
mod replay;
mod resume;
mod session;
mod trust;
mod worth;

pub(crate) use self::pause::Pause;
pub use cursor::{Cursor, Verdict};
pub use delivery::Delivery;
pub use follower::{Follower, Source};
pub use orders::{Change, FollowerCounts, Request, Step};
pub use resume::SnapshotPart;
pub use session::ReplayOutcome;
pub use trust::{Degraded, Findings, Trust};
