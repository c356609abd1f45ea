//! Decisions of the design that keep it exact, each as a case that a wrong implementation would get away with elsewhere.

#[path = "../scene/mod.rs"]
mod scene;

mod holders;
mod names;
mod places;
mod refusals;
