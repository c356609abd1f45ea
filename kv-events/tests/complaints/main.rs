//! What users of other routers complain about, as tests of the event path; and the list of where each is, checked.

#[allow(dead_code, reason = "other tests say more with it")]
#[path = "../meaning/build.rs"]
mod build;
#[path = "../relay/encode.rs"]
mod encode;
mod listed;
mod named;
