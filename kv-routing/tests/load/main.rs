//! Loads, as a router sees them.

mod ledger;
mod wire;
