//! A relay over gRPC: its server ([`serve`]), and a client for one of its ranks ([`Subscription`]).
//!
//! ```text
//!  engine --ZeroMQ--> hub::Hub --> serve ==HTTP/2==> Subscription --> admission::Follower
//!                                    `=============> gateways of the SMG family
//! ```
//!
//! Two services tell the same. Ours, `kv_events.v1.KvEvents`, says all that a relay knows: namespaces, groups, tiers, lives,
//! snapshots, loads. The other is an engine's `SubscribeKvEvents` as the SMG family of gateways calls it, for those that exist;
//! what becomes of the rest is in [`smg`].
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use kv_events::adapter::grpc::{Subscription, SubscriptionEvent};
//! use kv_events::admission::Request;
//! use kv_events::{Follower, Source};
//!
//! let mut subscription = Subscription::new(&"grpc://10.0.0.7:5600".parse()?, 0);
//! let mut follower = Follower::new(Source::Relay, 7);
//! let begun = tokio::time::Instant::now();
//! loop {
//!     let event = subscription.next().await;
//!     let now = begun.elapsed();
//!     match event {
//!         SubscriptionEvent::Connected => follower.handle_connected(now),
//!         SubscriptionEvent::Update { update, bytes } => update.hand_to(now, bytes, &mut follower),
//!         SubscriptionEvent::Rejected { .. } => follower.handle_rejected(now),
//!         SubscriptionEvent::Disconnected { .. } => follower.handle_disconnected(now),
//!         SubscriptionEvent::Unsupported { status } => return Err(status.into()),
//!         SubscriptionEvent::Unreadable(_) | SubscriptionEvent::Unreachable { .. } => {}
//!     }
//!     while let Some(step) = follower.poll_step() {
//!         println!("{step:?}");
//!     }
//!     if let Some(Request::Resubscribe { after }) = follower.poll_request() {
//!         subscription.resubscribe(after);
//!     }
//! }
//! # }
//! ```
//!
//! # Slow and hostile ends
//! A reader that does not read fills its own HTTP/2 window and [`STREAM_QUEUE_MAX`](limits::STREAM_QUEUE_MAX) messages, and is then
//! asked for nothing: what it misses waits in the relay's window, is refilled from there when it reads again, and ends with
//! `DATA_LOSS` when the window has passed it. Connections, subscriptions, requests and messages are bounded ([`limits`]). An event
//! that cannot be read costs itself, and its batch says so; see the table of [`Remedy`] for what ends a stream and what follows.

mod client;
mod event;
pub mod limits;
mod message;
pub mod proto;
mod server;
pub mod smg;
mod status;
mod stream;
mod update;

pub use self::client::{AddressError, RelayAddress, Subscription, SubscriptionEvent};
pub use self::message::MessageError;
pub use self::server::serve;
pub use self::status::Remedy;
pub use self::update::{News, Update};
