//! Snapshots: what is written comes back, in any index, and nothing that is damaged does.

mod beside;
mod damage;
mod round_trip;
mod shapes;
mod shared;
mod wire;
