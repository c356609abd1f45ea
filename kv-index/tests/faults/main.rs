//! Faults of the closest peers, each reproduced on one of them, that this design must not have. Memory has tests of its own in
//! `faults_memory.rs`.

#[path = "../scene/mod.rs"]
mod scene;

mod beside_growth;
mod ids;
mod siblings;
mod without_end;
