//! Compiles the protocol files of the feature `grpc`; without it, does nothing.

use std::error::Error;

#[cfg(feature = "grpc")]
fn main() -> Result<(), Box<dyn Error>> {
    let files =
        ["kv_events.proto", "smg_common.proto", "smg_vllm.proto", "smg_sglang.proto", "smg_trtllm.proto", "smg_tokenspeed.proto"];
    println!("cargo::rerun-if-changed=proto");
    // The transport is the adapter's own choice.
    tonic_prost_build::configure()
        .build_transport(false)
        .bytes(".kv_events.v1.Batch")
        .compile_fds(protox::compile(files, ["proto"])?)?;
    Ok(())
}

#[cfg(not(feature = "grpc"))]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    Ok(())
}
