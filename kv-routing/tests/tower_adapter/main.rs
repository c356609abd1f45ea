//! Books that follow a request to the end of its answer, whatever that is.
#![cfg(feature = "tower")]

mod books;
mod ends;
mod frames;
mod readiness;
mod witness;
