//! What events mean: each rule of normalization, copy counting and ingest by name, and a model engine against the index.

mod build;
mod engine;
mod ingest;
mod normalize;
mod predict;
