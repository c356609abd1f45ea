//! Every cause of the doctor, produced through the real pipeline: from bytes on a subscription to a diagnosis.

mod causes;
#[path = "../relay/encode.rs"]
mod encode;
mod scene;
